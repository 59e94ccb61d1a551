"""Locations of the data of the objectives, for the kernels of a tick."""

from typing import Any

import warp as wp

from ik_service.compiler import FIXED, GOAL, TURN, DataInput, IslandProgram
from ik_service.control.control_tasks import ControlTasks
from ik_service.control.tick.arrays import TickArrays
from ik_service.control.tick.task import HOLDING, device_array
from ik_service.solver.rows.blocks import Rows
from objectives import InputError
from objectives.expression.rows import ROW_WEIGHTS


class TickData:
    """Addresses of the data read by programs: of the objectives in `tasks`, with these rows."""

    def __init__(self, tasks: ControlTasks, rows: Rows, arrays: TickArrays, robots: int, device: wp.Device) -> None:
        self._tasks, self._rows, self._arrays, self._robots, self._device = tasks, rows, arrays, robots, device

    def version(self) -> int:
        """Number that grows when an objective of the caller replaces an array."""
        further = self._tasks.objectives[len(self._tasks.targets) : self._tasks.task_count]
        return sum(objective.data_version for objective in further)

    def inputs(self, program: IslandProgram) -> dict[str, Any]:
        """Give arrays with locations and kinds of the program's data."""
        device, inputs = self._device, program.inputs
        quaternions = {key for key, data in self._tasks.wide.items() if data.is_quaternion}
        first = [k for k, one in enumerate(inputs) if (one.objective, one.field) in quaternions and one.column == 0]
        holding, count = (self._tasks.damping, ROW_WEIGHTS), self._tasks.task_count
        of_task = [
            int(HOLDING) if (one.objective, one.field) == holding else int(0 <= one.objective < count) for one in inputs
        ]
        columns = len(inputs) + len(program.dofs)
        addresses = {
            name: device_array(values, wp.uint64 if name == "source" else wp.int32, device)
            for name, values in self.addresses(program).items()
        }
        return addresses | {
            "source_task": device_array(of_task, wp.int32, device),
            "quaternion": device_array(first, wp.int32, device),
            "input_before": wp.full((self._robots, columns), wp.nan, dtype=wp.float64, device=device),
        }

    def array(self, one: DataInput) -> "wp.array[Any]":
        """Return the array with the data of a program's input."""
        if one.field == FIXED:
            return self._arrays.joint_q.device
        objectives: Any = self._rows.objectives
        wide = self._tasks.wide.get((one.objective, one.field))
        array: wp.array[Any] = objectives[one.objective].data(one.field) if wide is None else wide.array
        return array

    def addresses(self, program: IslandProgram) -> dict[str, list[int]]:
        """Give locations of the data of the objectives, for the kernel of a program."""
        objectives: Any = self._rows.objectives
        lines = []
        for one in program.inputs:
            if one.field in (GOAL, TURN):
                lines.append((0, 0, 0, 0))
                continue
            wide = self._tasks.wide.get((one.objective, one.field))
            array = self.array(one)
            if one.field != FIXED:
                self._check_lines(objectives[one.objective], one.field, array.shape[0])
            size, first = wp.types.type_size_in_bytes(array.dtype), 0 if wide is None else wide.first
            is_wide = int(wide is not None or one.field == FIXED)
            lines.append((array.ptr + size * (first + one.column), array.shape[0], array.strides[0] // size, is_wide))
        names = ("source", "source_lines", "source_stride", "source_wide")
        columns = zip(*lines, strict=True) if lines else [()] * len(names)
        return {name: list(values) for name, values in zip(names, columns, strict=True)}

    def _check_lines(self, objective: Any, field: str, lines: int) -> None:
        objective.require_problem_count(self._robots)
        if 1 < lines < self._robots:
            owner = type(objective).__name__
            raise InputError(f"{owner}: field '{field}' has {lines} lines; allowed: 1, or {self._robots} robots.")

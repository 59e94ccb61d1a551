"""Islands of a controller: joints and rows, kernels, data of the objectives, launches, and their record for C.

targets, objectives, posture and damping rows -> blocks of rows -> islands, found once
each island -> its program -> iteration and measurement in float64 -> a kernel and its task
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import (
    FIXED,
    FLOAT64_ERROR,
    GOAL,
    TURN,
    DataInput,
    IslandProgram,
    IslandSignature,
    Lanes,
    error_outputs,
    uncovered,
)
from ik_service.control.clearance.limit import ClearanceLimit
from ik_service.control.control_tasks import ControlTasks
from ik_service.control.target_filter import shape_targets
from ik_service.control.tick.arrays import HOLDING, TickArrays, TickTask, device_array, packed_launch
from ik_service.control.tick.kernel import TickCode, tick_code
from ik_service.errors import EngineError
from ik_service.kernels.device_lock import device_work
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, load_kernels
from ik_service.mechanism.coupling import follower_numbers
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.partition import common_partition
from ik_service.solver.compiled.island_task import island_constants
from ik_service.solver.recorded_launches import RecordedLaunches, RecordedStep
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.rows.layout import Support, island_parts
from ik_service.solver.rows.weights import RowWeights, objective_weights
from objectives import IKJacobianType, InputError
from objectives.expression.rows import ROW_WEIGHTS
from objectives.tasks.joints import JOINT_Q_REFERENCE


class TickData:
    """Addresses of the data read by programs: of the objectives in `tasks`, with these rows."""

    def __init__(self, tasks: ControlTasks, rows: Rows, arrays: TickArrays, robots: int, device: wp.Device) -> None:
        self._tasks, self._rows, self._arrays, self._robots, self._device = tasks, rows, arrays, robots, device
        self.further = tuple(tasks.objectives[len(tasks.targets) : tasks.task_count])  # objectives of the caller

    def version(self) -> int:
        """Number that grows when an objective of the caller replaces an array."""
        return sum([objective.data_version for objective in self.further])

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
                objective, count = objectives[one.objective], array.shape[0]
                objective.require_problem_count(self._robots)
                if 1 < count < self._robots:
                    owner, allowed = type(objective).__name__, f"1, or {self._robots} robots"
                    raise InputError(f"{owner}: field '{one.field}' has {count} lines; allowed: {allowed}.")
            size, first = wp.types.type_size_in_bytes(array.dtype), 0 if wide is None else wide.first
            is_wide = int(wide is not None or one.field == FIXED)
            lines.append((array.ptr + size * (first + one.column), array.shape[0], array.strides[0] // size, is_wide))
        names = ("source", "source_lines", "source_stride", "source_wide")
        columns = zip(*lines, strict=True) if lines else [()] * len(names)
        return {name: list(values) for name, values in zip(names, columns, strict=True)}


TARGET_ROWS = 6


@dataclass(frozen=True)
class TickIsland:
    """An island of a controller."""

    program: IslandProgram
    kernel: wp.Kernel
    launch: Callable[[], None]  # launches the kernel on `task` and `states`
    task: Any
    states: wp.array2d[Any]  # states of its packets between launches


def lanes_on(device: wp.Device, robots: int) -> Lanes:
    """Return the packets for ticks of robots, always float64.

    On a CPU, more robots than one packet holds share packets of twice the width, which hide more latency: a quarter
    less time for 64 robots with AVX-512, a twentieth less with AVX2.
    """
    if device.is_cuda:
        return Lanes(1, "float64")
    lanes = Lanes.on_cpu("float64")
    return lanes if robots <= lanes.width else replace(lanes, width=2 * lanes.width)


class TickIslands:
    """The islands of a controller, and the locations of their objectives' data."""

    def __init__(self, model: DeviceModel, tasks: ControlTasks, arrays: TickArrays, robots: int) -> None:
        self._model, self._tasks, self._robots, self.device = model, tasks, robots, model.device
        reason = uncovered(tasks.objectives)
        if reason is not None:
            raise EngineError(f"A controller takes objectives that can be compiled: {reason}.")
        count = len(tasks.targets)
        targets, others = tasks.objectives[:count], tasks.objectives[count:]
        self._rows = Rows(model, targets, others, IKJacobianType.ANALYTIC)
        self._rows.bind_data()
        self._support = Support(model, self._rows)
        blocks = [objective_weights(objective) for objective in tasks.objectives]
        for target, block in zip(tasks.targets, blocks, strict=False):
            if ((block > 0.0) != (block[:1] > 0.0)).any():
                raise InputError(
                    f"Target '{target.link}' has row_weights that are 0 for some robots only. A row is there for all "
                    "robots of a controller or for none; give the others a controller of their own."
                )
        weights = RowWeights(np.hstack([block.max(axis=0, keepdims=True) for block in blocks]))
        self._partition = common_partition(weights, self._support.trees, model.device, join=False)
        self._unmoved_rows = np.asarray(weights.on & (self._partition.row_island[0] < 0))
        self._lanes = lanes_on(model.device, robots)
        self.data = TickData(tasks, self._rows, arrays, robots, model.device)
        self._version = self.data.version()
        codes = [self._code(k, arrays) for k in range(int(self._partition.nisland[0]))]
        load_kernels({code.kernel.module: LAUNCH_BLOCK for code in codes}, model.device)  # side by side
        self.islands = [self._island(k, code, arrays) for k, code in enumerate(codes)]
        if not self.islands:
            raise InputError("All rows have the weight 0, so there is nothing to do. Give one a weight.")

    def _code(self, island: int, arrays: TickArrays) -> TickCode:
        kinds: dict[str, Any] = {"clears": arrays.clears, "smooths": len(arrays.smoothed) > 0}
        kinds["shape"] = shape_targets if arrays.shapes else None
        return tick_code(self._signature(island), self._lanes, self._model.robot.length_unit, **kinds)

    def _island(self, island: int, code: TickCode, arrays: TickArrays) -> TickIsland:
        device, kernel, program = self._model.device, code.kernel, code.program
        task: Any = TickTask()
        task.island = island
        for name, array in {**arrays.of_task(), **self._constants(program), **self.data.inputs(program)}.items():
            setattr(task, name, array)
        packets = -(-self._robots // self._lanes.width)
        states: Any = wp.zeros((packets, 1), dtype=code.state_type, device=device)
        return TickIsland(program, kernel, packed_launch(kernel, packets, [task, states], device), task, states)

    def _signature(self, island: int) -> IslandSignature:
        """Give the signature of an island; tasks and loops have goals, and beside targets the posture."""
        partition, tasks = self._partition, self._tasks
        trees, rows = (np.flatnonzero(of[0] == island) for of in (partition.tree_island, partition.row_island))
        is_beside = tasks.posture is not None and bool((self._rows.row_kind[rows] == RowKind.TARGET).any())
        return IslandSignature.of(
            *island_parts(self._rows, self._support, trees, rows),
            half_angle_error=FLOAT64_ERROR,
            goal_count=tasks.loops.stop + is_beside,
            limit_turns=True,
            judged=self._judged_rows(rows),
            tolerated=tasks.loops,
            constraints=tasks.loops,
            secondary=self._rows.secondary,
        )

    def _judged_rows(self, rows: NDArray[np.intp]) -> list[int]:
        """Give weighted rows that no joint moves, of the island's targets: unmet rows must count against the target."""
        found: list[int] = []
        for start in [self._rows.start[k] for k in self._rows.of_kind(RowKind.TARGET)]:
            own = np.arange(start, start + TARGET_ROWS)
            if np.isin(own, rows).any():
                found += [int(row) for row in own[self._unmoved_rows[own]]]
        return found

    def unmoved_coordinates(self) -> NDArray[np.intp]:
        """Return the coordinates not moved by any island, locked joints included."""
        robot, unmoved = self._model.robot, self.unmoved_dofs()
        found: list[int] = []
        for joint in np.unique(np.searchsorted(robot.joint_qd_start, np.flatnonzero(unmoved), side="right") - 1):
            dofs = range(robot.joint_qd_start[joint], robot.joint_qd_start[joint + 1])
            own = [int(robot.dof_coordinate[dof]) for dof in dofs if unmoved[dof]]
            end = int(robot.joint_q_start[joint + 1])
            found += range(end - 4, end) if -1 in own else []
            found += [c for c in own if c >= 0]
        return np.array(found, dtype=np.intp)

    def unmoved_dofs(self) -> NDArray[np.bool_]:
        """Return the mask of DOFs not moved by any island, locked DOFs included, shape [joint_dof_count]."""
        robot = self._model.robot
        moved = [a for island in self.islands for a in island.program.dofs]
        return np.asarray(~np.isin(robot.dof_active, moved))

    def forget_last_tick(self) -> None:
        """Treat the tasks of the next tick as static, and forget trials beside resting robots."""
        with device_work(self._model.device):
            for island in self.islands:
                island.task.input_before.fill_(wp.nan)

    def last_tasks(self) -> list[Any]:
        """Return the tasks of the last tick, for `take_last_tasks`."""
        return [wp.clone(island.task.input_before) for island in self.islands]

    def take_last_tasks(self, tasks: Sequence[Any]) -> None:
        """Restore the tasks of the last tick."""
        for island, own in zip(self.islands, tasks, strict=True):
            wp.copy(island.task.input_before, own)

    def refresh(self) -> None:
        """Load arrays replaced by objectives."""
        if not self.data.further or (version := self.data.version()) == self._version:
            return
        found = [self.data.addresses(island.program) for island in self.islands]
        with device_work(self._model.device):
            for island, addresses in zip(self.islands, found, strict=True):
                for name, values in addresses.items():
                    getattr(island.task, name).assign(np.asarray(values))
        self._version = version

    def _constants(self, program: IslandProgram) -> dict[str, Any]:
        """Give arrays with DOFs and coordinates of an island; numbers in float64."""
        robot, device = self._model.robot, self._model.device
        found = island_constants(program, self._model)
        columns = found["follower"].numpy()
        followers = [int(np.flatnonzero(robot.dof_coordinate == column)[0]) for column in columns]
        numbers = follower_numbers(robot, followers, robot.joint_limit_lower, robot.joint_limit_upper)
        targets = [e.target for e in program.errors for part in (e.position2, e.chord2) if part is not None]
        assert len(targets) == len(error_outputs(program)) - (program.row_error2 is not None)
        return found | {
            "robot_dof": device_array([robot.active_dof[a] for a in program.dofs], wp.int32, device),
            "follower_dof": device_array(followers, wp.int32, device),
            "follower_number": device_array(numbers, wp.float64, device),
            "error_target": device_array(targets, wp.int32, device),
        }


ISLAND = "tick"  # phase of the launches of islands


@dataclass(frozen=True)
class RecordedTicks:
    """The launches of a tick, and the content of its arrays."""

    # one step per island, of phase `ISLAND`, and the step of a clearance limit, of phase `KEEP_STEP`; `numbers` holds
    # all arrays that change
    launches: RecordedLaunches
    data: tuple[str, ...]  # names of the arrays with data of objectives
    unmoved_coordinates: tuple[int, ...]  # coordinates not moved by any island
    unmoved_dofs: tuple[int, ...]  # DOFs not moved by any island
    iterations: int  # most steps of a tick without a deadline


def record_ticks(
    tasks: ControlTasks, islands: TickIslands, arrays: TickArrays, iterations: int, clearance: ClearanceLimit | None
) -> RecordedTicks:
    """Return the launches of a tick on a CPU; `iterations` is the most steps of a tick without a deadline."""
    numbers = {**arrays.of_task(), "targets": arrays.targets.device}
    data = _data(tasks, islands, {array.ptr for array in numbers.values()})
    loops = [tasks.objectives[number] for number in tasks.loops]
    loop_data = tuple(one.data(field) for one in loops for field in one.data_rows())  # never changes
    steps = []
    for k, island in enumerate(islands.islands):
        steps.append(RecordedStep(ISLAND, island.kernel, (island.task, island.states), False, str(island.states.size)))
        numbers |= {f"input_before_{k}": island.task.input_before, f"states_{k}": island.states}
    if clearance is not None:
        step, further = clearance.recorded()
        steps.append(step)
        numbers |= further
    return RecordedTicks(
        RecordedLaunches(tuple(steps), {}, numbers | data, loop_data),
        data=tuple(data),
        unmoved_coordinates=tuple(int(c) for c in islands.unmoved_coordinates()),
        unmoved_dofs=tuple(int(dof) for dof in np.flatnonzero(islands.unmoved_dofs())),
        iterations=iterations,
    )


def _data(tasks: ControlTasks, islands: TickIslands, others: set[int]) -> dict[str, "wp.array[Any]"]:
    inputs = [
        one
        for island in islands.islands
        for one in island.program.inputs
        if one.field not in (GOAL, TURN, FIXED) and one.objective not in tasks.loops
    ]
    arrays = {_label(tasks, one.objective, one.field): islands.data.array(one) for one in inputs}
    found: dict[str, wp.array[Any]] = {}
    for label, array in sorted(arrays.items()):
        if array.ptr not in others | {one.ptr for one in found.values()}:
            found[label] = array
    return found


def _label(tasks: ControlTasks, number: int, field: str) -> str:
    targets = len(tasks.targets)
    if number < targets:
        return f"target_{number}_{field}"
    if number < tasks.task_count:
        return f"objective_{number - targets}_{field}"
    posture = tasks.posture is not None and number == tasks.loops.stop
    if posture and field == JOINT_Q_REFERENCE:
        return "posture"
    return f"{'posture' if posture else 'damping'}_{field}"

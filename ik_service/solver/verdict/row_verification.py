"""Rows of the statements in float64, without weights, at the returned configurations.

    rows with tolerances: configurations -> poses of all bodies -> rows -> islands with a missed row
    constraints of the robot, enabled or not: largest errors, then coordinates of closing joints; these are not judged

The statements are the objectives' own; kinematics is shared with the verification of targets.
"""

import hashlib
import textwrap
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import cpu_target
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.parts import first_problem
from ik_service.solver.rows.binding import has_row_tolerances, is_constraint, is_robot_constraint
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.verdict.composition import MISSED, OPEN
from ik_service.solver.verdict.float64_kinematics import body_poses, float64_kinematics
from objectives import IKObjectiveLoop
from objectives.expression import Expression
from objectives.expression.element_table import ElementTable
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.kernels import loads, straight_line
from objectives.expression.rows import ROW_TOLERANCES, RowGroup, state_rows

EXACT_ARGUMENTS = """\
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    body_q: wp.array2d[wp.transformd],
    joint_q: wp.array2d[wp.float64],
    element_table: wp.array2d[int],
    frame_offsets: wp.array2d[wp.transformd],
    element_constants: wp.array2d[wp.float64],
"""
"""First arguments of kernels that compute rows in float64."""
_ARGUMENTS = f"""\
{EXACT_ARGUMENTS}\
    row_tolerances: wp.array2d[float],
    row_island: wp.array2d[wp.int32],
    start_idx: int,
    mark: int,
    missed_out: wp.array2d[wp.int32],
"""


@wp.func
@typing.no_type_check
def judge_row(
    value: wp.float64,
    p: int,
    row: int,
    row_weights: wp.array2d[float],  # [1 or problems, rows of the objective]
    row_tolerances: wp.array2d[float],  # [1 or problems, rows of the objective]
    row_island: wp.array2d[wp.int32],  # [1 or problems, rows]
    start_idx: int,
    mark: int,  # MISSED or OPEN
    missed_out: wp.array2d[wp.int32],  # [problem_capacity, trees + 1]; last: rows of no island
):
    """Mark the island of a row outside its tolerance; rows without weight or tolerance are not judged."""
    tolerance = row_tolerances[wp.min(p, row_tolerances.shape[0] - 1), row]
    if row_weights[wp.min(p, row_weights.shape[0] - 1), row] > 0.0 and tolerance < wp.inf:
        if not wp.abs(value) <= wp.float64(tolerance):
            island = row_island[wp.min(p, row_island.shape[0] - 1), start_idx + row]
            place = wp.where(island >= 0, island, missed_out.shape[1] - 1)
            missed_out[p, place] = wp.max(missed_out[p, place], mark)


def exact_rows(group: RowGroup, *, weighted: bool) -> tuple[list[str], list[str]]:
    """Return the lines of code for the rows of an element in float64, and their variables."""
    # With `weighted` the lines load the weights of the rows, which do not scale the rows here
    stated, names = state_rows(group), dict[Expression, str]()
    body = [*loads(group, stated, exact=True, weighted=weighted), *straight_line(stated.plain, names, exact=True)]
    return body, [names[row] for row in stated.plain]


def exact_kernel(
    name: str, arguments: str, data_count: int, lines: Sequence[str], functions: Mapping[str, Any]
) -> wp.Kernel:
    """Return a kernel of generated text, in its own module; `data_count` arrays of data follow the arguments."""
    data = "".join(f"    data{k}: wp.array2d[float],\n" for k in range(data_count))
    text = f"def {name}(\n{arguments}{data}):\n{textwrap.indent(chr(10).join(lines), '    ')}\n"
    namespace = {"wp": wp, **functions}
    exec(compile(text, f"<{name}>", "exec"), namespace)
    module = wp.get_module(f"rows_{name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    wp.set_module_options({"enable_backward": False, "cpu_compiler_flags": cpu_target().flags}, module)
    return wp.Kernel(namespace[name], key=name, module=module, source=text)


@cache
def row_kernel(group: RowGroup) -> wp.Kernel:
    """Return the kernel to judge the rows of a group's elements, a thread for each problem."""
    (body, values), weights = exact_rows(group, weighted=True), f"data{len(group.data)}"
    totals = [f"total{k}" for k in range(len(values))]
    if group.summed:
        body += [f"{total} = {total} + {value}" for total, value in zip(totals, values, strict=True)]
        values = totals
    given = f"{weights}, row_tolerances, row_island, start_idx, mark, missed_out"
    judge = [f"judge_row({value}, i, element_table[e, 0] + {k}, {given})" for k, value in enumerate(values)]
    lines = ["i = first_problem(settings, part, parts) + wp.tid()", "problem = i"]
    if group.summed:
        lines += [f"{total} = wp.float64(0.0)" for total in totals]
    lines += ["for e in range(element_table.shape[0]):", *(f"    {line}" for line in body)]
    lines += [line.replace("[e, 0]", "[0, 0]") for line in judge] if group.summed else [f"    {one}" for one in judge]
    functions = {"first_problem": first_problem, "judge_row": judge_row}
    return exact_kernel(f"{group.name}_verdict", _ARGUMENTS, len(group.data) + 1, lines, functions)


@dataclass(frozen=True)
class JudgedGroup:
    """The elements of one group on the device, in float64."""

    objective: ExpressionObjective  # objective of the elements
    start: int  # its first row
    group: RowGroup
    arrays: tuple[wp.array[Any], ...]  # data of the elements for the kernel

    @classmethod
    def of(cls, objective: ExpressionObjective, start: int, table: ElementTable, device: Any) -> "JudgedGroup":
        """Copy the elements of a group to the device."""
        arrays: tuple[wp.array[Any], ...] = (
            wp.array(table.integers, dtype=wp.int32, device=device),
            wp.array(table.frame_offsets, dtype=wp.transformd, device=device),
            wp.array(table.constants.reshape(len(table.integers), -1), dtype=wp.float64, device=device),
        )
        return cls(objective, start, table.group, arrays)


class RowVerification:
    """Launches to find the islands with a row outside its tolerance."""

    def __init__(self, model: DeviceModel, rows: Rows, trees: int, capacity: int) -> None:
        self._model = model
        # poses of all bodies in float64, [capacity, body_count]; None if no row has a tolerance
        self.body_q: wp.array[Any] | None = None
        self._groups = [
            JudgedGroup.of(objective, start, table, model.device)
            for objective, start in zip(rows.objectives, rows.start, strict=True)
            if has_row_tolerances(objective)
            for table in objective.element_tables(model)
        ]
        lines = capacity if self._groups else 1
        # MISSED for an island with a missed row, OPEN if this row belongs to a loop; the last column is for rows of no
        # island, int32 [capacity or 1, trees + 1]; zero if all are within their tolerances
        self.missed: wp.array[Any] = wp.zeros((lines, trees + 1), dtype=wp.int32, device=model.device)
        if self._groups:
            self._robot = float64_kinematics(model, ())
            shape = (capacity, model.body_count)
            self.body_q = wp.zeros(shape, dtype=wp.transformd, device=model.device)

    def kernels(self) -> list[wp.Kernel]:
        """Return the kernels generated for these rows."""
        return [row_kernel(one.group) for one in self._groups]

    def steps(
        self, which: Sequence[Any], judged_q: wp.array[Any], partition: Partition
    ) -> list[tuple[wp.Kernel, list[Any]]]:
        """Return the kernels for settings, part and parts, in order, each with its arguments; judged_q in float64."""
        if not self._groups:
            return []
        device = self._model.device
        poses = [*which, self._robot, self._model.joint_parent, judged_q, self.body_q, self.missed]
        steps: list[tuple[Any, list[Any]]] = [(body_poses, poses)]
        for one in self._groups:
            objective, kernel = one.objective, row_kernel(one.group)
            load_kernels_alone(kernel.module, device)
            inputs = [*which, self.body_q, judged_q, *one.arrays, objective.data(ROW_TOLERANCES)]
            mark = int(OPEN if is_constraint(objective) else MISSED)
            inputs += [partition.device_row_island, one.start, mark, self.missed]
            inputs += [*(objective.data(name) for name, _ in one.group.data), objective.row_weights()]
            steps.append((kernel, inputs))
        return steps


_VALUE_ARGUMENTS = f"""\
{EXACT_ARGUMENTS}\
    first: int,
    values_out: wp.array2d[wp.float64],
"""


@cache
def value_kernel(group: RowGroup) -> wp.Kernel:
    """Return the kernel for the values of one element of a group, a thread for each problem."""
    body, values = exact_rows(group, weighted=False)
    lines = ["i = first_problem(settings, part, parts) + wp.tid()", "problem = i", "e = int(0)", *body]
    lines += [f"values_out[i, first + {k}] = {value}" for k, value in enumerate(values)]
    return exact_kernel(
        f"{group.name}_values", _VALUE_ARGUMENTS, len(group.data), lines, {"first_problem": first_problem}
    )


class ConstraintValues:
    """Launches for errors of constraints and coordinates of closing joints."""

    def __init__(self, model: DeviceModel, rows: Rows, capacity: int) -> None:
        objectives: list[Any] = [one for one in rows.objectives if is_robot_constraint(one)]
        tables = [(one, table) for one in objectives for table in one.element_tables(model)]
        closing = [(one, one.closing_coordinates(model)) for one in objectives if isinstance(one, IKObjectiveLoop)]
        self._device, self._groups = model.device, list[tuple[int, JudgedGroup]]()
        first = self._add(0, tables)
        starts = np.cumsum([0, *(one.residual_dim() for one in objectives)])
        self._starts = starts[:-1]
        width = self._add(first, [(one, table) for one, table in closing if table is not None])
        self._error_count = first
        # values, float64 [capacity, values]; None where there are none
        self.columns = HostDeviceArray((capacity, width), wp.float64, model.device) if width else None

    def _add(self, first: int, tables: Sequence[tuple[Any, ElementTable]]) -> int:
        """Add groups with values from column `first` on; return the column after them."""
        for objective, table in tables:
            self._groups.append((first, JudgedGroup.of(objective, 0, table, self._device)))
            first += table.group.row_count
        return first

    def kernels(self) -> list[wp.Kernel]:
        """Return the kernels generated for these constraints."""
        return [value_kernel(one.group) for _, one in self._groups]

    def steps(
        self, which: Sequence[Any], body_q: "wp.array[Any] | None", judged_q: wp.array[Any]
    ) -> list[tuple[wp.Kernel, list[Any]]]:
        """Return kernels and arguments for settings, part and parts; poses and joint_q in float64."""
        steps: list[tuple[Any, list[Any]]] = []
        for first, one in self._groups:
            assert self.columns is not None  # there are values
            kernel, data = value_kernel(one.group), [one.objective.data(name) for name, _ in one.group.data]
            load_kernels_alone(kernel.module, self._device)
            inputs = [*which, body_q, judged_q, *one.arrays, first, self.columns.device, *data]
            steps.append((kernel, inputs))
        return steps

    def read(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the largest error of each constraint and the coordinates of closing joints, of the first problems."""
        assert self.columns is not None  # there are values
        values = self.columns.read(count)
        errors = np.maximum.reduceat(np.abs(values[:, : self._error_count]), self._starts, axis=1)
        return errors, np.ascontiguousarray(values[:, self._error_count :])

"""Values of a robot's constraints at the returned configurations, in float64, enabled or not.

The errors are the rows of the statements, without weights, followed by the coordinates of the joints that close loops.
These values are not judged: see `row_verification`.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.parts import first_problem
from ik_service.solver.rows.binding import is_robot_constraint
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.verdict.row_verification import EXACT_ARGUMENTS, JudgedGroup, exact_kernel, exact_rows
from objectives import IKObjectiveLoop
from objectives.expression.element_table import ElementTable
from objectives.expression.rows import RowGroup

_ARGUMENTS = f"""\
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
    return exact_kernel(f"{group.name}_values", _ARGUMENTS, len(group.data), lines, {"first_problem": first_problem})


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
        if self.columns is None:
            nothing = np.empty((count, 0))
            return nothing, nothing
        values = self.columns.read(count)
        errors = np.maximum.reduceat(np.abs(values[:, : self._error_count]), self._starts, axis=1)
        return errors, np.ascontiguousarray(values[:, self._error_count :])

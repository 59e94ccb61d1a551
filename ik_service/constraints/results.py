"""Results of closing loops and of motions with closed loops, and the map from rows to constraints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.linear_algebra import BoolArray
from ik_service.mechanism.names import unknown_name
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError, UnknownNameError


class ConstraintRow(NamedTuple):
    """Name of a row: constraint and component."""

    constraint: str
    component: str


class RowMap:
    """Rows of constraints in the order of the constraints; `components` are the names of the rows of each."""

    def __init__(self, components: Mapping[str, Sequence[str]]) -> None:
        self._places = [ConstraintRow(name, one) for name, parts in components.items() for one in parts]
        self._names = tuple(components)
        self.count = len(self._places)  # number of rows
        # first row of each constraint and, last, the number of rows
        self.starts = tuple(np.cumsum([0, *map(len, components.values())]).tolist())

    def row_at(self, row: int) -> ConstraintRow:
        """Name a row; InputError for an unknown row."""
        if not 0 <= row < self.count:
            raise InputError(f"Row {row} is not among the rows of constraints: 0 to {self.count - 1}.")
        return self._places[row]

    def rows(self, name: str) -> slice:
        """Give the rows of a constraint; UnknownNameError for an unknown name."""
        k = constraint_index(self._names, name)
        return slice(self.starts[k], self.starts[k + 1])

    def largest(self, rows: Float64Array) -> Float64Array:
        """Give the largest absolute row of each constraint, shape [n, constraints], from rows [n, count]."""
        if not self.count:
            return np.zeros((len(rows), 0))
        return np.asarray(np.maximum.reduceat(np.abs(rows), self.starts[:-1], axis=1))

    def of_rows(self, constraints: np.ndarray) -> np.ndarray:
        """Repeat a value per constraint [..., constraints] for each of its rows, shape [..., count]."""
        return np.repeat(constraints, np.diff(self.starts), axis=-1)


def constraint_index(names: Sequence[str], name: str) -> int:
    """Find a constraint by name; UnknownNameError, with the closest and all names, for an unknown name."""
    if name not in names:
        raise UnknownNameError(unknown_name(f"Constraint '{name}' is not in the robot.", "Constraint", names, name))
    return names.index(name)


class ClosureStatus(IntEnum):
    """Outcome of closing enabled loops.

    Attributes:
        CLOSED: All rows of enabled constraints are within 1e-10 [m and rad].
        OPEN: No start closed the loops: rows contradict each other or frozen joints, or more starts are needed.
        BLOCKED_BY_LIMITS: Joint limits prevent closing.
    """

    CLOSED = 0
    OPEN = 1
    BLOCKED_BY_LIMITS = 2


@dataclass(frozen=True, eq=False)
class Closure:
    """Configurations with closed loops, or the nearest found."""

    joint_q: Float64Array  # shape [n, joint_coord_count]
    closing_joint_q: Float64Array  # coordinates of the closing joints, shape [n, closing coordinates]
    status: NDArray[np.int32]  # ``ClosureStatus`` values, shape [n]
    residual: Float64Array  # all rows, also of disabled constraints, in residual packing, shape [n, residual_count]
    constraint_error: Float64Array  # largest row of each constraint, shape [n, constraints]
    iterations: NDArray[np.int32]  # steps of the returned attempt, shape [n]
    # assembly modes, nearest first, padded with NaN, shape [n, solutions, ...]; None for one solution
    solutions: Float64Array | None = None
    solution_count: NDArray[np.int32] | None = None  # number of assembly modes found, shape [n]; None for one solution

    @property
    def closed(self) -> BoolArray:
        """Mask of the closed configurations, shape [n]."""
        return np.asarray(self.status == ClosureStatus.CLOSED)

    @property
    def status_names(self) -> list[str]:
        """Names of the statuses, in lower case."""
        return [ClosureStatus(one).name.lower() for one in self.status]


@dataclass(frozen=True, eq=False)
class FeasibleVelocity:
    """Velocities that keep loops closed."""

    joint_qd: Float64Array  # shape [n, joint_dof_count]
    closing_joint_qd: Float64Array  # velocities of the closing joints, shape [n, closing DOFs]
    # rates of all rows, residual packing, shape [n, residual_count]; frozen and locked joints can leave rates of
    # enabled constraints
    residual: Float64Array
    constraint_error: Float64Array  # largest rate of each constraint, shape [n, constraints]


@dataclass(frozen=True, eq=False)
class FeasibleAcceleration:
    """Accelerations that keep loops closed."""

    joint_qdd: Float64Array  # shape [n, joint_dof_count]
    closing_joint_qdd: Float64Array  # accelerations of the closing joints, shape [n, closing DOFs]
    residual: Float64Array  # second time derivatives of all rows, residual packing, shape [n, residual_count]
    constraint_error: Float64Array  # largest second derivative of each constraint, shape [n, constraints]


@dataclass(frozen=True, eq=False)
class DofPartition:
    """Independent DOFs, which drive a mechanism, and dependent DOFs.

    The choice is the same for all configurations; `condition` shows its quality.
    """

    independent: tuple[str, ...]  # names of the independent DOFs
    dependent: tuple[str, ...]  # names of the dependent DOFs; locked DOFs and followers are in neither list
    rank: NDArray[np.intp]  # rank of the rows of enabled constraints, shape [n]
    condition: Float64Array  # condition number of the rows over the dependent DOFs, inf for singular rows, shape [n]
    reduced_map: Float64Array  # B of dq = B dz, z the independent DOFs, shape [n, joint_dof_count, independent]
    redundant: BoolArray  # mask of rows dependent on earlier rows, residual packing, shape [n, residual_count]
    conflicting: BoolArray  # mask of redundant rows whose values contradict earlier rows, to first order, same shape
    row_map: RowMap  # names of the rows

    def redundant_rows(self, number: int = 0) -> list[ConstraintRow]:
        """Name the redundant rows of a configuration."""
        return [self.row_map.row_at(int(row)) for row in np.flatnonzero(self.redundant[number])]

    def conflicting_rows(self, number: int = 0) -> list[ConstraintRow]:
        """Name the conflicting rows of a configuration."""
        return [self.row_map.row_at(int(row)) for row in np.flatnonzero(self.conflicting[number])]


@dataclass(frozen=True, eq=False)
class SweptPath:
    """A coordinate moved step by step, with loops closed at each step."""

    values: Float64Array  # values of the coordinate, shape [steps]
    joint_q: Float64Array  # shape [n, steps, joint_coord_count]
    closing_joint_q: Float64Array  # coordinates of the closing joints, shape [n, steps, closing coordinates]
    status: NDArray[np.int32]  # ``ClosureStatus`` values, shape [n, steps]
    constraint_error: Float64Array  # largest row of each constraint, shape [n, steps, constraints]

"""Results of closing loops and of motions with closed loops."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.linear_algebra import BoolArray
from ik_service.constraints.row_map import ConstraintRow, RowMap
from ik_service.mechanism.transforms import Float64Array


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
    """Configurations with closed loops, or the nearest found.

    Attributes:
        joint_q: Shape [n, joint_coord_count].
        closing_joint_q: Coordinates of the closing joints, shape [n, closing coordinates].
        status: ``ClosureStatus`` values, shape [n].
        residual: All rows, also of disabled constraints, in residual packing, shape [n, residual_count].
        constraint_error: Largest row of each constraint, shape [n, constraints].
        iterations: Steps of the returned attempt, shape [n].
        solutions: Assembly modes, nearest first, padded with NaN, shape [n, solutions, ...]; None for one solution.
        solution_count: Number of assembly modes found, shape [n]; None for one solution.
    """

    joint_q: Float64Array
    closing_joint_q: Float64Array
    status: NDArray[np.int32]
    residual: Float64Array
    constraint_error: Float64Array
    iterations: NDArray[np.int32]
    solutions: Float64Array | None = None
    solution_count: NDArray[np.int32] | None = None

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
    """Velocities that keep loops closed.

    Attributes:
        joint_qd: Shape [n, joint_dof_count].
        closing_joint_qd: Velocities of the closing joints, shape [n, closing DOFs].
        residual: Rates of all rows, residual packing, shape [n, residual_count]; frozen and locked joints can leave
            rates of enabled constraints.
        constraint_error: Largest rate of each constraint, shape [n, constraints].
    """

    joint_qd: Float64Array
    closing_joint_qd: Float64Array
    residual: Float64Array
    constraint_error: Float64Array


@dataclass(frozen=True, eq=False)
class FeasibleAcceleration:
    """Accelerations that keep loops closed.

    Attributes:
        joint_qdd: Shape [n, joint_dof_count].
        closing_joint_qdd: Accelerations of the closing joints, shape [n, closing DOFs].
        residual: Second time derivatives of all rows, residual packing, shape [n, residual_count].
        constraint_error: Largest second derivative of each constraint, shape [n, constraints].
    """

    joint_qdd: Float64Array
    closing_joint_qdd: Float64Array
    residual: Float64Array
    constraint_error: Float64Array


@dataclass(frozen=True, eq=False)
class DofPartition:
    """Independent DOFs, which drive a mechanism, and dependent DOFs.

    The choice is the same for all configurations; `condition` shows its quality.

    Attributes:
        independent: Names of the independent DOFs.
        dependent: Names of the dependent DOFs; locked DOFs and followers are in neither list.
        rank: Rank of the rows of enabled constraints, shape [n].
        condition: Condition number of the rows over the dependent DOFs, inf for singular rows, shape [n].
        reduced_map: B of dq = B dz, z the independent DOFs, shape [n, joint_dof_count, independent].
        redundant: Mask of rows dependent on earlier rows, residual packing, shape [n, residual_count].
        conflicting: Mask of redundant rows whose values contradict earlier rows, to first order, same shape.
        row_map: Names of the rows.
    """

    independent: tuple[str, ...]
    dependent: tuple[str, ...]
    rank: NDArray[np.intp]
    condition: Float64Array
    reduced_map: Float64Array
    redundant: BoolArray
    conflicting: BoolArray
    row_map: RowMap

    def redundant_rows(self, number: int = 0) -> list[ConstraintRow]:
        """Name the redundant rows of a configuration."""
        return [self.row_map.row_at(int(row)) for row in np.flatnonzero(self.redundant[number])]

    def conflicting_rows(self, number: int = 0) -> list[ConstraintRow]:
        """Name the conflicting rows of a configuration."""
        return [self.row_map.row_at(int(row)) for row in np.flatnonzero(self.conflicting[number])]


@dataclass(frozen=True, eq=False)
class SweptPath:
    """A coordinate moved step by step, with loops closed at each step.

    Attributes:
        values: Values of the coordinate, shape [steps].
        joint_q: Shape [n, steps, joint_coord_count].
        closing_joint_q: Coordinates of the closing joints, shape [n, steps, closing coordinates].
        status: ``ClosureStatus`` values, shape [n, steps].
        constraint_error: Largest row of each constraint, shape [n, steps, constraints].
    """

    values: Float64Array
    joint_q: Float64Array
    closing_joint_q: Float64Array
    status: NDArray[np.int32]
    constraint_error: Float64Array

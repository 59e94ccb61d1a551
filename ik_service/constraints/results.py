"""Results of closing loops and of moving with them."""

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
        OPEN: No start led there; rows contradict each other or what is frozen, or more starts are needed.
        BLOCKED_BY_LIMITS: Joints at their limits are in the way.
    """

    CLOSED = 0
    OPEN = 1
    BLOCKED_BY_LIMITS = 2


@dataclass(frozen=True, eq=False)
class Closure:
    """Configurations that close loops, or come as near as was found.

    Attributes:
        joint_q: Shape [n, joint_coord_count].
        closing_joint_q: Coordinates of the closing joints there, shape [n, closing coordinates].
        status: ``ClosureStatus`` values, shape [n].
        residual: All rows there, those of disabled constraints too, residual packing, shape [n, residual_count].
        constraint_error: Largest row of each constraint, shape [n, constraints].
        iterations: Steps of the attempt that is returned, shape [n].
        solutions: The assembly modes found, nearest first, NaN where there are fewer, shape [n, solutions, ...]; None
            unless asked for.
        solution_count: How many there are, shape [n]; None alike.
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
        """True for closed configurations, shape [n]."""
        return np.asarray(self.status == ClosureStatus.CLOSED)

    @property
    def status_names(self) -> list[str]:
        """The statuses in words."""
        return [ClosureStatus(one).name.lower() for one in self.status]


@dataclass(frozen=True, eq=False)
class FeasibleVelocity:
    """Velocities that keep loops closed.

    Attributes:
        joint_qd: Shape [n, joint_dof_count].
        closing_joint_qd: Velocities of the closing joints, shape [n, closing DOFs].
        residual: Rates of all rows, residual packing, shape [n, residual_count]: what is left of those of enabled
            constraints is what frozen and locked joints do not allow.
        constraint_error: The largest of each constraint, shape [n, constraints].
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
        constraint_error: The largest of each constraint, shape [n, constraints].
    """

    joint_qdd: Float64Array
    closing_joint_qdd: Float64Array
    residual: Float64Array
    constraint_error: Float64Array


@dataclass(frozen=True, eq=False)
class DofPartition:
    """Coordinates that a mechanism can be driven by, and those that follow.

    One choice for all configurations; where it is a poor one shows in `condition`.

    Attributes:
        independent: Names of the independent DOFs.
        dependent: Names of the dependent DOFs; locked ones and followers are in neither.
        rank: Independent rows of enabled constraints, shape [n].
        condition: Condition of the rows over the dependent DOFs, inf where these do not follow, shape [n].
        reduced_map: B of dq = B dz, z the independent DOFs, shape [n, joint_dof_count, independent].
        redundant: Rows that say what rows before them say, residual packing, shape [n, residual_count].
        conflicting: Those of them that cannot be met together with the rows before them, to first order, same shape.
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
    """A coordinate moved step by step, with loops closed at each.

    Attributes:
        values: What the coordinate is, shape [steps].
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

"""Rows of the constraints of a robot: their objectives, and in which problems they are on."""

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import CoordinateConstraint, LoopConstraint, RobotModel
from objectives import IKObjectiveCoupling, IKObjectiveLoop

ROW_TOLERANCE = 5e-7  # [m and rad] of a row of a loop: three are within 1e-6 where the status is not `LOOP_OPEN`


class ConstraintRows:
    """The rows of a robot's constraints, of one solver; where one is not enabled it has weights of 0.

    Args:
        robot: The robot.

    Attributes:
        objectives: The objectives of the constraints.
    """

    def __init__(self, robot: RobotModel) -> None:
        self.objectives = tuple(map(constraint_rows, robot.every_constraint))
        self._enabled: NDArray[np.bool_] | None = None  # of the last solve, as `enable` was given it

    def enable(self, enabled: NDArray[np.bool_] | None) -> None:
        """Switch constraints on and off; weights change only where others are enabled than before.

        Args:
            enabled: One line for all problems or one each, [1 or problems, constraints]; None for all.
        """
        if enabled is None and self._enabled is None:
            return
        every = np.ones((1, len(self.objectives)), dtype=bool)
        before, wanted = (every if given is None else given for given in (self._enabled, enabled))
        self._enabled = None if enabled is None else enabled.copy()
        if np.array_equal(wanted, before):
            return
        for rows, own in zip(self.objectives, wanted.T, strict=True):
            rows.set_row_weights(np.repeat(own[:, None], rows.residual_dim(), axis=1))


def constraint_rows(
    constraint: LoopConstraint | CoordinateConstraint, weight: float = 1.0
) -> IKObjectiveLoop | IKObjectiveCoupling:
    """Return the rows of a constraint, to which all others yield, with a factor for all of them [1/m or 1/rad]."""
    rows = constraint.rows(weight)
    rows.is_constraint, rows.label = True, f"constraint {constraint.name}"
    rows.set_row_tolerances(ROW_TOLERANCE)
    return rows

"""Rows of the constraints of a robot: their objectives, and in which problems they are on."""

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import CoordinateConstraint, LoopConstraint, RobotModel, VelocityConstraint
from objectives import IKObjectiveCoupling, IKObjectiveLoop, InputError
from objectives.tasks.velocity import VelocityObjective

ROW_TOLERANCE = 5e-7  # [m and rad] of a row of a loop: three are within 1e-6 where the status is not `LOOP_OPEN`
MOTION_TOLERANCE = 1e-8  # [m and rad] of a row on velocities over a tick: nothing corrects it later


class ConstraintRows:
    """The rows of a robot's constraints, of one solver; where one is not enabled it has weights of 0.

    Raises:
        InputError: The robot has constraints on velocities.
    """

    def __init__(self, robot: RobotModel) -> None:
        for one in robot.velocity_constraints:
            raise InputError(
                f"Constraint '{one.name}' is on velocities, which a solve does not have: controllers and "
                "robot.constraints keep it. Leave it out here: robot.with_velocity_constraints([])."
            )
        self.objectives = tuple(map(constraint_rows, robot.every_constraint))  # the objectives of the constraints
        self._enabled: NDArray[np.bool_] | None = None  # of the last solve, as `enable` was given it

    def enable(self, enabled: NDArray[np.bool_] | None) -> None:
        """Switch constraints on and off, [1 or problems, constraints]; None for all on."""
        # Weights change only where others are enabled than before
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
    constraint: LoopConstraint | VelocityConstraint | CoordinateConstraint, weight: float = 1.0
) -> IKObjectiveLoop | VelocityObjective | IKObjectiveCoupling:
    """Return the rows of a constraint, to which all others yield, with a factor for all of them [1/m or 1/rad]."""
    rows = constraint.rows(weight)
    rows.is_constraint, rows.label = True, f"constraint {constraint.name}"
    rows.set_row_tolerances(MOTION_TOLERANCE if isinstance(rows, VelocityObjective) else ROW_TOLERANCE)
    return rows

"""Rows of the constraints of a robot: their objectives, switched on and off per problem."""

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import CoordinateConstraint, LoopConstraint, RobotModel, VelocityConstraint
from objectives import IKObjectiveCoupling, IKObjectiveLoop, InputError
from objectives.tasks.velocity import VelocityObjective

ROW_TOLERANCE = 5e-7  # [m and rad] of a row of a loop: three rows stay within 1e-6
MOTION_TOLERANCE = 1e-8  # [m and rad] of a row on velocities over a tick: nothing corrects it later


class ConstraintRows:
    """The rows of a robot's constraints, of one solver; the weights of a disabled constraint are 0.

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
        self._enabled: NDArray[np.bool_] | None = None  # argument of the last `enable`

    def enable(self, enabled: NDArray[np.bool_] | None) -> None:
        """Switch constraints on and off, [1 or problems, constraints]; None for all on."""
        # Weights change only with the enabled constraints
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
    """Return the rows of a constraint, above all other rows in priority, with a common factor [1/m or 1/rad]."""
    rows = constraint.rows(weight)
    rows.is_constraint, rows.label = True, f"constraint {constraint.name}"
    rows.set_row_tolerances(MOTION_TOLERANCE if isinstance(rows, VelocityObjective) else ROW_TOLERANCE)
    return rows

"""Kinds of rows, binding of objectives, also of another library, and rows of constraints of a robot."""

import sys
from enum import IntEnum
from typing import Any, TypeGuard

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import CoordinateConstraint, DeviceModel, LoopConstraint, RobotModel, VelocityConstraint
from objectives import IKJacobianType, IKObjective, IKObjectiveCoupling, IKObjectiveLoop, InputError, ObjectiveError
from objectives.expression.expression_objective import ExpressionObjective
from objectives.tasks.velocity import VelocityObjective


class RowKind(IntEnum):
    """Kind of a row of the residual vector; `kind_of` gives each objective its kind."""

    TARGET = 0
    """A row of a pose target: it has to come within its tolerance."""
    SOFT = 1
    """A row of any other objective: its cost is lowered as far as the targets allow."""

    CONSTRAINT = 2
    """A row of a loop that the robot closes: all others yield to it, and it has to come within its tolerance."""


HAVE_TO_BE_MET = (RowKind.TARGET, RowKind.CONSTRAINT)
"""Kinds of rows that have to come within their tolerances; all other rows are minimised."""
TARGET_ROW = wp.constant(int(RowKind.TARGET))
CONSTRAINT_ROW = wp.constant(int(RowKind.CONSTRAINT))


def differentiates_itself(objective: Any) -> bool:
    """Return whether an objective has its own `compute_jacobian_autodiff`, beyond its base class."""
    # In `newton.ik` the method of the base class only raises. Such objectives, and objectives of our own base class,
    # are differentiated by the solver
    for base in type(objective).__mro__:
        if "compute_jacobian_autodiff" in vars(base):
            return base.__name__ != IKObjective.__name__
    return False


def member_for(objective: IKObjective, mode: IKJacobianType) -> Any:
    """Return the mode as a member of the enumeration of the objective's own library."""
    for base in type(objective).__mro__:
        module = sys.modules.get(base.__module__)
        for value in vars(module).values() if module is not None else ():
            if isinstance(value, type) and value.__name__ == IKJacobianType.__name__:
                members: Any = value  # an enumeration
                return members[mode.name]
    return mode


def bind_objective(objective: Any, solver: object, model: DeviceModel) -> None:
    """Bind an objective to a solver, by its hooks."""
    # Raises ObjectiveError if the object is no objective, or is bound to another solver, UnknownNameError for a link
    # not in the robot
    require_contract(objective)
    bind_solver = getattr(objective, "bind_solver", None)
    if bind_solver is not None:
        bind_solver(solver)
    bind_model = getattr(objective, "bind_model", None)
    if bind_model is not None:
        bind_model(model)


def release_objective(objective: Any, solver: object) -> None:
    """Release an objective for other solvers, if bound to this one."""
    release = getattr(objective, "release_solver", None)
    if release is not None:
        release(solver)


def require_contract(objective: Any) -> None:
    """Check that an object has the hooks of an objective; the ObjectiveError names a missing one."""
    hooks = (
        "residual_dim",
        "compute_residuals",
        "supports_analytic",
        "compute_jacobian_analytic",
        "compute_jacobian_autodiff",
        "bind_device",
        "init_buffers",
        "set_batch_layout",
    )
    for hook in hooks:
        if not callable(getattr(objective, hook, None)):
            raise ObjectiveError(
                f"{type(objective).__name__} is not an objective: it has no {hook}(). Derive from IKObjective."
            )


def is_constraint(objective: object) -> bool:
    """Return whether rows of an objective belong to a loop closed by the robot."""
    return getattr(objective, "is_constraint", False) is True


def is_robot_constraint(objective: object) -> bool:
    """Return whether an objective belongs to a constraint of the robot, with its name as label in reports."""
    return is_constraint(objective) and getattr(objective, "label", None) is not None


def is_secondary(objective: object) -> bool:
    """Return whether rows of an objective have lower priority than priority 0; never for other libraries."""
    return getattr(objective, "priority", 0) == 1 and not is_constraint(objective)


def has_row_tolerances(objective: object) -> TypeGuard[ExpressionObjective]:
    """Return whether rows of an objective have tolerances; only expressions can have them."""
    return isinstance(objective, ExpressionObjective) and objective.has_row_tolerances


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

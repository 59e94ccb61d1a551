"""Kinds of rows, and binding of objectives to a solver, including objectives of another library."""

import sys
from enum import IntEnum
from typing import Any, TypeGuard

import warp as wp

from ik_service.robots import DeviceModel
from objectives import IKJacobianType, IKObjective, ObjectiveError
from objectives.expression.expression_objective import ExpressionObjective


class RowKind(IntEnum):
    """Kind of a row of the residual vector; `kind_of` gives each objective its kind."""

    TARGET = 0
    """A row of a pose target: it has to come within its tolerance."""
    SOFT = 1
    """A row of any other objective: its cost is lowered as far as the targets allow."""

    CONSTRAINT = 2
    """A row of a loop that the robot closes: all others yield to it, and it has to come within its tolerance."""


HAVE_TO_BE_MET = (RowKind.TARGET, RowKind.CONSTRAINT)
"""Kinds of rows that have to come within their tolerances; rows of all others are lowered beside them."""
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

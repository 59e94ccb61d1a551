"""The smallest part of a robot that constraints are about."""

from collections.abc import Sequence

import numpy as np

from ik_service.mechanism.constraint_ends import Constraint, constraint_ends, constraints_of
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.kinematic_robot import KinematicRobot, Robot
from ik_service.mechanism.link_paths import path_between
from ik_service.mechanism.names import unknown_name
from ik_service.mechanism.velocities import VelocityConstraint
from ik_service.robots.subtree import cut
from objectives.errors import InputError, UnknownNameError


def aggregate(robot: Robot, names: Sequence[str], *, with_velocity: bool = True) -> Robot:
    """Cut out what constraints are about; see ``RobotModel.aggregate``.

    A step of the tree is named by its lower link. A constraint closes a circle of steps; links on ways between members
    that use another constraint are those of circles that share a step with the members.
    """
    if isinstance(names, str) or not names:
        raise InputError(f"Constraints to aggregate must be a list of names, at least one, got {names!r}.")
    known = {one.name: one for one in constraints_of(robot)}
    for name in names:
        if name not in known:
            opening = f"Constraint '{name}' is not in robot '{robot.name}'."
            raise UnknownNameError(unknown_name(opening, "Constraint", list(known), name))
    anchor = constraint_ends(robot, known[names[0]])[0]
    steps: set[int] = set()
    for name in names:
        steps |= _circle(robot, known[name]) | _steps(robot, anchor, constraint_ends(robot, known[name])[0])
    circles = [
        _circle(robot, one) for one in known.values() if with_velocity or not isinstance(one, VelocityConstraint)
    ]
    while grown := [circle for circle in circles if circle & steps and not circle <= steps]:
        steps = steps.union(*grown)
    kept = np.zeros(len(robot.link_names), dtype=bool)
    kept[[anchor, *steps]] = True
    kept[robot.link_parent[list(steps)]] = True
    base = int(np.flatnonzero(kept)[0])  # parents stand before children
    return cut(robot, base, kept)


def _circle(robot: KinematicRobot, constraint: Constraint) -> set[int]:
    """Give the steps of the tree that a constraint closes to a circle; between coordinates those of both joints too."""
    ends = constraint_ends(robot, constraint)
    return _steps(robot, *ends) | (set(ends) if isinstance(constraint, CoordinateConstraint) else set())


def _steps(robot: KinematicRobot, first: int, second: int) -> set[int]:
    path, common = path_between(robot, first, second)
    return set(path) - {common}

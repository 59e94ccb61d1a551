"""The smallest part of a robot that constraints are about."""

from collections.abc import Sequence

import numpy as np

from ik_service.robots.constraints.loops import LoopConstraint
from ik_service.robots.kinematic_robot import KinematicRobot, Robot
from ik_service.robots.structure.link_paths import path_between
from ik_service.robots.structure.names import unknown_name
from ik_service.robots.variants.subtree import cut
from objectives.errors import InputError, UnknownNameError


def aggregate(robot: Robot, names: Sequence[str]) -> Robot:
    """Cut out what constraints are about; see ``RobotModel.aggregate``.

    A step of the tree is named by its lower link. A constraint closes a circle of steps; links on ways between members
    that use another constraint are those of circles that share a step with the members.
    """
    if isinstance(names, str) or not names:
        raise InputError(f"Constraints to aggregate must be a list of names, at least one, got {names!r}.")
    known = {one.name: one for one in robot.loops}
    for name in names:
        if name not in known:
            opening = f"Constraint '{name}' is not in robot '{robot.name}'."
            raise UnknownNameError(unknown_name(opening, "Constraint", list(known), name))
    ends = [_ends(robot, known[name]) for name in names]
    steps: set[int] = set()
    for first, second in ends:
        steps |= _steps(robot, first, second) | _steps(robot, ends[0][0], first)
    circles = [_steps(robot, *_ends(robot, one)) for one in robot.loops]
    while grown := [circle for circle in circles if circle & steps and not circle <= steps]:
        steps = steps.union(*grown)
    kept = np.zeros(len(robot.link_names), dtype=bool)
    kept[list(steps)] = True
    kept[robot.link_parent[list(steps)]] = True
    base = int(np.flatnonzero(kept)[0])  # parents stand before children
    return cut(robot, base, kept)


def _ends(robot: KinematicRobot, loop: LoopConstraint) -> tuple[int, int]:
    """Give the links of both frames; the root for the world."""
    return robot.link_index(loop.link), 0 if loop.reference_link is None else robot.link_index(loop.reference_link)


def _steps(robot: KinematicRobot, first: int, second: int) -> set[int]:
    path, common = path_between(robot, first, second)
    return set(path) - {common}

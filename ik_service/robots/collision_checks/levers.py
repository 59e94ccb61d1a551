"""How far joints move the spheres of a robot at most."""

import numpy as np

from ik_service.robots.collision_checks.body_spheres import BodySpheres
from ik_service.robots.joint_type import JointType
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.transforms import Float64Array
from objectives.errors import InputError


def levers(robot: KinematicRobot, spheres: BodySpheres, farthest: Float64Array | None = None) -> Float64Array:
    """Return how far centres of a link's spheres move at most for a unit of each DOF, in any configuration.

    Args:
        robot: The robot.
        spheres: Its spheres.
        farthest: How far from zero each DOF may be [m or rad], shape [joint_dof_count]; None for what its limits say.

    Returns:
        m per rad or m, shape [links, joint_dof_count]; 0 where it does not move them.

    Raises:
        InputError: A joint turns what slides without a limit.
    """
    found = np.zeros((len(spheres.links), robot.joint_dof_count))
    if farthest is None:
        farthest = np.maximum(np.abs(robot.joint_limit_lower), np.abs(robot.joint_limit_upper))
    for place, body in enumerate(spheres.link_body):
        reach = float(np.linalg.norm(spheres.centers[spheres.of_link(place)], axis=1).max())
        joint = int(body)
        while joint >= 0:
            slides, turns = slides_and_turns(robot, joint)
            found[place, slides], found[place, turns] = 1.0, reach
            reach += float(np.linalg.norm(farthest[slides])) + float(np.linalg.norm(robot.joint_X_p[joint][:3]))
            joint = int(robot.joint_parent[joint])
    if not np.isfinite(found).all():
        name = robot.dof_names[int(np.flatnonzero(~np.isfinite(found).all(axis=0))[0])]
        raise InputError(
            f"'{name}' turns a joint that slides without a limit, so nothing bounds how far it moves links. Give that "
            "one a limit, or do not ask for clearance on the way."
        )
    return found


def slide_between(robot: KinematicRobot, one: int, other: int) -> float:
    """Return how far all joints between two bodies slide together, by their limits [m]; infinite where one has none."""
    joints = _joints_above(robot, one) ^ _joints_above(robot, other)
    slides = [slides_and_turns(robot, joint)[0] for joint in joints]
    return float(sum((robot.joint_limit_upper[own] - robot.joint_limit_lower[own]).sum() for own in slides))


def _joints_above(robot: KinematicRobot, body: int) -> set[int]:
    found = set()
    while body >= 0:
        found.add(body)
        body = int(robot.joint_parent[body])
    return found


def slides_and_turns(robot: KinematicRobot, joint: int) -> tuple[slice, slice]:
    """Give the DOFs of a joint along which it slides, and those about which it turns."""
    kind = JointType(robot.joint_type[joint])
    first, end = int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1])
    slides = {JointType.PLANAR: 2, JointType.PRISMATIC: 1, JointType.FLOATING: 3}.get(kind, 0)
    return slice(first, first + slides), slice(first + slides, end)

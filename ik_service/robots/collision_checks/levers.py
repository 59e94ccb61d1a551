"""How far joints move the spheres of a robot at most."""

import numpy as np

from ik_service.robots.collision_checks.body_spheres import BodySpheres
from ik_service.robots.joint_type import JointType
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.transforms import Float64Array
from objectives.errors import InputError


def levers(robot: KinematicRobot, spheres: BodySpheres) -> Float64Array:
    """Return how far centres of a link's spheres move at most for a unit of each DOF, in any configuration.

    Args:
        robot: The robot.
        spheres: Its spheres.

    Returns:
        m per rad or m, shape [links, joint_dof_count]; 0 where it does not move them.

    Raises:
        InputError: A joint turns what slides without a limit.
    """
    found = np.zeros((len(spheres.links), robot.joint_dof_count))
    for place, body in enumerate(spheres.link_body):
        reach = float(np.linalg.norm(spheres.centers[spheres.of_link(place)], axis=1).max())
        joint = int(body)
        while joint >= 0:
            slides, turns = _dofs(robot, joint)
            found[place, slides], found[place, turns] = 1.0, reach
            reach += _farthest_slide(robot, slides) + float(np.linalg.norm(robot.joint_X_p[joint][:3]))
            joint = int(robot.joint_parent[joint])
    if not np.isfinite(found).all():
        name = robot.dof_names[int(np.flatnonzero(~np.isfinite(found).all(axis=0))[0])]
        raise InputError(
            f"'{name}' turns a joint that slides without a limit, so nothing bounds how far it moves links. Give that "
            "one a limit, or do not ask for clearance on the way."
        )
    return found


def _dofs(robot: KinematicRobot, joint: int) -> tuple[slice, slice]:
    """Give the DOFs of a joint along which it slides, and those about which it turns."""
    kind = JointType(robot.joint_type[joint])
    first, end = int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1])
    slides = {JointType.PLANAR: 2, JointType.PRISMATIC: 1, JointType.FLOATING: 3}.get(kind, 0)
    return slice(first, first + slides), slice(first + slides, end)


def _farthest_slide(robot: KinematicRobot, slides: slice) -> float:
    """Give how far a joint slides at most; there may be nothing that it slides along."""
    most = np.maximum(np.abs(robot.joint_limit_lower[slides]), np.abs(robot.joint_limit_upper[slides]))
    return float(np.linalg.norm(most))

"""Lever arms: largest motion of a robot's spheres per unit of each joint."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import BodySpheres
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import UNBOUNDED, Float64Array
from objectives.errors import InputError


def levers(
    robot: KinematicRobot, spheres: BodySpheres, joint_q: NDArray[np.floating[Any]] | None = None
) -> Float64Array:
    """Return the largest motion of sphere centres per unit of each DOF [m per rad or m], [links, joint_dof_count].

    Valid for configurations within limits, and for `joint_q`, [n, joint_coord_count], if given. InputError if a joint
    rotates a sliding joint without a limit.
    """
    found = np.zeros((len(spheres.links), robot.joint_dof_count))
    farthest = np.maximum(np.abs(robot.joint_limit_lower), np.abs(robot.joint_limit_upper))
    if joint_q is not None:
        own = robot.dof_coordinate >= 0
        farthest[own] = np.maximum(farthest[own], np.abs(joint_q[:, robot.dof_coordinate[own]]).max(axis=0))
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


def farthest_slides(robot: KinematicRobot) -> Float64Array:
    """Return the bound of sliding coordinates for which `levers` hold [m], [joint_coord_count]; inf for angles."""
    found = np.full(robot.joint_coord_count, np.inf)
    for joint in range(robot.joint_count):
        slides, _ = slides_and_turns(robot, joint)
        for dof in range(slides.start, slides.stop):
            if robot.dof_coordinate[dof] >= 0:
                limits = robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
                found[robot.dof_coordinate[dof]] = max(np.abs(limits))
    return found


def slides_between(robot: KinematicRobot) -> Float64Array:
    """Return the total sliding length of joints between bodies [m], [joint_count + 1] squared; -1 is the world."""
    count = robot.joint_count
    slide, carries = np.zeros(count), np.zeros((count + 1, count))
    for joint in range(count):
        own, _ = slides_and_turns(robot, joint)
        lower, upper = (
            np.clip(limit[own], -UNBOUNDED, UNBOUNDED) for limit in (robot.joint_limit_lower, robot.joint_limit_upper)
        )
        slide[joint] = (upper - lower).sum()
        carries[joint] = carries[robot.joint_parent[joint]]  # parents come first; the world has no joint above
        carries[joint, joint] = 1.0
    above, common = carries @ slide, (carries * slide) @ carries.T
    return np.asarray(above[:, None] + above[None] - 2.0 * common)


def slides_and_turns(robot: KinematicRobot, joint: int) -> tuple[slice, slice]:
    """Give the sliding DOFs and the rotating DOFs of a joint."""
    first, end = int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1])
    slides = JointType(robot.joint_type[joint]).linear_dof_count
    return slice(first, first + slides), slice(first + slides, end)

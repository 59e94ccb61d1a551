"""The size of a robot, and the unit of length that follows from it."""

import math

import numpy as np

from ik_service.mechanism.kinematic_robot import KinematicRobot

USUAL_REACH = 64.0  # [m]: up to this, and down to one over it, a robot is of usual size


def reach(robot: KinematicRobot) -> float:
    """Give the longest way from the first joint of a chain to one of its links, joint by joint [m].

    Locked joints count like others; where the first joint stands does not, nor how far sliders go.
    """
    length = np.zeros(robot.joint_count)
    for joint, parent in enumerate(robot.joint_parent):
        if parent >= 0:
            length[joint] = length[parent] + np.linalg.norm(robot.joint_X_p[joint, :3])
    moving = robot.link_body >= 0
    ways = length[robot.link_body[moving]] + np.linalg.norm(robot.link_X_body[moving, :3], axis=1)
    return float(ways.max(initial=0.0))


def length_unit(robot: KinematicRobot) -> float:
    """Give the length that counts as a metre does for robots of usual size [m].

    It is 1 for these; for others the power of two nearest to their reach, so that these meet
    their targets as well.
    """
    size = reach(robot)
    if size == 0.0 or 1.0 / USUAL_REACH <= size <= USUAL_REACH:
        return 1.0
    return math.ldexp(1.0, round(math.log2(size)))

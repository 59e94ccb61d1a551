"""Masses of a robot: what each body carries, and where the centre of all of it is."""

import numpy as np
from numpy.typing import ArrayLike

from ik_service.kinematics import host_poses
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from objectives.errors import InputError
from objectives.model import BodyMass


def body_masses(robot: KinematicRobot) -> tuple[BodyMass, ...]:
    """Give the bodies that have mass; see ``RobotModel.body_masses``."""
    found = []
    for body in range(-1, robot.body_count):
        links = np.flatnonzero((robot.link_body == body) & (robot.link_mass > 0.0))
        if len(links) == 0:
            continue
        masses, X = robot.link_mass[links], robot.link_X_body[links]
        centres = X[:, :3] + quaternion_rotate(X[:, 3:], robot.link_com[links])
        com = masses @ centres / masses.sum()
        found.append(BodyMass(body, float(masses.sum()), (float(com[0]), float(com[1]), float(com[2]))))
    return tuple(found)


def center_of_mass(robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
    """Give the centre of mass, shape [n, 3]; see ``RobotModel.center_of_mass``."""
    poses = host_poses.body_poses(robot, joint_q)
    if not robot.body_masses:
        raise InputError(f"Robot '{robot.name}' has no masses; its file gives no <inertial> above 0 kg.")
    moments = np.zeros((len(poses), 3))
    for one in robot.body_masses:
        centre = np.broadcast_to(one.com, (len(poses), 3))
        if one.body >= 0:
            centre = poses[:, one.body, :3] + quaternion_rotate(poses[:, one.body, 3:], centre)
        moments += one.mass * centre
    return np.asarray(moments / sum(one.mass for one in robot.body_masses))

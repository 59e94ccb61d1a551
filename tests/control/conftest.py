"""A Panda, and a path run tick by tick."""

from dataclasses import dataclass

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import IKController


@pytest.fixture(scope="session")
def panda():
    return load_robot("panda")


@dataclass(frozen=True)
class Run:
    """What a controller did along a path, a line per tick."""

    joint_q: np.ndarray
    joint_qd: np.ndarray
    status: np.ndarray
    position_error: np.ndarray
    orientation_error: np.ndarray
    sigma_min: np.ndarray
    active_limits: np.ndarray

    def speeds(self, start, dt):
        return np.diff(self.joint_q, axis=0, prepend=start[None]) / dt

    def accelerations(self, start, dt):
        speeds = self.speeds(start, dt)
        return np.diff(speeds, axis=0, prepend=np.zeros((1, speeds.shape[1]))) / dt


def follow(controller: IKController, start, poses, dt=1e-3, **options) -> Run:
    """Send one robot along a path."""
    controller.reset(start)
    found = []
    for pose in poses:
        r = controller.step(pose, dt=dt, **options).copy()
        found.append(
            (
                r.joint_q[0],
                r.joint_qd[0],
                r.status[0],
                r.position_error[0],
                r.orientation_error[0],
                r.sigma_min[0],
                r.active_limits[0],
            )
        )
    return Run(*(np.array(column) for column in zip(*found, strict=True)))


def pose_of(robot, joint_q, link):
    """Position and quaternion xyzw of a link, [7]."""
    poses = robot.forward_kinematics(np.atleast_2d(joint_q), links=[link])
    return np.concatenate([poses.positions[0, 0], poses.orientations_xyzw[0, 0]])

"""A Panda, controllers that have begun, and a path run tick by tick."""

from dataclasses import dataclass, fields

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import IKController
from tests.robots.urdf_text import joint, urdf

LINK, ARMS = "panda_hand", ("left_panda_hand", "right_panda_hand")
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])


@pytest.fixture(scope="session")
def panda():
    return load_robot("panda")


@pytest.fixture(scope="session")
def dual():
    return load_robot("dual_panda")


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
    names, found = [field.name for field in fields(Run)], []
    for pose in poses:
        result = controller.step(pose, dt=dt, **options)
        found.append([getattr(result, name)[0].copy() for name in names])
    return Run(*(np.array(column) for column in zip(*found, strict=True)))


def begun(robot, targets, start, joint_qd=0.0, **options) -> IKController:
    """A controller that was told where its robots are."""
    controller = IKController(robot, targets, **options)
    controller.reset(start, joint_qd)
    return controller


def last_of(controller: IKController, ticks, *arguments, **options):
    """The result of the last of some ticks that are all alike."""
    for _ in range(ticks):
        result = controller.step(*arguments, **options)
    return result


def pose_of(robot, joint_q, link, shift=0.0):
    """Position and quaternion xyzw of a link, moved by a shift [m], [7]."""
    poses = robot.forward_kinematics(np.atleast_2d(joint_q), links=[link])
    return np.concatenate([poses.positions[0, 0] + shift, poses.orientations_xyzw[0, 0]])


def poses_of(robot, joint_q, links):
    """Poses of links [links, 7]."""
    return np.stack([pose_of(robot, joint_q, link) for link in links])


def distances(robot, joint_q, poses, link=LINK):
    """How far a link is from where it is to be, by the robot's own kinematics in float64 [m]."""
    return np.linalg.norm(robot.forward_kinematics(joint_q, links=[link]).positions[:, 0] - poses[:, :3], axis=1)


def assert_within_limits(robot, joint_q, start, dt, acceleration=None, rounding=1e-6):
    """Commands from rest at a start keep to limits of position and speed, and to one of acceleration."""
    speeds = np.diff(joint_q, axis=0, prepend=start[None]) / dt
    assert ((joint_q >= robot.joint_limit_lower) & (joint_q <= robot.joint_limit_upper)).all()
    assert (np.abs(speeds) <= robot.joint_velocity_limit * (1.0 + 1e-9)).all()
    if acceleration is not None:
        changes = np.diff(speeds, axis=0, prepend=np.zeros((1, speeds.shape[1])))
        assert (np.abs(changes) <= np.multiply(acceleration, dt * (1.0 + rounding))).all()


HALF = np.sqrt(0.5)
UPRIGHT, TURNED = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, HALF, HALF]
AXES = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}


def gantry_text():
    """Three sliders, one upon the other, and a pivot of its own on the same base."""
    parents, limit = ("base", "x_link", "y_link"), (-1, 1, 10)
    pairs = zip(AXES.items(), parents, strict=True)
    sliders = [joint(k, "prismatic", parent, f"{k}_link", axis=axis, limit=limit) for (k, axis), parent in pairs]
    return urdf("gantry", "base", *sliders, joint("w", "revolute", "base", "w_link", axis="0 0 1", limit=limit))

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


HALF = np.sqrt(0.5)
UPRIGHT, TURNED = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, HALF, HALF]
AXES = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
JOINT = """<link name="{name}_link"/><joint name="{name}" type="{kind}">
<parent link="{parent}"/><child link="{name}_link"/><axis xyz="{axis}"/>
<limit lower="-1" upper="1" velocity="10" effort="1"/></joint>"""


def gantry_text():
    """Three sliders, one upon the other, and a pivot of its own on the same base."""
    parents = ("base", "x_link", "y_link")
    pairs = zip(AXES.items(), parents, strict=True)
    sliders = [JOINT.format(name=k, kind="prismatic", parent=p, axis=axis) for (k, axis), p in pairs]
    pivot = JOINT.format(name="w", kind="revolute", parent="base", axis="0 0 1")
    return f'<robot name="gantry"><link name="base"/>{"".join(sliders)}{pivot}</robot>'

"""Ranges of revolute joints: an arc from limit to limit about each axis, and a line at the joint angle."""

import itertools
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.mechanism.transforms import quaternion_between, quaternion_rotate, transform_multiply
from ik_service.page.geometry import Float64Array, placed_bodies, robot_size
from ik_service.robots import JointType, RobotModel

ARC_SHARE = 0.1
"""Radius of an arc over the size of the robot."""
LONGER = 1.25
"""Length of the line to an angle over the radius."""
ARC_STEP = np.pi / 24.0
"""Longest piece of an arc [rad]."""
OFF_AXIS = 0.01
"""Least way of a point from an axis, over the size of the robot, that tells where a joint's angle is 0."""
ARC_COLOR, ANGLE_COLOR = (70, 130, 205), (170, 60, 200)
_X_AXIS, _Z_AXIS = np.eye(3)[[0, 2]]


class JointArcs:
    """Arcs of all revolute joints of a robot at a configuration; a range of a turn or more is a circle."""

    def __init__(self, scene: viser.SceneApi, robot: RobotModel, joint_q: NDArray[Any]) -> None:
        self._robot = robot
        self._joints = np.flatnonzero(np.isin(robot.joint_type, (JointType.REVOLUTE, JointType.CONTINUOUS)))
        dofs, radius = robot.joint_qd_start[self._joints], ARC_SHARE * robot_size(robot)
        axes = np.asarray(robot.joint_axis, np.float64)[dofs]
        zeros = np.array([_zero_direction(robot, *one) for one in zip(self._joints, axes, strict=True)]).reshape(-1, 3)
        self._sides = radius * np.stack([zeros, np.cross(axes, zeros)])
        ranges = np.stack([robot.joint_limit_lower[dofs], robot.joint_limit_upper[dofs]], axis=1)
        ranges[~(np.ptp(ranges, axis=1) < 2.0 * np.pi)] = -np.pi, np.pi
        ends = [np.linspace(low, high, 2 + int((high - low) / ARC_STEP)) for low, high in ranges]
        self._place = np.repeat(np.arange(len(ends)), [len(one) - 1 for one in ends])
        pieces = np.array([pair for one in ends for pair in itertools.pairwise(one)]).reshape(-1, 2)
        self._arcs = np.stack([self._points(self._place, angles) for angles in pieces.T], axis=1)
        self._nodes = [
            scene.add_line_segments(f"/arcs/{k}", lines, color, thickness=3.0, thickness_units="screen")
            for k, (lines, color) in enumerate(zip(self.lines(joint_q), (ARC_COLOR, ANGLE_COLOR), strict=True))
        ]

    def lines(self, joint_q: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the segments of all arcs and the line at each joint angle [m], shapes [n, 2, 3]."""
        bodies, every = placed_bodies(self._robot, joint_q)[0], np.arange(len(self._joints))
        frames = transform_multiply(bodies[self._robot.joint_parent[self._joints]], self._robot.joint_X_p[self._joints])
        angles = np.asarray(joint_q, np.float64)[self._robot.joint_q_start[self._joints]]
        tips = LONGER * self._points(every, angles)
        local = np.concatenate([self._arcs, np.stack([np.zeros_like(tips), tips], axis=1)])
        of_lines = frames[np.concatenate([self._place, every]), None]
        lines = (of_lines[..., :3] + quaternion_rotate(of_lines[..., 3:], local)).astype(np.float32)
        return lines[: len(self._arcs)], lines[len(self._arcs) :]

    def move(self, joint_q: NDArray[Any]) -> None:
        """Show another configuration."""
        for node, lines in zip(self._nodes, self.lines(joint_q), strict=True):
            node.points = lines

    def remove(self) -> None:
        """Remove the arcs from the scene."""
        for node in self._nodes:
            node.remove()

    def _points(self, place: NDArray[Any], angles: Float64Array) -> Float64Array:
        """Return points at angles of joints in their frames [m], shape [n, 3]."""
        zero, quarter = self._sides[:, place]
        return np.asarray(zero * np.cos(angles)[:, None] + quarter * np.sin(angles)[:, None])


def _zero_direction(robot: RobotModel, joint: np.intp, axis: Float64Array) -> Float64Array:
    """Return the unit vector across the axis toward the moved parts at angle 0."""
    carried = [robot.joint_X_p[robot.joint_parent == joint, :3], robot.link_X_body[robot.link_body == joint, :3]]
    points = np.concatenate(carried)
    across = points - np.outer(points @ axis, axis)
    lengths = np.linalg.norm(across, axis=1)
    farthest = int(lengths.argmax())
    if lengths[farthest] < OFF_AXIS * robot_size(robot):
        return quaternion_rotate(quaternion_between(_Z_AXIS, axis), _X_AXIS)
    return np.asarray(across[farthest] / lengths[farthest])

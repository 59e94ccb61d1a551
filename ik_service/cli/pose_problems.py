"""Reachable pose targets of a robot's links, and the judge of answers: float64 on the host, no code of the solver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel

TOLERANCES = ((5e-3, 5e-2), (1e-3, 1e-2), (1e-5, 1e-4))
"""Position [m] and orientation [rad]: what others publish, what most arms need, and what float32 can give."""


@dataclass(frozen=True)
class PoseProblems:
    """Pose targets of several links, reachable by one configuration."""

    robot: RobotModel
    links: tuple[str, ...]
    positions: Float64Array  # in the world frame [m], shape [n, links, 3]
    orientations_xyzw: Float64Array  # in the world frame, shape [n, links, 4]

    @classmethod
    def random(cls, robot: RobotModel, links: Sequence[str], count: int, random_seed: int) -> "PoseProblems":
        """Return the poses of the links at random configurations inside the limits, free of contact."""
        joint_q = robot.random_free_joint_q(np.random.default_rng(random_seed), count)
        poses = robot.forward_kinematics(joint_q, list(links))
        return cls(robot, tuple(links), poses.positions, poses.orientations_xyzw)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: slice) -> "PoseProblems":
        return PoseProblems(self.robot, self.links, self.positions[rows], self.orientations_xyzw[rows])

    def judge(self, joint_q: NDArray[Any], position: float, orientation: float) -> NDArray[np.bool_]:
        """Return which answers bring all links within tolerances [m, rad], inside the limits, shape [n]."""
        distance, angle = pose_errors(self.robot, self.links, joint_q, self.positions, self.orientations_xyzw)
        near = (distance <= position) & (angle <= orientation)
        return np.asarray(near.all(axis=1) & inside_limits(self.robot, joint_q))


def pose_errors(
    robot: RobotModel,
    links: Sequence[str],
    joint_q: NDArray[Any],
    positions: Float64Array,
    orientations_xyzw: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Return the distances [m] and angles [rad] between links and their targets, shape [n, links].

    Configurations have the shape [n, joint_coord_count], targets in the world frame [n, links, 3] and [n, links, 4].
    """
    poses = robot.forward_kinematics(np.asarray(joint_q, np.float64), list(links))
    distance = np.linalg.norm(poses.positions - positions, axis=-1)
    # arccos loses all digits near 1; the chord between the two quaternions does not.
    chords = [np.linalg.norm(poses.orientations_xyzw - sign * orientations_xyzw, axis=-1) for sign in (1.0, -1.0)]
    return distance, 4.0 * np.arcsin(np.minimum(0.5 * np.minimum(*chords), 1.0))


def inside_limits(robot: RobotModel, joint_q: NDArray[Any], slack: float = 0.0) -> NDArray[np.bool_]:
    """Return which configurations, [n, joint_coord_count], are inside the limits widened by a slack [m or rad]."""
    dofs = np.flatnonzero(robot.dof_coordinate >= 0)
    q = np.asarray(joint_q, np.float64)[:, robot.dof_coordinate[dofs]]
    above = q >= robot.joint_limit_lower[dofs] - slack
    return np.asarray((above & (q <= robot.joint_limit_upper[dofs] + slack)).all(axis=1))

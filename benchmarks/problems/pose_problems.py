"""Pose targets of links that are reached together, and the judge of answers: float64 throughout, no solver code."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service import RobotModel
from ik_service.cli.pose_problems import TOLERANCES, inside_limits, pose_errors
from ik_service.mechanism.transforms import quaternion_rotate

SOLVED = TOLERANCES[1]  # 1 mm and 0.01 rad: what counts as solved where nothing else is said


def link_poses(robot: RobotModel, joint_q: NDArray[np.float64], link: str) -> NDArray[np.float64]:
    """Return positions [m] and quaternions xyzw of a link in the world frame, shape [n, 7]."""
    return np.asarray(np.concatenate(robot.forward_kinematics(joint_q, [link]), axis=-1)[:, 0])


def rotations(orientations_xyzw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rotation matrices of quaternions, shape [..., 3, 3]."""
    return np.stack([quaternion_rotate(orientations_xyzw, axis) for axis in np.eye(3)], axis=-1)


def transforms(positions: NDArray[np.float64], rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return poses of positions [n, 3] and rotation matrices [n, 3, 3] as matrices, shape [n, 4, 4]."""
    found = np.tile(np.eye(4), (len(positions), 1, 1))
    found[:, :3, :3], found[:, :3, 3] = rotation, positions
    return found


@dataclass(frozen=True)
class PoseProblems:
    """Pose targets of links, a line each."""

    robot: RobotModel
    links: Sequence[str]
    positions: NDArray[np.float64]  # in the world frame [m], shape [n, links, 3]
    orientations_xyzw: NDArray[np.float64]  # in the world frame, shape [n, links, 4]

    @classmethod
    def of(cls, robot: RobotModel, links: Sequence[str], joint_q: NDArray[np.float64]) -> "PoseProblems":
        """Return the poses of links in configurations."""
        poses = robot.forward_kinematics(joint_q, list(links))
        return cls(robot, list(links), poses.positions, poses.orientations_xyzw)

    @classmethod
    def random(cls, robot: RobotModel, links: Sequence[str], count: int, random_seed: int) -> "PoseProblems":
        """Return the poses that the links take together in random configurations inside the limits."""
        return cls.of(robot, links, robot.random_joint_q(np.random.default_rng(random_seed), count))

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.positions)

    def __getitem__(self, rows: Any) -> "PoseProblems":
        """Return some of the problems."""
        return replace(self, positions=self.positions[rows], orientations_xyzw=self.orientations_xyzw[rows])

    def first(self, count: int) -> "PoseProblems":
        """Return the first problems."""
        return self[:count]

    @property
    def given(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What a solver is given."""
        return self.positions, self.orientations_xyzw

    def met(
        self, joint_q: NDArray[np.floating], tolerance: tuple[float, float] = SOLVED, limit_slack: float = 0.0
    ) -> NDArray[np.bool_]:
        """Return which answers bring all links within both tolerances [m, rad], inside the limits, shape [n].

        A slack [m or rad] widens the limits for solvers whose limits are soft.
        """
        distance, angle = pose_errors(self.robot, self.links, joint_q, *self.given)
        near = (distance <= tolerance[0]) & (angle <= tolerance[1])
        return np.asarray(near.all(axis=1) & inside_limits(self.robot, joint_q, limit_slack))

    def checked(self, result: Any) -> NDArray[np.bool_]:
        """Return which answers are met; no success may be false."""
        met = self.met(result.joint_q)
        if (result.success & ~met).any():
            raise SystemExit("a success is none")
        return met

"""Problems of the benchmarks and the judge of their answers; float64 throughout, no solver code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service import RobotModel


@dataclass(frozen=True)
class PoseProblems:
    """Reachable pose targets of one link.

    Attributes:
        robot: The robot.
        link: The link.
        positions: [m], shape [n, 3].
        orientations_xyzw: Shape [n, 4].
    """

    robot: RobotModel
    link: str
    positions: NDArray[np.float64]
    orientations_xyzw: NDArray[np.float64]

    @classmethod
    def random(cls, robot: RobotModel, link: str, count: int, random_seed: int) -> "PoseProblems":
        """Return the poses of random configurations inside the limits."""
        joint_q = robot.random_joint_q(np.random.default_rng(random_seed), count)
        poses = robot.forward_kinematics(joint_q, [link])
        return cls(robot, link, poses.positions[:, 0], poses.orientations_xyzw[:, 0])

    def judge(
        self, joint_q: NDArray[np.floating], position: float, orientation: float, limit_slack: float = 0.0
    ) -> NDArray[np.bool_]:
        """Return which answers are within both tolerances [m, rad] and inside the limits.

        Args:
            joint_q: Answers, shape [n, joint_coord_count].
            position: Tolerance [m].
            orientation: Tolerance [rad].
            limit_slack: How far outside its limits a joint may be [m or rad]; for solvers whose limits are soft.
        """
        poses = self.robot.forward_kinematics(joint_q, [self.link])
        distance = np.linalg.norm(poses.positions[:, 0] - self.positions, axis=1)
        overlap = np.abs((poses.orientations_xyzw[:, 0] * self.orientations_xyzw).sum(axis=1))
        # arccos loses all digits near 1; the chord between the two quaternions does not.
        chord = np.minimum(
            np.linalg.norm(poses.orientations_xyzw[:, 0] - self.orientations_xyzw, axis=1),
            np.linalg.norm(poses.orientations_xyzw[:, 0] + self.orientations_xyzw, axis=1),
        )
        angle = np.where(overlap > 0.5, 4.0 * np.arcsin(np.minimum(0.5 * chord, 1.0)), np.pi)
        own = self.robot.dof_coordinate >= 0
        q = joint_q[:, self.robot.dof_coordinate[own]].astype(np.float64)
        above = q >= self.robot.joint_limit_lower[own] - limit_slack
        inside = (above & (q <= self.robot.joint_limit_upper[own] + limit_slack)).all(axis=1)
        return np.asarray((distance <= position) & (angle <= orientation) & inside)

"""Problems of the benchmarks and the judge of their answers; float64 throughout, no solver code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service import RobotModel
from ik_service.cli.pose_problems import inside_limits, pose_errors


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
        targets = self.positions[:, None], self.orientations_xyzw[:, None]
        distance, angle = pose_errors(self.robot, [self.link], joint_q, *targets)
        near = (distance[:, 0] <= position) & (angle[:, 0] <= orientation)
        return near & inside_limits(self.robot, joint_q, limit_slack)

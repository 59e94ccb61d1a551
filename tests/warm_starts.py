"""Warm starts of an iiwa14 with a target each: every way to solve is asked to begin at all of them."""

from typing import NamedTuple

import numpy as np

LINK = "iiwa_link_ee"
HOME = np.array([0.3, 0.6, -0.2, -1.4, 0.1, 1.0, 0.4])
AT_LIMIT = 3  # joint
SUNK = 0.05  # [m] from the upright arm, straight down: no step of first order leads there
SAME, BESIDE, ACROSS = 1e-5, 5e-3, 0.8  # [rad] that joints turn at most, from the start to the answer
TOLERANCE = 1e-3  # [m], the default


class WarmStarts(NamedTuple):
    """A line for each start: its target, and how far joints turn at most [rad]."""

    names: tuple[str, ...]
    joint_q: np.ndarray
    positions: np.ndarray
    orientations_xyzw: np.ndarray
    farthest: np.ndarray

    def check(self, robot, joint_q):
        """Compare answers, [n, 7], with the targets and with the starts."""
        for name, answer, start, position, most in zip(
            self.names, np.asarray(joint_q, np.float64), self.joint_q, self.positions, self.farthest, strict=True
        ):
            reached = robot.forward_kinematics(answer, [LINK]).positions[0, 0]
            assert np.linalg.norm(reached - position) <= TOLERANCE, name
            assert (robot.clamp_joint_q(answer)[0] == answer).all(), name
            assert np.abs(answer - start).max() <= most, name


def warm_starts(robot):
    """The starts: at a solution, beside one, at a limit, at a saddle."""
    signs = np.random.default_rng(1).choice([-1.0, 1.0], HOME.shape)
    limit = HOME.copy()
    limit[AT_LIMIT] = robot.joint_limit_lower[AT_LIMIT]
    upright = np.zeros(HOME.shape)
    starts = {
        "at a solution": (HOME, HOME, SAME),
        "1e-6 beside a solution": (HOME + 1e-6 * signs, HOME, SAME),
        "1e-3 beside a solution": (HOME + 1e-3 * signs, HOME, BESIDE),
        "at a solution at a limit": (limit, limit, SAME),
        "at a saddle": (upright, upright, ACROSS),
    }
    joint_q, solutions, farthest = map(np.array, zip(*starts.values(), strict=True))
    poses = robot.forward_kinematics(solutions, [LINK])
    positions = poses.positions[:, 0]
    positions[-1, 2] -= SUNK
    return WarmStarts(tuple(starts), joint_q, positions, poses.orientations_xyzw[:, 0], farthest)

"""Hard pose targets of an arm: at its limits, near its singularities, out of its reach; float64, no solver code.

Nearest configurations to targets out of reach are found by descent from many seeds. Like the solver, it minimises
1/2 |r|^2 of the position and of 2 sign(w) vec(q q_target^-1), where a radian weighs as much as ROTATION_LENGTH metres.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.compared_robots import ComparedRobot
from benchmarks.problems.pose_problems import PoseProblems
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply
from ik_service.solver.given.targets import ROTATION_LENGTH

Float64Array = NDArray[np.float64]

LIMIT_SHARE = 0.3  # of the joints that stand at a limit
CLIMB_STEPS = 80
CLIMB_STEP = 0.5  # [rad] of the first random steps; the last are a thousandth of it
CLIMBS_TO_REACH = 200
NEARLY = (3e-3, 2e-2)  # [m] beyond the reach; the climb to the reach ends within a millimetre
FAR = (0.2, 1.0)
ITERATIONS = 150
DAMPING_START = 1e-2
DAMPING_RANGE = (1e-9, 1e6)


@dataclass(frozen=True)
class HardArm:
    """An arm whose first axes meet in one point, the shoulder."""

    case: ComparedRobot  # the robot and its link
    shoulder: str  # a link whose origin is that point
    random_seed: int = 1  # of everything that is drawn

    def at_limits(self, count: int) -> tuple[PoseProblems, Float64Array]:
        """Return the poses of configurations with joints at their limits, and how many joints are."""
        rng, joint_q = self._random_joint_q(count)
        lower, upper = self.case.robot.joint_limit_lower, self.case.robot.joint_limit_upper
        held = rng.random(joint_q.shape) < LIMIT_SHARE
        held[np.arange(count), rng.integers(joint_q.shape[1], size=count)] = True
        joint_q = np.where(held, np.where(rng.random(joint_q.shape) < 0.5, lower, upper), joint_q)
        return self._poses_of(joint_q), held.sum(axis=1).astype(np.float64)

    def near_singularities(self, count: int) -> tuple[PoseProblems, Float64Array]:
        """Return the poses of configurations near singularities, and their smallest singular values."""
        joint_q, negative = self._climb(count, lambda q: -self.smallest_singular_value(q))
        return self._poses_of(joint_q), -negative

    def out_of_reach(self, count: int, beyond: tuple[float, float]) -> tuple[PoseProblems, Float64Array]:
        """Return reachable poses moved away from the shoulder, and how far beyond the reach they are [m]."""
        rng, joint_q = self._random_joint_q(count)
        reachable = self._poses_of(joint_q)
        reach = self._climb(CLIMBS_TO_REACH, self._extension)[1].max()
        robot = self.case.robot
        centre = robot.forward_kinematics(robot.mid_joint_q, [self.shoulder]).positions[0, 0]
        direction = reachable.positions - centre
        direction /= np.linalg.norm(direction, axis=2, keepdims=True)
        distance = rng.uniform(*beyond, size=count)
        return replace(reachable, positions=centre + (reach + distance)[:, None, None] * direction), distance

    def smallest_singular_value(self, joint_q: Float64Array) -> Float64Array:
        """Return the smallest singular value [m] of the Jacobian, rotation weighed as in the solver, shape [n]."""
        robot, link = self.case.robot, self.case.links[0]
        twists = robot.motion_subspace(joint_q)
        positions = robot.forward_kinematics(joint_q, [link]).positions
        linear = twists[..., :3] + np.cross(twists[..., 3:], positions)
        jacobian = np.concatenate([linear, ROTATION_LENGTH * twists[..., 3:]], axis=2)
        return np.asarray(np.linalg.svd(jacobian, compute_uv=False)[:, -1])

    def _extension(self, joint_q: Float64Array) -> Float64Array:
        """Distance of the link from the shoulder [m], shape [n]."""
        positions = self.case.robot.forward_kinematics(joint_q, [self.shoulder, self.case.links[0]]).positions
        return np.linalg.norm(positions[:, 1] - positions[:, 0], axis=1)

    def _climb(self, count: int, height: Callable[[Float64Array], Float64Array]) -> tuple[Float64Array, Float64Array]:
        """Random steps upwards from random configurations; where they lead and how high that is."""
        rng, joint_q = self._random_joint_q(count)
        best, robot = height(joint_q), self.case.robot
        for size in np.geomspace(CLIMB_STEP, 1e-3 * CLIMB_STEP, CLIMB_STEPS):
            trial = joint_q + size * rng.standard_normal(joint_q.shape)
            trial = np.clip(trial, robot.joint_limit_lower, robot.joint_limit_upper)
            reached = height(trial)
            joint_q = np.where((reached > best)[:, None], trial, joint_q)
            best = np.maximum(best, reached)
        return joint_q, best

    def _random_joint_q(self, count: int) -> tuple[np.random.Generator, Float64Array]:
        rng = np.random.default_rng(self.random_seed)
        return rng, self.case.robot.random_joint_q(rng, count)

    def _poses_of(self, joint_q: Float64Array) -> PoseProblems:
        return PoseProblems.of(self.case.robot, self.case.links, joint_q)


def pose_costs(problems: PoseProblems, joint_q: NDArray[np.floating], with_orientation: bool) -> Float64Array:
    """Return 1/2 |r|^2 at configurations, one per problem, shape [n]."""
    return np.asarray(0.5 * (_residuals(problems, joint_q.astype(np.float64), with_orientation)[0] ** 2).sum(axis=1))


def least_costs(
    problems: PoseProblems, seeds: int, random_seed: int, with_orientation: bool
) -> tuple[Float64Array, Float64Array]:
    """Return the best configurations [n, joint_coord_count] of many seeds for each problem, and their costs [n].

    The robot's joints have one limited DOF each, and one link has targets.
    """
    robot, count = problems.robot, len(problems)
    joint_q = robot.random_joint_q(np.random.default_rng(random_seed), count * seeds)
    each = np.repeat(np.arange(count), seeds)
    repeated = problems[each]
    joint_q = _descend(repeated, joint_q, with_orientation).reshape(count, seeds, -1)
    costs = pose_costs(repeated, joint_q.reshape(count * seeds, -1), with_orientation).reshape(count, seeds)
    best = costs.argmin(axis=1)
    return joint_q[np.arange(count), best], costs.min(axis=1)


def _descend(problems: PoseProblems, joint_q: Float64Array, with_orientation: bool) -> Float64Array:
    """Levenberg-Marquardt with clamping and with joints held at limits that push back."""
    lower, upper = problems.robot.joint_limit_lower, problems.robot.joint_limit_upper
    damping = np.full(len(joint_q), DAMPING_START)
    residuals, jacobian = _residuals(problems, joint_q, with_orientation)
    for _ in range(ITERATIONS):
        gradient = np.einsum("nrd,nr->nd", jacobian, residuals)
        held = ((joint_q <= lower) & (gradient > 0.0)) | ((joint_q >= upper) & (gradient < 0.0))
        free = np.where(held[:, None, :], 0.0, jacobian)
        normal = np.einsum("nri,nrj->nij", free, free)
        normal[:, np.arange(len(lower)), np.arange(len(lower))] += damping[:, None]
        step = np.linalg.solve(normal, np.where(held, 0.0, -gradient)[..., None])[..., 0]
        trial = np.clip(joint_q + step, lower, upper)
        trial_residuals, trial_jacobian = _residuals(problems, trial, with_orientation)
        better = (trial_residuals**2).sum(axis=1) < (residuals**2).sum(axis=1)
        joint_q = np.where(better[:, None], trial, joint_q)
        residuals = np.where(better[:, None], trial_residuals, residuals)
        jacobian = np.where(better[:, None, None], trial_jacobian, jacobian)
        damping = np.clip(np.where(better, 0.3 * damping, 4.0 * damping), *DAMPING_RANGE)
    return joint_q


def _residuals(
    problems: PoseProblems, joint_q: Float64Array, with_orientation: bool
) -> tuple[Float64Array, Float64Array]:
    """Residuals [n, rows] and their Jacobian [n, rows, joint_dof_count]."""
    poses = problems.robot.forward_kinematics(joint_q, problems.links)
    twists = problems.robot.motion_subspace(joint_q)
    angular = twists[..., 3:].swapaxes(1, 2)
    linear = (twists[..., :3] + np.cross(twists[..., 3:], poses.positions)).swapaxes(1, 2)
    distance = poses.positions[:, 0] - problems.positions[:, 0]
    if not with_orientation:
        return distance, linear
    error = quaternion_multiply(poses.orientations_xyzw[:, 0], quaternion_conjugate(problems.orientations_xyzw[:, 0]))
    error *= np.where(error[:, 3:] < 0.0, -1.0, 1.0)
    # d(2 vec) = (w - [vec]x) omega
    turning = error[:, 3, None, None] * angular - np.cross(error[:, :3, None], angular, axis=1)
    residuals = np.concatenate([distance, 2.0 * ROTATION_LENGTH * error[:, :3]], axis=1)
    return residuals, np.concatenate([linear, ROTATION_LENGTH * turning], axis=1)

"""Nearest configurations to targets that cannot be reached: float64 descent from many seeds, in NumPy alone.

Minimises what the solver minimises: 1/2 |r|^2 of the position and of 2 sign(w) vec(q q_target^-1), which weighs as much
per radian as ROTATION_LENGTH metres.
"""

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.pose_problems import PoseProblems
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply
from ik_service.solver.given.targets import ROTATION_LENGTH

Float64Array = NDArray[np.float64]

ITERATIONS = 150
DAMPING_START = 1e-2
DAMPING_RANGE = (1e-9, 1e6)


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

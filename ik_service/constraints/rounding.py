"""Slack for rows of loops that are redundant but for rounded numbers; without slack such rows make a linkage rigid."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.descent import CLOSED, ClosingProblem, damped_step
from ik_service.constraints.linear_algebra import BoolArray, applied, least_change
from ik_service.constraints.partition import verdicts
from ik_service.constraints.residual_rows import BoundedRows, loop_frames
from ik_service.kinematics.bound_rows import frame_poses
from ik_service.mechanism.kinematic_robot import KinematicRobot, Robot
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import moving_dofs
from objectives.model import BodyFrame
from objectives.tasks.loop import LOOP_COMPONENTS

PRECISION = 5e-4
"""Largest misfit explained by rounding [rad, and share of the longest lever]: ten numbers, half a fourth digit each."""
SLACK_FACTOR, SLACK_MIN = 4.0, 1e-6
"""Slack of a row over the largest misfit found (rounded to two digits), and least slack: the tolerance of a loop."""
STARTS, STEPS, STEP_MOST, MOTION, WORK_MOST = 8, 10, 1.0, 0.2, 600
"""Start configurations, closing steps per start, longest step [rad or m], motion between two closed configurations
[rad or m]; and the largest product of loops and joints, above which no loop is examined."""
STANDSTILL = 1e-6  # a loop with less motion is rigid, with any slack [rad or m]


def with_slack(robot: Robot) -> Robot:
    """Add slack, with a warning, to rows of loops that are redundant but for rounding; keep slack of the caller."""
    loops, warnings = list(robot.loops), list[str]()
    if len(loops) * robot.joint_count > WORK_MOST:
        warning = "Too many loops to look for rounded numbers in them: their rows count as they are written."
        return dataclasses.replace(robot, warnings=(*robot.warnings, warning))
    bare = dataclasses.replace(robot, locked={}, velocity_constraints=(), coordinate_constraints=())
    for k, loop in enumerate(loops):
        alone = dataclasses.replace(bare, loops=(dataclasses.replace(loop, limits=None),))
        if loop.slack is None and (misfit := _misfit(alone, LOOP_COMPONENTS[loop.joint])):
            slack = {name: float(f"{max(SLACK_FACTOR * own, SLACK_MIN):.1e}") for name, own in misfit.items()}
            loops[k] = dataclasses.replace(loop, slack=tuple(slack.items()))
            rows = [f"{name} {most:.1e} ({misfit[name]:.1e} found)" for name, most in slack.items()]
            warnings.append(
                f"Loop '{loop.name}': rounded numbers make rows contradict each other that are redundant with exact "
                f"numbers. The loop counts as closed with these rows off by up to, in m and rad: {', '.join(rows)}."
            )
    return dataclasses.replace(robot, loops=tuple(loops), warnings=(*robot.warnings, *warnings)) if warnings else robot


def _misfit(robot: KinematicRobot, names: Sequence[str]) -> dict[str, float]:
    """Give the misfit of the redundant rows of a robot's only loop, along a motion that meets all other rows."""
    rng, every = np.random.default_rng(0), np.ones(len(names), dtype=bool)
    starts = np.concatenate([robot.mid_joint_q[np.newaxis], robot.random_joint_q(rng, STARTS - 1)])
    unlimited = np.full(robot.joint_dof_count, np.inf)  # narrow limits would hide motions of the loop
    robot = dataclasses.replace(robot, joint_limit_lower=-unlimited, joint_limit_upper=unlimited)
    ((frame, reference),) = loop_frames(robot)
    problem = ClosingProblem(BoundedRows(robot), np.ones(robot.active_dof_count, dtype=bool))
    near = _closed(problem, starts, every)
    values, jacobian = problem.linearised(near, every)
    is_length = np.array([name[0] not in "exz" for name in names])  # rows of angles are ex, zx, xz, ...
    dofs = np.flatnonzero(moving_dofs(robot, frame.body) != moving_dofs(robot, reference.body))
    gap = _longest_gap(reference, robot, near, dofs)
    lever = max(np.linalg.norm(jacobian[:, is_length], axis=2).max(initial=0.0), gap)
    size = np.where(is_length, max(lever, STANDSTILL), 1.0)  # misfits relative to the size of the mechanism
    most = PRECISION * size
    kept = (np.abs(values) <= most).all(axis=1)
    loose = (
        verdicts(jacobian[kept] / size[:, np.newaxis], values[kept], PRECISION, 1.0)[0].sum(axis=0) > 0.5 * kept.sum()
    )
    if not loose.any():
        return {}
    jacobian = jacobian[kept] * ~loose[:, np.newaxis]
    change = np.tile(rng.normal(size=jacobian.shape[2]), (len(jacobian), 1))
    change[:, np.setdiff1d(np.arange(jacobian.shape[2]), robot.dof_active[dofs])] = 0.0
    change += least_change(jacobian, applied(jacobian, change))
    length = np.linalg.norm(change, axis=1, keepdims=True)
    moved = problem.stepped(near[kept], MOTION * change / np.maximum(length, STANDSTILL))
    values = np.abs(problem.linearised(_closed(problem, moved, ~loose), every)[0])
    values = values[(values[:, ~loose] <= CLOSED).all(axis=1) & (length[:, 0] > STANDSTILL)]
    misfit = values.max(axis=0, initial=0.0) * (values <= most).all()  # one larger misfit: the cause is not rounding
    return {name: float(own) for name, own in zip(names, misfit, strict=True) if own > CLOSED}


def _longest_gap(reference: BodyFrame, robot: KinematicRobot, joint_q: Float64Array, dofs: NDArray[np.intp]) -> float:
    """Give the longest distance from the joints of some DOFs to the reference frame of a robot's only loop [m]."""
    poses = robot.body_poses(joint_q)
    joints = robot.dof_joint[dofs]
    ways = poses[:, joints, :3] - frame_poses(poses, [reference.body], [reference.T_body_frame])[..., :3]
    return float(np.linalg.norm(ways, axis=2).max(initial=0.0))


def _closed(problem: ClosingProblem, joint_q: Float64Array, on: BoolArray) -> Float64Array:
    """Step towards rows of 0, but not along directions in which rows change less than rounding changes them."""
    for _ in range(STEPS):
        values, jacobian = problem.linearised(joint_q, on)
        change = damped_step(jacobian, values, (3.0 * PRECISION) ** 2 * (jacobian**2).sum(axis=(1, 2)) + CLOSED**2)
        length = np.linalg.norm(change, axis=1, keepdims=True)
        joint_q = problem.stepped(joint_q, change * np.minimum(1.0, STEP_MOST / np.maximum(length, STANDSTILL)))
    return joint_q

"""Closing loops: descent from the start configuration, further starts if the descent fails, assembly modes, sweeps.

A sweep moves a coordinate step by step and closes loops at each step from the step before; long steps are divided.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.descent import CLOSED, ClosingProblem, Descent, close_from
from ik_service.constraints.linear_algebra import BoolArray, by_active, ranks
from ik_service.constraints.partition import dependent_columns
from ik_service.constraints.residual_rows import BoundedRows
from ik_service.constraints.results import ClosureStatus
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.names import dof_at
from ik_service.mechanism.transforms import Float64Array, rotation_between
from objectives.errors import InputError

ANOTHER_MODE = 1e-4  # smallest distance between bodies of two assembly modes [m or rad]
ATTEMPTS = 16  # starts for a configuration that does not close, and for each wanted assembly mode


def nearest_closed(
    rows: BoundedRows, start: Float64Array, free: BoolArray, on: BoolArray, attempts: int, rng: np.random.Generator
) -> Descent:
    """Close loops from the start; if that fails, from other starts: keep the closed result nearest to the start."""
    problem = ClosingProblem(rows, free)
    found = close_from(problem, start, on)
    failed = np.flatnonzero(~is_closed(found))
    if len(failed) == 0 or attempts <= 1 or not free.any():
        return found
    others = other_starts(rows.robot, start[failed], free, rows.robot.random_joint_q(rng, attempts - 1))
    tried = close_from(problem, others, np.repeat(on[failed], attempts - 1, axis=0))
    begins = np.repeat(start[failed], attempts - 1, axis=0)
    on_nearest_turns(rows.robot, tried.joint_q, begins)
    far = distance(rows.robot, tried.joint_q, begins)
    far = np.where(is_closed(tried), far, np.inf).reshape(len(failed), attempts - 1)
    best = far.argmin(axis=1)
    solved = np.isfinite(far.min(axis=1))
    chosen = (np.arange(len(failed)) * (attempts - 1) + best)[solved]
    kept = failed[solved]
    found.joint_q[kept], found.rows[kept] = tried.joint_q[chosen], tried.rows[chosen]
    found.held[kept], found.iterations[kept] = tried.held[chosen], tried.iterations[chosen]
    return found


def is_closed(found: Descent) -> BoolArray:
    """Give a mask of the closed configurations, shape [n]."""
    return np.asarray(np.abs(found.rows).max(axis=1, initial=0.0) <= CLOSED)


def statuses(found: Descent) -> NDArray[np.int32]:
    """Give the status of each configuration, shape [n]."""
    failure = np.where(found.held, ClosureStatus.BLOCKED_BY_LIMITS, ClosureStatus.OPEN)
    return np.where(is_closed(found), ClosureStatus.CLOSED, failure).astype(np.int32)


def assembly_modes(
    rows: BoundedRows, first: Descent, free: BoolArray, on: BoolArray, count: int, rng: np.random.Generator
) -> tuple[Float64Array, NDArray[np.int32]]:
    """Find assembly modes, nearest first, [n, count, joint_coord_count], padded with NaN; and their number [n].

    Independent DOFs keep their coordinates of `first`. The first mode is `first`, if closed.
    """
    robot, n = rows.robot, len(first.joint_q)
    modes = np.full((n, count, robot.joint_coord_count), np.nan)
    number = np.zeros(n, dtype=np.int32)
    closed = np.flatnonzero(is_closed(first))
    attempts = ATTEMPTS * count
    drawn = robot.random_joint_q(rng, attempts)
    driven_dofs, choice = np.unique(
        following_dofs(rows, first.joint_q[closed], free, on[closed]), axis=0, return_inverse=True
    )
    for k, driven in enumerate(driven_dofs):
        chosen = closed[choice.reshape(-1) == k]
        start = first.joint_q[chosen]
        others = other_starts(robot, start, driven, drawn)
        tried = close_from(ClosingProblem(rows, driven), others, np.repeat(on[chosen], attempts, axis=0))
        on_nearest_turns(robot, tried.joint_q, np.repeat(start, attempts, axis=0))
        found = np.concatenate([start[:, np.newaxis], tried.joint_q.reshape(len(chosen), attempts, -1)], axis=1)
        good = np.column_stack([np.ones(len(chosen), dtype=bool), is_closed(tried).reshape(len(chosen), attempts)])
        for place, problem in enumerate(chosen):
            distinct = _distinct(robot, found[place][good[place]])[:count]
            modes[problem, : len(distinct)], number[problem] = distinct, len(distinct)
    return modes, number


def following_dofs(rows: BoundedRows, joint_q: Float64Array, free: BoolArray, on: BoolArray) -> BoolArray:
    """Choose dependent DOFs among the free active DOFs, for each configuration, [n, active_dof_count]."""
    jacobian = rows.values(joint_q).jacobian[:, : rows.equation_count]
    own = by_active(rows.robot, jacobian) * free * on[:, : jacobian.shape[1], np.newaxis]
    chosen = [dependent_columns(one, int(rank)) for one, rank in zip(own, ranks(own), strict=True)]
    return np.array(chosen, dtype=bool).reshape(len(joint_q), len(free))


def other_starts(robot: KinematicRobot, start: Float64Array, free: BoolArray, drawn: Float64Array) -> Float64Array:
    """Combine starts and drawn coordinates of free DOFs, shape [n * drawn, joint_coord_count].

    All starts get the same draws, so that results do not depend on the batch.
    """
    starts, drawn = np.repeat(start, len(drawn), axis=0), np.tile(drawn, (len(start), 1))
    moved = np.append(free, False)[robot.dof_active]
    for joint in range(robot.joint_count):
        own = slice(int(robot.joint_q_start[joint]), int(robot.joint_q_start[joint + 1]))
        dofs = slice(int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1]))
        if moved[dofs].all():
            starts[:, own] = drawn[:, own]
    return starts


def distance(robot: KinematicRobot, a: Float64Array, b: Float64Array) -> Float64Array:
    """Give distances of configurations, over coordinates and the angles of quaternions, shape [n]."""
    scalar = robot.dof_coordinate[robot.dof_coordinate >= 0]
    squares = ((a[:, scalar] - b[:, scalar]) ** 2).sum(axis=1)
    for first in robot.quaternion_starts.values():
        own = slice(first, first + 4)
        squares += (rotation_between(b[:, own], a[:, own]) ** 2).sum(axis=1)
    return np.asarray(np.sqrt(squares))


def on_nearest_turns(robot: KinematicRobot, joint_q: Float64Array, start: Float64Array) -> None:
    """Move continuous joints by whole turns, in place, nearest to the start.

    Joints in mimic couplings or coordinate constraints are left: a whole turn would move the coupled joint.
    """
    coupled = {*robot.follower_dofs, *robot.dof_leader[robot.follower_dofs]}
    equated = {joint for one in robot.coordinate_constraints for joint in one.joints}
    coupled |= {int(robot.joint_qd_start[robot.joint_index(joint)]) for joint in equated}
    for joint, kind in enumerate(robot.joint_type):
        if kind == JointType.CONTINUOUS and int(robot.joint_qd_start[joint]) not in coupled:
            k = int(robot.joint_q_start[joint])
            joint_q[:, k] += 2.0 * np.pi * np.round((start[:, k] - joint_q[:, k]) / (2.0 * np.pi))


def _distinct(robot: KinematicRobot, joint_q: Float64Array) -> Float64Array:
    """Give the first configuration and, nearest first, further configurations with other poses of bodies."""
    near = np.argsort(distance(robot, joint_q, joint_q[:1]), kind="stable")
    poses = robot.body_poses(joint_q)
    kept: list[int] = []
    for k in near:
        apart = [_apart(poses[k], poses[other]) for other in kept]
        if min(apart, default=np.inf) > ANOTHER_MODE:
            kept.append(int(k))
    return joint_q[kept]


def _apart(a: Float64Array, b: Float64Array) -> float:
    """Give the largest distance or angle between poses of bodies [body_count, 7]."""
    turns = rotation_between(b[:, 3:], a[:, 3:])
    return float(max(np.abs(a[:, :3] - b[:, :3]).max(initial=0.0), np.abs(turns).max(initial=0.0)))


MAX_STEPS = 100_000
LONGEST_STEP = 0.2  # [rad or m]: after a longer step, loops may close in another assembly mode


def steps_of(bounds: tuple[float, float], step: float) -> Float64Array:
    """Give the values of a sweep, from the first bound to the second, both included; InputError for bad numbers."""
    first, last = map(float, bounds)
    if not (np.isfinite([first, last]).all() and np.isfinite(step) and step > 0.0):
        raise InputError(f"A sweep from {first} to {last} by {step}. Allowed: finite bounds and a step above 0.")
    count = abs(last - first) / step
    if (most := max(count, abs(last - first) / LONGEST_STEP)) > MAX_STEPS:
        raise InputError(f"A sweep of {most:.0f} steps of {LONGEST_STEP} rad or m at most. Allowed: {MAX_STEPS}.")
    values = first + np.sign(last - first) * step * np.arange(int(count * (1.0 + 1e-12)) + 1)
    return values if np.isclose(values[-1], last, rtol=0.0, atol=1e-9 * step) else np.append(values, last)


def swept(
    rows: BoundedRows, start: Float64Array, coordinate: int, values: Float64Array, free: BoolArray, on: BoolArray
) -> tuple[Float64Array, NDArray[np.int32]]:
    """Close loops at each value of a coordinate: configurations [n, steps, joint_coord_count], statuses [n, steps].

    `free`, the mask of free DOFs [active_dof_count], excludes the DOF of the coordinate.
    """
    problem, joint_q = ClosingProblem(rows, free), start.copy()
    joint_q[:, coordinate] = values[0]
    found = [nearest_closed(rows, joint_q, free, on, ATTEMPTS, np.random.default_rng(0))]
    for last, value in pairwise(values.tolist()):
        parts = int(np.ceil(abs(value - last) / LONGEST_STEP * (1.0 - 1e-9)))
        one = found[-1]
        for part in range(parts):
            joint_q = one.joint_q.copy()
            joint_q[:, coordinate] = value if part == parts - 1 else last + (value - last) * (part + 1) / parts
            one = close_from(problem, joint_q, on)
        found.append(one)
    return np.stack([one.joint_q for one in found], axis=1), np.stack([statuses(one) for one in found], axis=1)


def scalar_coordinate(robot: KinematicRobot, joint: str, component: str | None) -> int:
    """Find the DOF of a joint, or of a joint's component, with a scalar coordinate.

    UnknownNameError for an unknown joint, InputError without such a DOF, for a follower, and for a missing component.
    """
    index = robot.joint_index(joint)
    dofs = range(int(robot.joint_qd_start[index]), int(robot.joint_qd_start[index + 1]))
    names = {dof_at(robot, dof).component: dof for dof in dofs if robot.dof_coordinate[dof] >= 0}
    wanted = component or ""
    if wanted not in names:
        allowed = ", ".join(repr(name) for name in names) or "none, its coordinates are a quaternion"
        raise InputError(f"Joint '{joint}' has no component {wanted!r} to sweep. Allowed: {allowed}.")
    leader = int(robot.dof_leader[names[wanted]])
    if leader != names[wanted]:
        raise InputError(f"Joint '{joint}' follows '{robot.dof_names[leader]}'. Sweep that one.")
    return names[wanted]

"""Fitting of clips: the least error of targets over all frames, within limits of speed and acceleration.

    frames alone, drawn weakly to the middle of the ranges -> chains without jumps, forwards and backwards, the cheaper
    -> clips that keep all limits (`ClipLimits.kept`)
    -> every second frame (every third with limits of acceleration) within the room that its neighbours leave, drawn to
    their mean; then the other frames -> again, until no frame moves

No step leaves the limits, and the cost falls. Answers depend on the data alone: no start is taken.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, identity_transform, transform_inverse, transform_multiply
from ik_service.mechanism.trees import joints_to
from ik_service.motion.clip_limits import Frames, neighbours
from ik_service.motion.clip_problem import ClipProblem, DrawnSolver
from ik_service.robots import JointType
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.result import IKResult

SWEEPS = {2: 6, 3: 16}  # most passes over all frames, by the number of colours of `ClipLimits`
SWEEP_ITERATIONS = 4  # of a frame in a pass
MIDDLE_WEIGHT = 0.01  # of the draw to the middle of the ranges, for frames alone [1/rad or 1/m]
SMOOTH_WEIGHT = 0.01  # of the draw to the mean of the neighbours, times `smoothness`
FIRST_SEEDS, FIRST_SOLUTIONS = 64, 8  # of the first frame of a chain
OVER_CHARGE = 0.1  # of a chain for a step beyond its limit [1/rad or 1/m]
NEAR_STEPS = 2.0  # times the largest step: a frame solved alone so near the frame before is taken
SETTLED = 2e-3  # largest change of a joint in the last pass of a settled frame [rad or m]


@dataclass(frozen=True, eq=False)
class FittedClip:
    """Configurations of a clip, and the changes of the last pass."""

    joint_q: Float64Array  # [frames, joint_coord_count]
    moved: Float64Array  # largest change of a joint in the last pass [rad or m], [frames]
    held_back: NDArray[np.bool_]  # whether a limit holds a joint, [frames]


def fitted(problem: ClipProblem, solver: DrawnSolver, options: SolverOptions) -> FittedClip | None:
    """Return fitted clips; None for a faulty number."""
    limits, clip, columns = problem.limits, problem.clip, problem.limits.columns
    first = None if problem.first is None else problem.first[columns]
    options = replace(options, seeds=1, best_of=None, solutions=1, deadline_s=None)
    joint_q = _chains(problem, solver, options)
    if joint_q is None:
        return None
    begins = begins_of(clip)
    joint_q[:, columns] = limits.kept(joint_q[:, columns], begins, first)
    colour_of = (np.arange(len(clip)) - begins[clip]) % limits.colours
    options = replace(options, max_iterations=SWEEP_ITERATIONS)
    moved = np.full(len(joint_q), np.inf)
    for _ in range(SWEEPS[limits.colours]):
        active = _beside(moved > SETTLED, clip)
        before = joint_q.copy()
        for colour in range(limits.colours):
            frames = np.flatnonzero(active & (colour_of == colour))
            if len(frames):
                _sweep(problem, solver, options, joint_q, frames)
        moved = np.abs(joint_q - before)[:, columns].max(axis=1, initial=0.0)
        if not (moved > SETTLED).any():
            break
    lower, upper = limits.room(joint_q[:, columns], np.arange(len(joint_q)), clip, first)
    at, narrow = joint_q[:, columns], 1e-6
    held_back: NDArray[np.bool_] = (at <= lower + narrow) | (at >= upper - narrow)
    return FittedClip(problem.robot.complete_joint_q(joint_q), moved, np.asarray(held_back.any(axis=1)))


def _chains(problem: ClipProblem, solver: DrawnSolver, options: SolverOptions) -> Float64Array | None:
    """Return configurations of all frames, each near the one before or found from there; None for a faulty number."""
    robot, middle = problem.robot, problem.robot.mid_joint_q
    start = starts(problem)
    alone = solver.solve(problem.batch._replace(start=start), options, middle[None], MIDDLE_WEIGHT)
    if alone is None:
        return None
    begins, found = begins_of(problem.clip), alone.joint_q.astype(np.float64)
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(start)], strict=True):
        frames = np.arange(begin, end)
        best = _value(problem, found[frames], _costs(alone)[frames])
        for way in [frames] if problem.first is not None else [frames, frames[::-1]]:
            for first in _firsts(problem, solver, options, way[:1], start) if best > 0.0 else ():
                chain, costs = _chain(problem, solver, options, way, first, alone)
                if (value := _value(problem, chain, costs)) < best:
                    best, found[frames] = value, chain
                if best == 0.0:
                    break
    return np.asarray(robot.complete_joint_q(found))


def _value(problem: ClipProblem, joint_q: Float64Array, costs: Float64Array) -> float:
    """Return the costs of the frames of a clip with a charge for steps beyond their limits."""
    columns = problem.limits.columns
    points = joint_q[:, columns]
    if problem.first is not None:
        points = np.vstack([problem.first[columns], points])
    over = np.maximum(np.abs(np.diff(points, axis=0)) - problem.limits.step, 0.0).sum()
    return float(costs.sum() + OVER_CHARGE * over)


def _firsts(
    problem: ClipProblem, solver: DrawnSolver, options: SolverOptions, frame: Frames, start: Float64Array
) -> Float64Array:
    """Return configurations to begin chains at a frame, [n, joint_coord_count]; none if the frame cannot be met."""
    part = problem.batch.part(frame)._replace(start=start[frame])
    asked = replace(options, seeds=FIRST_SEEDS, best_of="cost" if solver.chooses else None)
    result = solver.solve(part, asked, problem.robot.mid_joint_q[None], MIDDLE_WEIGHT)
    assert result is not None  # the numbers were sound before
    if not result.success[0]:  # noise moves the least error; a chain would lead to other minima
        return np.empty((0, problem.robot.joint_coord_count))
    if problem.first is not None:
        return problem.first[None]
    if not solver.chooses:
        return result.joint_q.astype(np.float64)
    several = solver.solve(part, replace(options, seeds=None, solutions=FIRST_SOLUTIONS), start[frame], 0.0)
    assert several is not None
    assert several.solutions is not None
    other = several.solutions[0][np.isfinite(several.solutions[0]).all(axis=1)]
    return np.concatenate([result.joint_q, other]).astype(np.float64)


def _chain(
    problem: ClipProblem,
    solver: DrawnSolver,
    options: SolverOptions,
    way: Frames,  # frames in the order of the chain
    first: Float64Array,  # configuration of the first frame, or before where the caller gives one
    alone: IKResult,  # frames solved alone
) -> tuple[Float64Array, Float64Array]:
    """Return configurations and costs of a chain, in order of frames.

    A frame solved alone is taken where it is near the frame before; others are solved from the frame before.
    """
    columns, given = problem.limits.columns, alone.joint_q[way].astype(np.float64)
    found, costs, most = given.copy(), _costs(alone)[way], NEAR_STEPS * problem.limits.step
    jumps = np.ones(len(way), bool)
    jumps[1:] = (np.abs(np.diff(given[:, columns], axis=0)) > most).any(axis=1)
    before, place, is_alone = first, 0, False
    if problem.first is None:
        found[0], place = first, 1
    while place < len(way):
        if is_alone and not jumps[place]:  # all frames up to the next jump
            later = np.flatnonzero(jumps[place:])
            place = place + int(later[0]) if len(later) else len(way)
            before = given[place - 1]
            continue
        is_alone = bool((np.abs(given[place] - before)[columns] <= most).all())
        if not is_alone:
            part = problem.batch.part(way[place : place + 1])._replace(start=before[None])
            result = solver.solve(part, options, before[None], MIDDLE_WEIGHT)
            assert result is not None  # the numbers were sound before
            found[place], costs[place] = result.joint_q[0], _costs(result)[0]
        before, place = found[place], place + 1
    order = np.argsort(way)
    return found[order], costs[order]


def _costs(result: IKResult) -> Float64Array:
    """Return the costs of frames, 0 where all targets are met."""
    return np.where(result.success, 0.0, result.cost.astype(np.float64))


def begins_of(clip: Frames) -> Frames:
    """Return the first frame of each clip."""
    return np.flatnonzero(np.concatenate([[True], clip[1:] != clip[:-1]]))


def starts(problem: ClipProblem) -> Float64Array:
    """Return the middle of the ranges for each frame, with floating bases at their targets, [n, coordinates]."""
    robot, batch = problem.robot, problem.batch
    found, targets = np.tile(robot.mid_joint_q, (batch.problem_count, 1)), batch.targets or ()
    if problem.first is not None:  # locked joints stay where they are
        locked = robot.trees.coordinate_treeid < 0
        found[:, locked] = problem.first[locked]
    whole = [
        k
        for k, (position, orientation) in enumerate(zip(batch.positions, batch.orientations_xyzw, strict=True))
        if position is not None
        and orientation is not None
        and targets[k].reference_link is None
        and (problem.weights[:, k] > 0.0).all()
    ]
    for joint, kind in enumerate(map(JointType, robot.joint_type)):
        if kind is not JointType.FLOATING or robot.dof_active[robot.joint_qd_start[joint]] < 0:
            continue
        ways = {k: joints_to(robot, robot.link_frame(targets[k].link)[0]) for k in whole}
        above = {k: len(way) for k, way in ways.items() if joint in way}
        if not above:
            continue
        k = min(above, key=lambda one: above[one])  # fewest joints between base and link
        first = int(robot.joint_q_start[joint])
        middle, mount = robot.mid_joint_q[first : first + 7], robot.joint_X_p[joint]
        poses = robot.forward_kinematics(robot.mid_joint_q, [targets[k].link])
        link = np.concatenate([poses.positions[0, 0], poses.orientations_xyzw[0, 0]])
        rest = transform_multiply(transform_inverse(transform_multiply(mount, middle)), link)
        tool = identity_transform() if targets[k].offset is None else np.asarray(targets[k].offset, np.float64)
        rest = transform_multiply(np.broadcast_to(rest, tool.shape), tool)
        both = np.concatenate([np.asarray(batch.positions[k]), np.asarray(batch.orientations_xyzw[k])], axis=1)
        in_mount = transform_multiply(np.tile(transform_inverse(mount), (len(both), 1)), both.astype(np.float64))
        placed = transform_multiply(in_mount, np.broadcast_to(transform_inverse(rest), in_mount.shape))
        found[:, first : first + 7] = placed
    return found


def _beside(marks: NDArray[np.bool_], clip: Frames) -> NDArray[np.bool_]:
    """Return the mask of marked frames and of their neighbours in the same clip."""
    found, same = marks.copy(), clip[1:] == clip[:-1]
    found[1:] |= marks[:-1] & same
    found[:-1] |= marks[1:] & same
    return found


def _sweep(
    problem: ClipProblem, solver: DrawnSolver, options: SolverOptions, joint_q: Float64Array, frames: Frames
) -> None:
    """Improve frames that do not depend on each other, in place."""
    limits, columns, robot = problem.limits, problem.limits.columns, problem.robot
    q, first = joint_q[:, columns], None if problem.first is None else problem.first[columns]
    lower, upper = limits.room(q, frames, problem.clip, first)
    before, after = (neighbours(q, frames, side, problem.clip, first) for side in (-1, 1))
    with np.errstate(invalid="ignore"):
        mean = np.where(np.isnan(before), after, np.where(np.isnan(after), before, 0.5 * (before + after)))
    reference = joint_q[frames]
    reference[:, columns] = np.where(np.isnan(mean), q[frames], mean)
    ends = np.full((2, len(frames), robot.active_dof_count), np.inf)
    ends[0] = -np.inf
    own = robot.dof_coordinate[robot.active_dof] >= 0
    ends[0][:, own], ends[1][:, own] = lower, upper
    asked = RequestedLimits(ends[0], ends[1], np.zeros_like(ends[0], dtype=bool))
    part = problem.batch.part(frames)._replace(start=joint_q[frames], limits=asked)
    weight = SMOOTH_WEIGHT * problem.smoothness
    result = solver.solve(part, options, reference, weight)
    assert result is not None  # the numbers were sound before
    joint_q[frames] = result.joint_q
    # limits in float64: float32 rounds beyond them
    joint_q[np.ix_(frames, columns)] = np.clip(joint_q[np.ix_(frames, columns)], lower, upper)

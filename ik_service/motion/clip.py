"""Fitting of clips: the least error of targets over all frames, within limits of speed and acceleration.

    frames alone, drawn weakly to the middle of the ranges -> clips that keep all limits (`ClipLimits.kept`)
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
from ik_service.robots import JointType, RobotModel
from ik_service.solver.given.asked_limits import AskedLimits
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions

SWEEPS = {2: 6, 3: 16}  # most passes over all frames, by the number of colours of `ClipLimits`
SWEEP_ITERATIONS = 4  # of a frame in a pass
MIDDLE_WEIGHT = 0.01  # of the draw to the middle of the ranges, for frames alone [1/rad or 1/m]
SMOOTH_WEIGHT = 0.01  # of the draw to the mean of the neighbours, times `smoothness`
SETTLED = 2e-3  # largest change of a joint in the last pass of a settled frame [rad or m]


@dataclass(frozen=True, eq=False)
class FittedClip:
    """Configurations of a clip, and what the last pass moved."""

    joint_q: Float64Array  # [frames, joint_coord_count]
    moved: Float64Array  # largest change of a joint in the last pass [rad or m], [frames]
    held_back: NDArray[np.bool_]  # whether a limit holds a joint, [frames]


def fitted(problem: ClipProblem, solver: DrawnSolver, options: SolverOptions) -> FittedClip | None:
    """Return fitted clips; None for a faulty number."""
    limits, clip, columns = problem.limits, problem.clip, problem.limits.columns
    first = None if problem.first is None else problem.first[columns]
    start, middle = starts(problem.robot, problem.batch), problem.robot.mid_joint_q
    options = replace(options, seeds=1, best_of=None, solutions=1)
    alone = solver.solve(problem.batch._replace(start=start), options, middle[None], MIDDLE_WEIGHT)
    if alone is None:
        return None
    joint_q = alone.joint_q.astype(np.float64)
    begins = np.flatnonzero(np.concatenate([[True], clip[1:] != clip[:-1]]))
    joint_q[:, columns] = limits.kept(joint_q[:, columns], begins, first)
    options = replace(options, max_iterations=SWEEP_ITERATIONS)
    moved = np.full(len(joint_q), np.inf)
    for _ in range(SWEEPS[limits.colours]):
        active = _beside(moved > SETTLED, clip)
        before = joint_q.copy()
        for colour in range(limits.colours):
            frames = np.arange(colour, len(joint_q), limits.colours)
            frames = frames[active[frames]]
            if len(frames):
                _sweep(problem, solver, options, joint_q, frames)
        moved = np.abs(joint_q - before)[:, columns].max(axis=1, initial=0.0)
        if not (moved > SETTLED).any():
            break
    lower, upper = limits.room(joint_q[:, columns], np.arange(len(joint_q)), clip, first)
    at, narrow = joint_q[:, columns], 1e-6
    held_back: NDArray[np.bool_] = (at <= lower + narrow) | (at >= upper - narrow)
    return FittedClip(joint_q, moved, np.asarray(held_back.any(axis=1)))


def starts(robot: RobotModel, batch: Batch) -> Float64Array:
    """Return the middle of the ranges for each problem, with floating bases at their targets, [n, coordinates]."""
    found, targets = np.tile(robot.mid_joint_q, (batch.problem_count, 1)), batch.targets or ()
    whole = [
        k
        for k, (position, orientation) in enumerate(zip(batch.positions, batch.orientations_xyzw, strict=True))
        if position is not None and orientation is not None and targets[k].reference_link is None
    ]
    for joint, kind in enumerate(map(JointType, robot.joint_type)):
        if kind is not JointType.FLOATING:
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
    asked = AskedLimits(ends[0], ends[1], np.zeros_like(ends[0], dtype=bool))
    part = problem.batch.part(frames)._replace(start=joint_q[frames], limits=asked)
    weight = SMOOTH_WEIGHT * problem.smoothness
    result = solver.solve(part, options, reference, weight)
    assert result is not None  # the numbers were sound before
    joint_q[frames] = result.joint_q
    # limits in float64: float32 rounds beyond them
    joint_q[np.ix_(frames, columns)] = np.clip(joint_q[np.ix_(frames, columns)], lower, upper)

"""Following a path: configurations from waypoints."""

import logging
from dataclasses import replace
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip_limits import ClipLimits
from ik_service.motion.metric import FloatArray, JointMetric
from ik_service.motion.pieces import MORE, STARTS_PER_SOLUTION, find_pieces
from ik_service.motion.result import PathResult, RateLimits, WaypointAnswers, path_result
from ik_service.motion.tracks import GroupSolver
from ik_service.motion.turns import unwound
from ik_service.motion.waypoints import Group, Waypoints, least_on_ways
from ik_service.robots import RobotModel
from ik_service.solver.given.options import SOLUTIONS_MAX
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.recording import seldom_recorded
from ik_service.solver.result import IKResult
from objectives import InputError

_logger = logging.getLogger(__name__)


def followed(
    waypoints: Waypoints, order: CallerOrder, rates: RateLimits, solutions: int, start: FloatArray | None
) -> PathResult | None:
    """Return the result of a path; None for faulty numbers in the targets.

    `solutions` is the number of tracks (InputError for an invalid number), `start` the configuration before the first
    waypoint.
    """
    whole = isinstance(solutions, Integral) and not isinstance(solutions, bool)
    if not whole or not 1 <= solutions <= SOLUTIONS_MAX:
        raise InputError(f"solutions is {solutions!r}. Allowed: a whole number from 1 to {SOLUTIONS_MAX}.")
    final = replace(waypoints.options, best_of=None, solutions=1, precision=waypoints.finish)
    position, orientation = final.search_tolerances(waypoints.robot.length_unit)
    options = replace(final, precision="float32", position_tolerance=position, orientation_tolerance=orientation)
    robot, search_start = waypoints.robot, None
    if start is not None:  # searches begin anywhere, but with locked joints as in the start
        elsewhere = np.where(robot.trees.coordinate_treeid >= 0, robot.mid_joint_q, start)
        search_start = None if np.array_equal(elsewhere, robot.mid_joint_q) else elsewhere
    found = waypoints.solve(waypoints.problems._replace(start=search_start), options, None)
    if found is None:
        return None
    waypoints = replace(waypoints, options=replace(options, seeds=1)).grouped(found)
    with seldom_recorded():
        path = follow(waypoints, found, rates, int(solutions), start)
    judged = waypoints.judged(path, final)
    failed = np.where(found.status == IKStatus.CONVERGED, judged.status, found.status)
    success, clearance, joint_q = judged.success, None, judged.joint_q.astype(np.float64)
    status = np.where(success, np.int8(IKStatus.CONVERGED), failed).astype(np.int8)
    if waypoints.check is not None:
        points = np.concatenate([joint_q[:1] if start is None else start[None], joint_q])
        own = (robot, waypoints.check, JointMetric(robot))
        clearance, is_free = least_on_ways(*own, points, waypoints.options.margin)
        status = np.where(success & ~is_free, np.int8(IKStatus.BLOCKED_BY_COLLISION), status)
        success = success & is_free
    answers = WaypointAnswers(success, status, judged.position_error, judged.orientation_error, clearance)
    return path_result(robot, order, joint_q, start, rates, answers)


def follow(
    waypoints: Waypoints, found: IKResult, rates: RateLimits, solutions: int, start: FloatArray | None
) -> Float64Array:
    """Return the configurations of a path, [waypoints, coordinates]; `found` solves single waypoints.

    A group of joints without a solution moves straight from the solution before to the solution after. A group without
    any solution stands still, with a warning in the log.
    """
    robot, path = waypoints.robot, found.joint_q.astype(np.float64)
    if start is not None:
        moved = [c for group in waypoints.groups for c in group.coordinates]
        unmoved = ~np.isin(np.arange(path.shape[1]), moved)
        path[:, unmoved] = start[unmoved]
    limits = ClipLimits.of(robot, rates)
    rng = np.random.default_rng(waypoints.options.random_seed)
    starts = robot.random_joint_q(rng, STARTS_PER_SOLUTION * MORE * solutions)
    for group in waypoints.groups:
        success = waypoints.successes(found, group)
        layers = np.flatnonzero(success)
        if len(layers):
            solver = GroupSolver(waypoints, group, layers, path, limits)
            difference = waypoints.options.solution_difference
            before = None if start is None else np.asarray(start, np.float64)
            for piece in find_pieces(solver, path[layers], starts, solutions, difference, before):
                path[np.ix_(layers[piece.place], group.coordinates)] = piece.joint_q[:, group.coordinates]
        _fill(robot, group, path, success, start)
        path = np.asarray(unwound(robot, group.metric, robot.complete_joint_q(path), start))
    return path


def _fill(
    robot: RobotModel, group: Group, path: FloatArray, solved: NDArray[np.bool_], start: FloatArray | None
) -> None:
    """Interpolate a group across waypoints without a solution, in place; the group waits at both ends of the path."""
    there = np.flatnonzero(solved)
    if not there.size:
        _logger.warning(
            "No waypoint of the path is met within its tolerance by the joints from '%s' to '%s': they stand still. "
            "The statuses and errors of the path say how far off; fit_clip fits targets that cannot be met.",
            *(robot.coordinate_names[c] for c in group.coordinates[[0, -1]]),
        )
    for failed in np.flatnonzero(~solved):
        after = there[np.searchsorted(there, failed) :][:1]
        place = int(np.searchsorted(there, failed)) - 1
        before = int(there[place]) if place >= 0 else -1
        first = path[before] if before >= 0 else start
        if first is None or not after.size:
            source = path[after[0] if after.size else 0] if first is None else first
            path[failed, group.coordinates] = source[group.coordinates]
            continue
        share = (failed - before) / (after[0] - before)
        moved = group.metric.moved(first, share * group.metric.change(first, path[after[0]]))
        path[failed, group.coordinates] = moved[group.coordinates]

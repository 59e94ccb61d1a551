"""Smoothing: all waypoints are solved again, each from the mean of itself and its neighbours, a few times.

Tracks of a redundant arm may differ in the null space, and steps of a track by float32 rounding. The mean removes these
differences, and the solve keeps the targets met.
"""

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.choice import roughness
from ik_service.motion.metric import FloatArray
from ik_service.motion.waypoints import Group, Waypoints

SWEEPS = 8
MOVE_MAX = 0.05  # [m or rad] in a sweep; a larger move would be a change of branch and is rejected
SWEEP_SLACK = 1.0 + 1e-3  # allowed growth of the largest change per sweep


def smooth(waypoints: Waypoints, path: FloatArray, solved: NDArray[np.bool_], largest_step: FloatArray) -> None:
    """Smooth a path [waypoints, coordinates] and finish it, in place; the first and the last are only finished.

    `solved` masks the solved waypoints, `largest_step` [joint_dof_count] are the changes within the speed limits.
    """
    _sweep(waypoints, path, path.copy(), solved)
    for _ in range(SWEEPS):
        starts, swept = path.copy(), path.copy()
        for group in waypoints.groups:
            _average(group, starts, solved[:, group.coordinates[0]])
        _sweep(waypoints, swept, starts, solved)
        for group in waypoints.groups:
            step = largest_step[group.metric.dofs]
            before, after = (roughness(group.metric, one, step) for one in (path, swept))
            if after[0] <= before[0] * SWEEP_SLACK and after[1] <= before[1] * SWEEP_SLACK:
                path[:, group.coordinates] = swept[:, group.coordinates]


def _average(group: Group, starts: FloatArray, solved: NDArray[np.bool_]) -> None:
    pull = 0.25 * (group.metric.change(starts[1:-1], starts[:-2]) + group.metric.change(starts[1:-1], starts[2:]))
    inside = solved[1:-1] & solved[:-2] & solved[2:] & (np.abs(pull).max(axis=1, initial=0.0) < MOVE_MAX)
    moved = group.metric.moved(starts[1:-1], pull)
    own = np.ix_(1 + np.flatnonzero(inside), group.coordinates)
    starts[own] = moved[np.ix_(inside, group.coordinates)]


def _sweep(waypoints: Waypoints, path: FloatArray, starts: FloatArray, solved: NDArray[np.bool_]) -> None:
    """Solve all waypoints from starts, and keep nearby solutions, in place."""
    result = waypoints.finished(starts)
    success = waypoints.successes(result)
    for number, group in enumerate(waypoints.groups):
        near = np.abs(group.metric.change(path, result.joint_q)).max(axis=1) < MOVE_MAX
        rows = np.flatnonzero(success[:, number] & near & solved[:, group.coordinates[0]])
        own = np.ix_(rows, group.coordinates)
        path[own] = result.joint_q[own]

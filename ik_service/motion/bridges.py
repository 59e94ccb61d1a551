"""Bridges: a jump between branches, spread over many waypoints of a redundant arm; and smoothing of a path.

A redundant arm has further solutions between two branches. Around a jump, intermediate configurations are solved; wider
bridges are tried until the speed limits are kept. Tracks of a redundant arm may differ in the null space, and steps of
a track by float32 rounding: smoothing removes these differences, and the solve keeps the targets met.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.choice import roughness
from ik_service.motion.metric import CHANGE_ROUNDING, FloatArray
from ik_service.motion.tracks import MERGED, Tracks
from ik_service.motion.waypoints import Group, Waypoints

BRIDGES_MAX = 12  # jumps treated
NARROWEST = 4  # waypoints to each side


class _Bridge(NamedTuple):
    """Waypoints of a bridge, first to last, with the configurations to solve from."""

    first: int
    last: int
    starts: FloatArray


class Bridges:
    """A path of one group of joints, with jumps spread in place."""

    def __init__(
        self,
        waypoints: Waypoints,
        tracks: Tracks,
        number: int,  # of the group of joints
        chosen: NDArray[np.intp],  # track of every waypoint, -1 for none
        path: FloatArray,  # chosen configurations, [waypoints, coordinates]
        largest_step: FloatArray,  # largest changes per step within the speed limits, [dofs of the group]
        start: FloatArray | None,  # configuration before the first waypoint, [coordinates], or None
    ) -> None:
        self._waypoints, self._tracks, self._number = waypoints, tracks, number
        self._group, self._chosen, self._path = waypoints.groups[number], chosen.copy(), path
        self._largest_step, self._start = largest_step, start
        if start is not None and np.abs(self._group.metric.change(start, path[0])).max() < MERGED:
            self._start = None  # the path begins at the start; its first waypoint stays

    def spread(self) -> None:
        """Spread jumps beyond the speed limits, the largest first."""
        path, start, taken = self._path, self._start, set[int]()
        for _ in range(BRIDGES_MAX):
            before = path[:-1] if start is None else np.concatenate([start[None], path[:-1]])
            after = path[1:] if start is None else path
            shift = 0 if start is None else -1
            excess = (np.abs(self._group.metric.change(before, after)) / self._largest_step).max(axis=1, initial=0.0)
            solved = self._chosen != -1
            joined = solved[1:] & solved[:-1] if start is None else solved & np.append(True, solved[:-1])
            excess[~joined] = 0.0
            excess[[jump - shift for jump in taken]] = 0.0
            if not excess.size or excess.max() <= CHANGE_ROUNDING:
                return
            jump = int(excess.argmax()) + shift
            taken.add(jump)
            self._spread(jump)

    def _spread(self, jump: int) -> None:
        """Spread the jump after a waypoint if the spread jump is smaller."""
        group, chosen, path, start = self._group, self._chosen, self._path, self._start
        gaps = np.flatnonzero(chosen == -1)
        least_first = int(gaps[gaps <= jump].max(initial=-1 if start is not None else 0)) + 1
        most_last = int(gaps[gaps > jump].min(initial=len(path))) - 2
        least_first += int((gaps <= jump).any())  # a bridge begins at the waypoint before
        best, reach, widest = None, NARROWEST, max(jump + 1 - least_first, most_last - jump)
        least = (np.inf, np.inf)
        while widest > 0:
            first, last = max(least_first, jump + 1 - reach), min(most_last, jump + reach)
            ends = (first, last), (first, jump), (jump + 1, last)
            for one, middle in self._solved([found for pair in ends for found in self._starts(*pair)]):
                left = start if one.first == 0 else path[one.first - 1]
                whole = np.concatenate([np.asarray(left)[None], middle, path[one.last + 1 : one.last + 2]])
                old = np.concatenate([np.asarray(left)[None], path[one.first : one.last + 2]])
                found = roughness(group.metric, whole, self._largest_step)
                if found < min(least, roughness(group.metric, old, self._largest_step)):
                    best, least = (one, middle), found
            if least[0] <= CHANGE_ROUNDING or reach >= widest:
                break
            reach *= 2
        if best is not None:
            here = np.arange(best[0].first, best[0].last + 1)
            path[np.ix_(here, group.coordinates)] = best[1][:, group.coordinates]
            chosen[here] = -2  # solved, but on no track

    def _starts(self, first: int, last: int) -> list[_Bridge]:
        """Give blends across the waypoints first to last: of both end configurations, and of both tracks."""
        if last < first:
            return []
        group, chosen, path = self._group, self._chosen, self._path
        share = np.linspace(0.0, 1.0, last - first + 3)[1:-1, None]
        share = share * share * (3.0 - 2.0 * share)
        left, right = np.asarray(self._start if first == 0 else path[first - 1]), path[last + 1]
        change = share * group.metric.change(left, right)
        found = [group.metric.moved(np.repeat(left[None], len(share), axis=0), change)]
        ends = (0 if first == 0 else int(chosen[first - 1])), int(chosen[last + 1])
        if min(ends) >= 0 and self._tracks.alive[first : last + 1, ends, self._number].all():
            one, other = (self._tracks.joint_q[first : last + 1, end].astype(np.float64) for end in ends)
            found.append(group.metric.moved(one, share * group.metric.change(one, other)))
        bridges = []
        for blend in found:
            starts = path[first : last + 1].copy()
            starts[:, group.coordinates] = blend[:, group.coordinates]
            bridges.append(_Bridge(first, last, starts))
        return bridges

    def _solved(self, bridges: list[_Bridge]) -> list[tuple[_Bridge, FloatArray]]:
        """Give the bridges with solutions at all waypoints, with these solutions."""
        if not bridges:
            return []
        which = np.concatenate([np.arange(one.first, one.last + 1) for one in bridges])
        joint_q, good = self._waypoints.solved(which, np.concatenate([one.starts for one in bridges]))
        found, begin = [], 0
        for one in bridges:
            rows = slice(begin, begin + len(one.starts))
            begin = rows.stop
            if good[rows, self._number].all():
                found.append((one, joint_q[rows]))
        return found


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

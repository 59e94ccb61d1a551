"""The waypoints between the nodes of a piece, and smoothing, within the speed limits.

All places between two nodes are solved in one batch, each within the room between both ends; where a step then exceeds
its limit, only the middle stays, and both halves are filled again. Smoothing moves every second place to the mean of
its neighbours, within their room; then the others. No step exceeds its limit.
"""

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.metric import CHANGE_ROUNDING
from ik_service.motion.tracks import GroupSolver, Piece, Places

MOVE_MAX = 0.05  # [rad or m] in a pass; a larger move would be a change of branch and is rejected


def filled(solver: GroupSolver, piece: Piece, *, faster: bool = False) -> Piece:
    """Return a piece with all its places, up to the first without a solution; `faster` allows steps over limits."""
    first, last = int(piece.place[0]), int(piece.place[-1])
    path = np.empty((last - first + 1, piece.joint_q.shape[1]))
    known = piece.place - first
    path[known] = piece.joint_q
    _smooth(solver, path, known, first)
    while len(known) < known[-1] + 1:
        wide = np.flatnonzero(np.diff(known) > 1)
        left, right = known[wide], known[wide + 1]
        way = np.repeat(np.arange(len(wide)), right - left - 1)
        inside = np.setdiff1d(np.arange(known[-1] + 1), known)
        path[inside], met = _between(solver, path, left[way], inside, right[way], first)
        is_middle = inside == (left + right)[way] // 2
        if faster and not met[is_middle].all():
            far = np.flatnonzero(is_middle & ~met)
            ways = left[way[far]], inside[far], right[way[far]]
            path[inside[far]], met[far] = _between(solver, path, *ways, first, most=solver.faster)
        end = left[way[is_middle & ~met]].min(initial=known[-1])
        faulty = set(way[~met].tolist()) | _too_fast(solver, path, left, right)
        known = np.sort(np.concatenate([known, inside[is_middle | ~np.isin(way, list(faulty))]]))
        known = known[known <= end]
        _smooth(solver, path, known, first)
        _smooth(solver, path, known, first)
    path = path[: len(known)]
    _finish(solver, path, first)
    return Piece(known + first, path)


def _too_fast(solver: GroupSolver, path: Float64Array, left: Places, right: Places) -> set[int]:
    """Return the ways with a step beyond the speed limits."""
    excess = np.abs(solver.change(path[:-1], path[1:])) - solver.step * CHANGE_ROUNDING
    return {k for k in range(len(left)) if excess[left[k] : right[k]].max(initial=0.0) > 0.0}


def _smooth(solver: GroupSolver, path: Float64Array, known: Places, first: int) -> None:
    """Smooth the known places in place; the first and the last stay."""
    for first_of_half in (1, 2):
        at = np.arange(first_of_half, len(known) - 1, 2)
        if len(at):
            _take(solver, path, known[at], *_between(solver, path, known[at - 1], known[at], known[at + 1], first))


def _finish(solver: GroupSolver, path: Float64Array, first: int) -> None:
    """Solve all places in the precision of the finish, in place."""
    count = len(path)
    for number in range(min(2, count)):
        at = np.arange(number, count, 2)
        if count > 1:  # an end has its one neighbour on both sides
            left, right = np.where(at > 0, at - 1, 1), np.where(at < count - 1, at + 1, count - 2)
            ways = [
                (np.abs(solver.change(path[at], path[k])), solver.time(at + first, k + first)) for k in (left, right)
            ]
            over = [change > solver.step * time * CHANGE_ROUNDING for change, time in ways]
            most = np.where(over[0] | over[1], solver.faster, solver.step)  # else no room for an exact pose
            found, met = _between(solver, path, left, at, right, first, most=most, finish=True)
        else:
            found, met = solver.solved(at + first, path[at], finish=True)
        _take(solver, path, at, found, met)


def _take(solver: GroupSolver, path: Float64Array, at: Places, found: Float64Array, met: NDArray[np.bool_]) -> None:
    """Take new configurations near the old ones, in place."""
    taken = met & (np.abs(solver.change(path[at], found)).max(axis=1, initial=0.0) < MOVE_MAX)
    path[at[taken]] = found[taken]


def _between(
    solver: GroupSolver,
    path: Float64Array,
    left: Places,
    middle: Places,
    right: Places,
    first: int,
    *,
    most: Float64Array | None = None,  # largest changes for each time step; None for the speed limits
    finish: bool = False,  # from where they are, in the precision of the finish
) -> tuple[Float64Array, NDArray[np.bool_]]:
    """Solve places within the room between their neighbours; return configurations, and the mask of met places."""
    before, after = solver.time(left + first, middle + first), solver.time(middle + first, right + first)
    change = solver.change(path[left], path[right])
    most = np.maximum(solver.step if most is None else most, np.abs(change) / (before + after))
    own = path[left][:, solver.columns]
    lower = np.maximum(own - most * before, own + change - most * after)
    upper = np.minimum(own + most * before, own + change + most * after)
    if finish:
        start = solver.between(path[left], path[middle], 1.0)
    else:
        start = solver.between(path[left], path[right], before / (before + after))
    return solver.solved(middle + first, start, (lower, upper), finish=finish)

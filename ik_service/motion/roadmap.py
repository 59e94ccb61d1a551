"""A roadmap: sampled solutions of places along a path, and the shortest way through them within the speed limits.

Layers of samples are far enough apart in time for the joints to move from sample to sample. A redundant arm finds a way
around an obstacle or a joint limit in this graph; tracks take the smallest joint changes and do not.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.filling import filled
from ik_service.motion.tracks import GroupSolver, Piece, Places, Tracks

SPACING = 0.4  # way of a joint between two layers of samples at its full speed [rad or m]
LAYERS_MAX, LAYER_MAX = 64, 160  # layers of samples, samples of a layer
WAYS_MAX = 4  # ways tried
SAMPLED = (0.25, 1.0)  # shares of the random configurations, for one layer
SHARE = 0.9  # of the speed limits: the rest is for the curve between samples


def connected(
    solver: GroupSolver,
    before: Piece,
    tracks: Tracks,  # of the piece before
    ahead: Tracks,  # of the next piece
    starts: Float64Array,  # random configurations, [n, coordinates]
    difference: float,  # least difference of two samples [rad or m]
) -> Piece | None:
    """Return one piece from the begin of a piece to the end of the next tracks; None where no way is found."""
    first, last = int(before.place[0]), ahead.farthest
    if last - first < 2 or not len(solver.columns):
        return None
    spacing = max(SPACING / float(np.median(solver.step)), (last - first) / LAYERS_MAX, 2.0)
    spacing = min(int(np.ceil(spacing)), (last - first + 1) // 2)  # with a layer between the ends
    place = np.unique(np.append(np.arange(first, last, spacing), last))
    back = Tracks(solver, int(before.place[-1]) + 1, ahead.begins, -1)
    back.carry(first)
    carried = [part for group in (tracks, ahead, back) for part in group.along(place[1:-1])]
    for share in SAMPLED:
        tried = [(np.full(int(share * len(starts)), at), starts[: int(share * len(starts))]) for at in place[1:-1]]
        where, joint_q = (np.concatenate(one) for one in zip(*carried, *tried, strict=True))
        found, met = solver.solved(where, joint_q)
        inside = [thinned(solver, found[(where == at) & met], 0.5 * difference)[:LAYER_MAX] for at in place[1:-1]]
        piece = _way(solver, place, [tracks.begins, *inside, ahead.joint_q[ahead.place == last]])
        if piece is not None:
            return piece
    return None


def _way(solver: GroupSolver, place: Places, layers: list[Float64Array]) -> Piece | None:
    """Return a piece through a configuration of each layer; None where no way is found."""
    refused = [np.zeros((len(one), len(other)), dtype=bool) for one, other in pairwise(layers)]
    for _ in range(WAYS_MAX):
        chosen = _shortest(solver, place, layers, refused)
        if chosen is None:
            return None
        piece = filled(solver, Piece(place, np.array([layer[k] for layer, k in zip(layers, chosen, strict=True)])))
        if piece.place[-1] == place[-1]:
            return piece
        bad = int(np.searchsorted(place, piece.place[-1], side="right")) - 1
        refused[bad][chosen[bad], chosen[bad + 1]] = True
    return None


def _shortest(
    solver: GroupSolver, place: Places, layers: list[Float64Array], refused: list[NDArray[np.bool_]]
) -> list[int] | None:
    """Return the sample of each layer on the way of least squared changes; None where there is no way."""
    total, links = np.zeros(len(layers[0])), []
    for k in range(1, len(layers)):
        time = solver.time(place[k - 1], place[k])
        change = np.abs(solver.change(layers[k - 1][:, None], layers[k][None]))
        cost = (change**2).sum(axis=-1) / time
        cost[(change > SHARE * solver.step * time).any(axis=-1)] = np.inf
        cost[refused[k - 1]] = np.inf
        sums = total[:, None] + cost
        if not np.isfinite(sums).any():
            return None
        links.append(sums.argmin(axis=0))
        total = sums.min(axis=0)
    chosen = [int(total.argmin())]
    for link in reversed(links):
        chosen.append(int(link[chosen[-1]]))
    return chosen[::-1]


def thinned(solver: GroupSolver, joint_q: Float64Array, width: float) -> Float64Array:
    """Return the first configuration of each cell of a grid with cells of a width [rad or m]."""
    cells = np.round(joint_q[:, solver.columns] / width)
    return np.asarray(joint_q[np.sort(np.unique(cells, axis=0, return_index=True)[1])])


def distinct(solver: GroupSolver, joint_q: Float64Array, most: int, difference: float) -> Float64Array:
    """Return configurations that differ from each other, the first ones, at most `most`, [n, coordinates]."""
    if not len(solver.columns):
        return joint_q[:1]
    joint_q = thinned(solver, joint_q, 0.5 * difference)
    chosen = [0]
    for k in range(1, len(joint_q)):
        if len(chosen) < most and np.abs(solver.change(joint_q[chosen], joint_q[k])).max(axis=1).min() > difference:
            chosen.append(k)
    return np.asarray(joint_q[chosen])

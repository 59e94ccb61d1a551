"""A roadmap: sampled solutions of places along a path, and the shortest way through them within the speed limits.

Layers of samples are far enough apart in time for the joints to move from sample to sample. A redundant arm finds a way
around an obstacle or a joint limit in this graph; tracks take the smallest joint changes and do not.
"""

import copy
from collections.abc import Sequence, Set

import numpy as np

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.filling import filled
from ik_service.motion.tracks import GroupSolver, Piece, Places, Tracks

SPACING = 0.4  # way of a joint between two layers of samples at its full speed [rad or m]
LAYERS_MAX, LAYER_MAX = 64, 160  # layers of samples, samples of a layer
WAYS_MAX = 4  # ways tried
SAMPLED = (0.25, 1.0)  # shares of the random configurations, for one layer
TOGETHER = 8  # layers sampled in one batch
LAYERS_NEAR = 5  # layers on each side of a break, searched first
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
    place, middle = np.unique(np.append(np.arange(first, last, spacing), last)), int(before.place[-1]) + 1
    back = Tracks(solver, middle, ahead.begins, -1)
    back.carry(first)
    carried = [part for group in (tracks, ahead, back) for part in group.along(place[1:-1])]
    ends = {first: tracks.begins, last: ahead.joint_q[ahead.place == last]}
    few, all_ = (
        Layers(solver, place, starts[: int(share * len(starts))], carried, ends, 0.5 * difference) for share in SAMPLED
    )
    break_ = int(np.searchsorted(place, middle))
    if _shortest(solver, all_.part(break_ - LAYERS_NEAR, break_ + LAYERS_NEAR)) is None:  # then no longer way exists
        return None
    return _way(solver, few) or _way(solver, all_)


class Layers:
    """Samples of some places, solved when they are first read, several places in one batch."""

    def __init__(
        self,
        solver: GroupSolver,
        place: Places,
        starts: Float64Array,  # [n, coordinates]
        carried: Sequence[tuple[Places, Float64Array]],  # further starts, with their places
        known: dict[int, Float64Array],  # samples by place
        width: float,  # of the cells of `thinned`
    ) -> None:
        self._solver, self.place, self._starts, self._carried = solver, place, starts, carried
        self._known, self._width = dict(known), width

    def __len__(self) -> int:
        return len(self.place)

    def __getitem__(self, k: int) -> Float64Array:
        """Return the samples of a place, [samples, coordinates]."""
        if int(self.place[k]) not in self._known:
            self._solve([at for at in self.place[k : k + TOGETHER].tolist() if at not in self._known])
        return self._known[int(self.place[k])]

    def part(self, first: int, end: int) -> "Layers":
        """Return some of the layers; samples of places are kept in common."""
        part = copy.copy(self)
        part.place = self.place[max(first, 0) : end]
        return part

    def _solve(self, place: list[int]) -> None:
        rows = [(at[own], joint_q[own]) for at, joint_q in self._carried if (own := np.isin(at, place)).any()]
        rows += [(np.full(len(self._starts), at), self._starts) for at in place]
        where, joint_q = (np.concatenate(one) for one in zip(*rows, strict=True))
        found, met = self._solver.solved(where, joint_q)
        for at in place:
            self._known[at] = thinned(self._solver, found[(where == at) & met], self._width)[:LAYER_MAX]


def _way(solver: GroupSolver, layers: Layers) -> Piece | None:
    """Return a piece through a configuration of each layer; None where no way is found."""
    place, refused = layers.place, set[tuple[int, int, int]]()
    for _ in range(WAYS_MAX):
        chosen = _shortest(solver, layers, refused)
        if chosen is None:
            return None
        piece = filled(solver, Piece(place, np.array([layers[k][one] for k, one in enumerate(chosen)])))
        if piece.place[-1] == place[-1]:
            return piece
        bad = int(np.searchsorted(place, piece.place[-1], side="right")) - 1
        refused.add((bad, chosen[bad], chosen[bad + 1]))
    return None


def _shortest(
    solver: GroupSolver, layers: Layers, refused: Set[tuple[int, int, int]] = frozenset()
) -> list[int] | None:
    """Return the sample of each layer on the way of least squared changes; None where there is no way.

    `refused` holds steps: layer, sample, sample of the next layer.
    """
    place, links = layers.place, []
    total = np.zeros(len(layers[0]))
    for k in range(1, len(place)):
        reached, time = np.flatnonzero(np.isfinite(total)), solver.time(place[k - 1], place[k])
        change = np.abs(solver.change(layers[k - 1][reached, None], layers[k][None]))
        sums = total[reached, None] + (change**2).sum(axis=-1) / time
        sums[(change > SHARE * solver.step * time).any(axis=-1)] = np.inf
        for _, left, right in (step for step in refused if step[0] == k - 1):
            sums[reached == left, right] = np.inf
        if not np.isfinite(sums).any():
            return None
        links.append(reached[sums.argmin(axis=0)])
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

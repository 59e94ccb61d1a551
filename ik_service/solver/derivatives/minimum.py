"""The minimum at an answer, and its motion when numbers in its rows change.

With hard rows h = 0, soft rows of cost 1/2 |s|^2, Lagrange multipliers y of h and the free DOFs F (no active limit):

    [ L_FF  A_F' ] [ dq_F ]      [ g_p ]
    [ A_F   0    ] [ dy   ]  = - [ h_p ] dp          L = s's + sum s_i s_i'' + sum y_i h_i'',  A = h',  g = s' s + A' y

In a null space, as of a redundant arm, dq is the shortest solution.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array

SINGULAR = 1e-6
"""Share of the largest singular value, of rows that are divided by their lengths, below which one counts as zero.

Nearer to a singular configuration the configuration itself is too uncertain for derivatives to be right to 1e-3.
"""
CURVATURE_SHARE, BEND_SHARE = 1e-12, 1e-9
"""Shares of the largest curvature of the soft rows' slopes, which is exact, and of that of their second derivatives,
which are differences, below which a curvature is taken for zero in directions that hard rows leave open."""
SMALLEST = 1e-300


def row_lengths(rows: Float64Array, weights: Float64Array) -> Float64Array:
    """Return lengths of rows [n, DOFs], shape [n]: their weights if a length is all but zero beside these."""
    length = np.linalg.norm(rows, axis=-1)
    return np.maximum(np.where(length > SINGULAR * weights, length, weights), SMALLEST)


class MetRows(NamedTuple):
    """Freedom left to the free DOFs by the rows met."""

    rank: int  # number of independent rows, relative to their lengths
    inverse: Float64Array  # shortest change by changes of the rows, shape [free DOFs, rows]
    still: Float64Array  # null space: directions without change of a row, shape [free DOFs, directions]
    idle: Float64Array  # left null space: sums of rows without change in any direction, shape [rows, sums]

    @classmethod
    def of(cls, rows: Float64Array, weights: Float64Array) -> "MetRows":
        """Decompose rows [rows, free DOFs] of these weights."""
        length = row_lengths(rows, weights)
        left, singular, right = np.linalg.svd(rows / length[:, None])
        rank = int((singular > SINGULAR * max(singular.max(initial=0.0), 1.0)).sum())
        idle = left[:, rank:] / length[:, None]
        if rank < len(rows):  # the weights decide between dependent rows
            left, singular, right = np.linalg.svd(rows)
            length = np.ones(len(rows))
        inverse = right[:rank].T @ (left[:, :rank].T / singular[:rank, None])
        return cls(rank, inverse / length, right[rank:].T, idle)


class MinimumShift(NamedTuple):
    """Motion of a minimum with some numbers."""

    change: Float64Array  # of each active DOF with each number, shape [active DOFs, numbers]
    is_least: bool  # whether no direction lowers the cost
    is_clear: bool  # whether all soft rows are distinguishable from zero beside the others


class Minimum(NamedTuple):
    """One answer."""

    hard: Float64Array  # derivatives of the rows met, shape [hard rows, active DOFs]
    weights: Float64Array  # weights of these rows, shape [hard rows]
    soft: Float64Array  # derivatives of the rows in the cost, shape [soft rows, active DOFs]
    bend: Float64Array  # l without s's, shape [active DOFs, active DOFs]
    free: NDArray[np.bool_]  # DOFs without an active limit, shape [active DOFs]

    @property
    def met(self) -> MetRows:
        """Return the freedom left to the free DOFs by the hard rows."""
        return MetRows.of(self.hard[:, self.free], self.weights)

    def by_limits(self, held: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Float64Array]:
        """Return the derivative of the configuration by the active limits; each held DOF moves with its own limit."""
        # Returns the numbers of these DOFs, and the change of each active DOF with each limit, shape [active DOFs,
        # limits]
        own = np.flatnonzero(held)
        change = self.shift(self.hard[:, own], self.soft[:, own], self.bend[:, own]).change
        change[own, np.arange(len(own))] = 1.0
        return own, change

    def shift(self, hard: Float64Array, soft: Float64Array, bend: Float64Array) -> MinimumShift:
        """Return d configuration / d numbers, from derivatives of hard and soft rows and of g by the numbers."""
        # Shapes [hard rows, numbers], [soft rows, numbers], and [active DOFs, numbers] at fixed rows and multipliers
        change = np.zeros_like(bend)
        if not self.free.any():
            return MinimumShift(change, is_least=True, is_clear=True)
        met, slopes = self.met, self.soft[:, self.free]
        meeting = met.inverse @ -hard
        bent = self.bend[np.ix_(self.free, self.free)]
        along_still = slopes @ met.still
        pull = along_still.T @ (soft + slopes @ meeting) + met.still.T @ (bend[self.free] + bent @ meeting)
        inner = along_still.T @ along_still + met.still.T @ bent @ met.still
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        largest = (slopes * slopes).sum(axis=0).max(initial=0.0)
        straight = CURVATURE_SHARE * largest + BEND_SHARE * np.abs(bent).max(initial=0.0)
        is_bent = values > straight
        along = vectors[:, is_bent] @ ((vectors[:, is_bent].T @ -pull) / values[is_bent, None])
        change[self.free] = meeting + met.still @ along
        left_out = np.abs(along_still @ vectors[:, ~is_bent])
        length = np.maximum(np.linalg.norm(slopes, axis=1), SMALLEST)
        is_clear = bool((left_out <= SINGULAR * length[:, None]).all())
        return MinimumShift(change, is_least=bool((values >= -straight).all()), is_clear=is_clear)

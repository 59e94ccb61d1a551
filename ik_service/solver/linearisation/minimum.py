"""The minimum that an answer is, and how it moves when the numbers change that its rows are made of.

With hard rows h = 0, soft rows of cost 1/2 |s|^2, multipliers y of h and the DOFs F that no limit holds:

    [ L_FF  A_F' ] [ dq_F ]      [ g_p ]
    [ A_F   0    ] [ dy   ]  = - [ h_p ] dp          L = s's + sum s_i s_i'' + sum y_i h_i'',  A = h',  g = s' s + A' y

Where that leaves a direction open, as a redundant arm does, dq is the shortest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.robots.constraint_kinematics.rows.linear_algebra import RANK_TOLERANCE
from ik_service.robots.transforms import Float64Array

CURVATURE_SHARE = 1e-7
"""Share of the largest curvature below which one is taken for zero, in directions that hard rows leave open."""


class MinimumShift(NamedTuple):
    """How a minimum follows some numbers.

    Attributes:
        change: Of each active DOF with each number, shape [active DOFs, numbers].
        rank: Rank of the hard rows.
        is_least: Whether no direction lowers the cost.
    """

    change: Float64Array
    rank: int
    is_least: bool


class Minimum(NamedTuple):
    """One answer.

    Attributes:
        hard: Derivatives of the rows that are met, shape [hard rows, active DOFs].
        curvature: L, shape [active DOFs, active DOFs].
        free: DOFs that no limit holds, shape [active DOFs].
    """

    hard: Float64Array
    curvature: Float64Array
    free: NDArray[np.bool_]

    def shift(self, hard: Float64Array, slope: Float64Array) -> MinimumShift:
        """Give how the configuration follows some numbers.

        Args:
            hard: Derivatives of the hard rows by the numbers, shape [hard rows, numbers].
            slope: Those of g, shape [active DOFs, numbers].
        """
        change = np.zeros_like(slope)
        if not self.free.any():
            return MinimumShift(change, 0, is_least=True)
        left, singular, right = np.linalg.svd(self.hard[:, self.free])
        rank = int((singular > RANK_TOLERANCE * singular.max(initial=0.0)).sum())
        meeting = right[:rank].T @ ((left[:, :rank].T @ -hard) / singular[:rank, None])
        still = right[rank:].T  # directions in which hard rows stay as they are
        bent = self.curvature[np.ix_(self.free, self.free)]
        pull = still.T @ (slope[self.free] + bent @ meeting)
        inner = still.T @ bent @ still
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        straight = CURVATURE_SHARE * np.abs(bent).max(initial=0.0)
        is_bent = values > straight
        along = vectors[:, is_bent] @ ((vectors[:, is_bent].T @ -pull) / values[is_bent, None])
        change[self.free] = meeting + still @ along
        return MinimumShift(change, rank, is_least=bool((values >= -straight).all()))

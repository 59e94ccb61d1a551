"""Choice of one candidate per waypoint: a shortest path through layers, by three criteria in this order.

1. The violation factor of the speed limits is smallest.
2. The largest joint change is smallest.
3. The sum of squared changes is smallest; changes beyond the speed limits count `EXCESS_WEIGHT` times.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.metric import CHANGE_ROUNDING, FloatArray, JointMetric

EXCESS_WEIGHT = 100.0
CHANGES_AT_ONCE = 2**21  # changes computed at once


@dataclass(frozen=True)
class Edges:
    """Costs from each candidate of a layer to each of the next, [layers - 1, from, to]; infinite for none."""

    excess: FloatArray  # largest share of a speed limit used by a joint, 1 if all limits are kept
    change: FloatArray  # largest joint change in one step [m or rad]
    cost: FloatArray  # sum of the squared changes

    @classmethod
    def between(
        cls,
        metric: JointMetric,
        candidates: FloatArray,  # configurations, [layers, candidates, coordinates]
        valid: NDArray[np.bool_],  # mask of existing candidates, [layers, candidates]
        steps: NDArray[Any],  # time steps between a layer and the next, [layers - 1]
        largest_step: FloatArray,  # largest changes per step within the speed limits [m or rad], [dofs]
    ) -> "Edges":
        """Compute all edges."""
        layers, count = valid.shape
        arrays = [np.full((max(layers - 1, 0), count, count), np.inf, np.float32) for _ in range(3)]
        block = max(1, CHANGES_AT_ONCE // max(1, count * count * len(metric.dofs)))
        for first in range(0, layers - 1, block):
            here = slice(first, min(first + block, layers - 1))
            after = slice(here.start + 1, here.stop + 1)
            change = np.abs(metric.change(candidates[here, :, None], candidates[after, None]))
            change /= steps[here, None, None, None]
            beyond = np.maximum(change - largest_step, 0.0)
            joined = valid[here, :, None] & valid[after, None]
            found = (
                np.maximum((change / largest_step).max(axis=-1, initial=0.0), CHANGE_ROUNDING),
                change.max(axis=-1, initial=0.0),
                (change**2).sum(axis=-1) + EXCESS_WEIGHT * (beyond**2).sum(axis=-1),
            )
            for array, values in zip(arrays, found, strict=True):
                array[here] = np.where(joined, values, np.inf)
        return cls(*arrays)


def choose(edges: Edges, valid: NDArray[np.bool_], first_cost: FloatArray | None = None) -> NDArray[np.intp]:
    """Return the candidate of every layer, [layers].

    `valid` [layers, candidates] masks existing candidates, at least one per layer; `first_cost` [candidates] is the
    cost of starting at each candidate.
    """
    cost = edges.cost
    for measure in (edges.excess, edges.change):
        allowed = measure <= _bottleneck(np.where(np.isfinite(cost), measure, np.inf), valid[0]) * CHANGE_ROUNDING
        cost = np.where(allowed, cost, np.inf)
    return _cheapest(cost, valid[0], first_cost)


def _bottleneck(measure: FloatArray, first: NDArray[np.bool_]) -> float:
    """Give the smallest bottleneck: the least bound kept by all edges of some path through the layers."""
    least = np.where(first, 0.0, np.inf)
    for layer in measure:
        least = np.maximum(least[:, None], layer).min(axis=0)
    return float(least.min())


def _cheapest(cost: FloatArray, first: NDArray[np.bool_], first_cost: FloatArray | None) -> NDArray[np.intp]:
    total = np.where(first, 0.0 if first_cost is None else first_cost, np.inf)
    before = np.zeros((len(cost), len(total)), dtype=np.intp)
    for layer, edge in enumerate(cost):
        sums = total[:, None] + edge
        before[layer] = sums.argmin(axis=0)
        total = sums.min(axis=0)
    chosen = np.zeros(len(cost) + 1, dtype=np.intp)
    chosen[-1] = total.argmin()
    for layer in range(len(cost) - 1, -1, -1):
        chosen[layer] = before[layer, chosen[layer + 1]]
    return chosen


def roughness(metric: JointMetric, path: FloatArray, largest_step: FloatArray) -> tuple[float, float]:
    """Return a path's violation factor of the speed limits, at least 1, and its largest joint change."""
    change = np.abs(metric.change(path[:-1], path[1:]))
    return max(1.0, float((change / largest_step).max(initial=0.0))), float(change.max(initial=0.0))

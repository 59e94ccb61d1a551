"""The choice of one candidate per waypoint: a shortest path through layers, by three criteria in this order.

1. Speed limits are kept, or broken by the least factor.
2. The largest change of a joint is least.
3. The sum of squared changes is least, changes beyond the speed limits counted `EXCESS_WEIGHT` times.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.metric import CHANGE_ROUNDING, JointMetric

FloatArray = NDArray[np.floating[Any]]
EXCESS_WEIGHT = 100.0
CHANGES_AT_ONCE = 2**21  # changes that are computed at once


@dataclass(frozen=True)
class Edges:
    """Cost of going from each candidate of a layer to each of the next, [layers - 1, from, to]; infinite for none."""

    excess: FloatArray  # largest share of a speed limit that a joint takes, 1 where all are kept
    change: FloatArray  # largest change of a joint in one step [m or rad]
    cost: FloatArray  # sum of the squared changes

    @classmethod
    def between(
        cls,
        metric: JointMetric,  # measures changes
        candidates: FloatArray,  # configurations, [layers, candidates, coordinates]
        valid: NDArray[np.bool_],  # which of them there are, [layers, candidates]
        steps: NDArray[Any],  # time steps between a layer and the next, [layers - 1]
        largest_step: FloatArray,  # what the speed limits allow in a step [m or rad], [dofs]
        *,
        straight: bool = False,  # whether angles do not take the short way
    ) -> "Edges":
        """Measure all edges."""
        layers, count = valid.shape
        arrays = [np.full((max(layers - 1, 0), count, count), np.inf, np.float32) for _ in range(3)]
        measure = metric.straight if straight else metric.change
        block = max(1, CHANGES_AT_ONCE // max(1, count * count * len(metric.dofs)))
        for first in range(0, layers - 1, block):
            here = slice(first, min(first + block, layers - 1))
            after = slice(here.start + 1, here.stop + 1)
            change = np.abs(measure(candidates[here, :, None], candidates[after, None]))
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
    """Return the candidate of every layer, [layers]; every layer has at least one."""
    # `valid` [layers, candidates] says which candidates there are, `first_cost` [candidates] what it costs to start at
    # each
    cost = edges.cost
    for measure in (edges.excess, edges.change):
        allowed = measure <= _bottleneck(np.where(np.isfinite(cost), measure, np.inf), valid[0]) * CHANGE_ROUNDING
        cost = np.where(allowed, cost, np.inf)
    return _cheapest(cost, valid[0], first_cost)


def _bottleneck(measure: FloatArray, first: NDArray[np.bool_]) -> float:
    """The least value that all edges of some path through the layers keep to."""
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
    """Return by what factor a path [waypoints, coordinates] breaks speed limits, at least 1, and its largest change."""
    change = np.abs(metric.change(path[:-1], path[1:]))
    return max(1.0, float((change / largest_step).max(initial=0.0))), float(change.max(initial=0.0))

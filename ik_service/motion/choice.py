"""Choice of one candidate per waypoint: a shortest path through layers, by three criteria in this order.

1. The violation factor of the speed limits is smallest.
2. The largest joint change is smallest.
3. The sum of squared changes is smallest; changes beyond the speed limits count `EXCESS_WEIGHT` times.

Turns are chosen in the same way: angles that differ by full turns are equal in pose, within a joint's range.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.metric import CHANGE_ROUNDING, FULL_TURN, FloatArray, JointMetric
from ik_service.robots import RobotModel

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


ANGLE_SLACK = 1e-6  # [rad]
TURN_COST = 1e-9  # of a start one turn away from the middle of the range: decides between equal starts


def centred(robot: RobotModel, metric: JointMetric, joint_q: FloatArray) -> FloatArray:
    """Return configurations [..., coordinates] with limited angles nearest to mid-range, half a turn before a limit."""
    centred_q = joint_q.copy()
    for dof in metric.dofs[metric.turning]:
        lower, upper = robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
        if np.isfinite(lower) and np.isfinite(upper):
            c = robot.dof_coordinate[dof]
            turns = np.round((centred_q[..., c] - 0.5 * (lower + upper)) / FULL_TURN)
            centred_q[..., c] = np.clip(centred_q[..., c] - FULL_TURN * turns, lower, upper)
    return centred_q


def unwound(
    robot: RobotModel, metric: JointMetric, joint_q: FloatArray, largest_step: FloatArray, start: FloatArray | None
) -> FloatArray:
    """Return a path [waypoints, coordinates] with every angle on the turn nearest to the previous waypoint's.

    If the range of a limited joint cannot hold the path, turns are chosen like candidates: the joint turns back at the
    cheapest place. `largest_step` are the changes within the speed limits, [dofs of the metric].
    """
    path = joint_q.copy()
    for place in np.flatnonzero(metric.turning):
        dof = metric.dofs[place]
        c = robot.dof_coordinate[dof]
        lower, upper = robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
        angle = path[:, c] if start is None else np.concatenate([start[c : c + 1], path[:, c]])
        if not (np.isfinite(lower) and np.isfinite(upper)):
            angle = np.unwrap(angle)
        else:
            angle = _within(angle, float(lower), float(upper), float(largest_step[place]), has_start=start is not None)
        path[:, c] = angle if start is None else angle[1:]
    return path


def _within(angle: FloatArray, lower: float, upper: float, largest_step: float, *, has_start: bool) -> FloatArray:
    """Give angles inside the limits, equal to the given angles up to full turns."""
    most = int(np.ceil((upper - lower) / FULL_TURN))
    unwrapped = np.unwrap(angle)
    beside = float(np.mean(unwrapped)) - 0.5 * (lower + upper)
    for turns in [0] if has_start else sorted(range(-most, most + 1), key=lambda k: abs(beside + FULL_TURN * k)):
        moved = unwrapped + FULL_TURN * turns
        if (moved >= lower - ANGLE_SLACK).all() and (moved <= upper + ANGLE_SLACK).all():
            clipped: FloatArray = np.clip(moved, lower, upper)
            return clipped
    return _turning_back(angle, lower, upper, largest_step, has_start=has_start)


def _turning_back(angle: FloatArray, lower: float, upper: float, largest_step: float, *, has_start: bool) -> FloatArray:
    """Choose a turn per waypoint, for paths beyond the range of every single turn."""
    unwrapped = np.unwrap(angle)
    first = int(np.floor((lower - unwrapped.max()) / FULL_TURN))
    last = int(np.ceil((upper - unwrapped.min()) / FULL_TURN))
    values = unwrapped[:, None] + FULL_TURN * np.arange(first, last + 1)
    valid = (values >= lower - ANGLE_SLACK) & (values <= upper + ANGLE_SLACK)
    if has_start:
        valid[0] = np.arange(first, last + 1) == 0
    change = np.abs(values[1:, None, :] - values[:-1, :, None])
    change[~(valid[:-1, :, None] & valid[1:, None, :])] = np.inf
    edges = Edges(np.maximum(change / largest_step, 1.0), change, change**2)
    chosen = choose(edges, valid, TURN_COST * np.abs(values[0] - 0.5 * (lower + upper)))
    clipped: FloatArray = np.clip(values[np.arange(len(values)), chosen], lower, upper)
    return clipped

"""Weights of the rows of a solve, in the caller's units: 1 is 1/m or 1/rad; for targets, 1 per unit of length.

The set of active rows decides the islands of problems, and so the recordings for them. The values are data: each island
takes its scale from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.solver.given.targets import Target
from ik_service.solver.rows.binding import RowKind, is_secondary
from ik_service.solver.rows.blocks import kind_of
from ik_service.solver.rows.priorities import SECONDARY_SHARE, secondary_scale
from objectives import IKObjective

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of all rows."""

    lines: Float32Array  # one line for all problems or one each, shape [1 or problem_count, rows]
    is_common: bool = True  # whether one line serves any number of problems
    kind: NDArray[np.int32] | None = None  # `RowKind` of each row, [rows]; None if all are rows of targets
    # lower-priority rows in an island with targets, bool [rows]; None for none; all rows have lower priority than the
    # kind CONSTRAINT
    secondary: NDArray[np.bool_] | None = None

    @cached_property
    def stamp(self) -> bytes:
        """Return a key of the values."""
        return self.lines.tobytes()

    @cached_property
    def on(self) -> NDArray[np.bool_] | None:
        """Rows of weight above 0, bool [rows]; None if problems differ."""
        on = ~(self.lines <= 0.0)  # NaN is on, to be found by the solve
        return np.asarray(on[0]) if (on == on[0]).all() else None

    @cached_property
    def pattern(self) -> bytes | None:
        """Return a key of the rows that are on; None if problems differ."""
        return None if self.on is None else self.on.tobytes()


class TargetWeights:
    """Weights of targets, kept from solve to solve.

    Row weights of two axes are lines of problems, even a single line. Floors scale with the weights, and so with the
    robot's length unit.
    """

    def __init__(self, targets: Sequence[Target], length_unit: float) -> None:
        given = [target.weights() for target in targets]
        self._is_common = all(weights.ndim == 1 for weights in given)
        self._lines = [np.atleast_2d(length_unit * weights).astype(np.float32) for weights in given]
        self._known: dict[bytes, RowWeights] = {}

    def with_objectives(self, given: bytes, objectives: Sequence[IKObjective], problem_count: int) -> RowWeights:
        """Return the weights of all rows in a solve; `given` as in `InputArrays` without its first number."""
        # Rows of a target without positions or orientations are off
        if self._is_common and not objectives:  # the most frequent solve, with cached weights
            known = self._known.get(given)
            if known is None:
                known = self._known[given] = RowWeights(np.hstack(self._given(given)))
            return known
        blocks = [*self._given(given), *map(objective_weights, objectives)]
        yields = [False] * len(self._lines) + [is_secondary(objective) for objective in objectives]
        widths = [block.shape[1] for block in blocks]
        kinds = [RowKind.TARGET] * len(self._lines) + [kind_of(objective) for objective in objectives]
        kind, secondary = np.repeat(np.array(kinds, np.int32), widths), np.repeat(yields, widths)
        if self._is_common and all(len(block) == 1 for block in blocks):
            return RowWeights(np.hstack(blocks), kind=kind, secondary=secondary)
        line = np.arange(problem_count)  # kernels repeat the last line if there are fewer
        spread = np.hstack([block[np.minimum(line, len(block) - 1)] for block in blocks])
        return RowWeights(spread, is_common=False, kind=kind, secondary=secondary)

    def _given(self, given: bytes) -> list[Float32Array]:
        switch = np.repeat(np.frombuffer(given, np.int32), 3).astype(np.float32).reshape(-1, 6)
        return [lines * own for lines, own in zip(self._lines, switch, strict=True)]


def objective_scale(objective: IKObjective) -> float:
    """Return the factor of all rows of an objective."""
    return float(getattr(objective, "weight", 1.0))


def weights_on_device(objective: IKObjective) -> "wp.array[Any] | None":
    """Return the weights of an objective's rows, [1 or problem_count or more, rows]; None where all are 1."""
    row_weights = getattr(objective, "row_weights", None)
    return None if row_weights is None else row_weights()


def objective_weights(objective: IKObjective) -> Float32Array:
    """Return the weights on the host, multiplied by the objective's factor."""
    array = weights_on_device(objective)
    if array is None:
        return np.ones((1, objective.residual_dim()), np.float32)
    return np.asarray(array.numpy() * np.float32(objective_scale(objective)))


class IslandScales:
    """Scales of the rows of every island."""

    def __init__(self, lines: int, tree_count: int, device: wp.Device) -> None:
        arrays = [HostDeviceArray((lines, tree_count), wp.float32, device) for _ in range(4)]
        # lightest2: square of the least weight of its rows, of the higher-priority rows if there are two priorities
        # heaviest2: square of the largest
        # secondary: factor of its lower-priority rows; 1 if there are none
        # tertiary: factor of rows of still lower priority; 1 if there are none
        self.lightest2, self.heaviest2, self.secondary, self.tertiary = arrays

    def write(self, weights: RowWeights, row_island: NDArray[np.integer]) -> None:
        """Set the scales of the islands of a solve."""
        # `row_island` is the island of every row, -1 for none, [1 or problem_count, rows]
        n, by_row, islands = len(weights.lines), np.ascontiguousarray(weights.lines.T), row_island.T
        for island in range(int(row_island.max(initial=-1)) + 1):
            own = islands == island  # [rows, 1 or n]
            self.secondary.host[:n, island] = self.tertiary.host[:n, island] = 1.0
            judged = own
            if weights.secondary is not None and weights.kind is not None:
                is_constraint = own & (weights.kind == RowKind.CONSTRAINT)[:, None]
                has_constraint = is_constraint.any(axis=0)
                level = np.where(is_constraint, 0, has_constraint.astype(int))
                level = level + (weights.secondary[:, None] & own[weights.kind == RowKind.TARGET].any(axis=0))
                judged = own & (level == 0)
                share = np.where(has_constraint, 1.0, SECONDARY_SHARE)
                for number, factor in ((1, self.secondary), (2, self.tertiary)):
                    yields = own & (level == number)
                    scale = secondary_scale(by_row, own & (level == number - 1), yields, share)
                    factor.host[:n, island] = scale
                    by_row, share = np.where(yields, scale * by_row, by_row), np.full_like(share, SECONDARY_SHARE)
            lightest = np.where(judged, by_row, np.inf).min(axis=0)
            heaviest = np.where(own, by_row, 0.0).max(axis=0)
            with np.errstate(over="ignore"):  # kernels treat infinity as too large
                self.lightest2.host[:n, island], self.heaviest2.host[:n, island] = lightest**2, heaviest**2
        for scales in (self.lightest2, self.heaviest2, self.secondary, self.tertiary):
            scales.push(n)

"""Weights of the rows of a solve, in the caller's units, and priorities of rows in an island.

A weight of 1 is 1/m or 1/rad; for targets, 1 per unit of length. The set of active rows decides the islands of
problems, and so the recordings for them. The values are data: each island takes its scale from them.

A row of weight w beside others of weight 1 shifts their solution by an amount of order w^2. So the factor makes the
heaviest lower-priority row a small share of the lightest higher-priority row, for any weights: lower-priority rows act
in the null space of higher ones.

This null space is curved, and steps along it become shorter with lighter lower-priority rows. So an attempt begins with
`SECONDARY_SHARE` and ends with `STAGE` times this factor: at once in the staged engine, when nothing more is gained,
and step by step in the compiled one. Then the higher-priority rows are met as well as alone.
"""

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import FACTORS, SECONDARY_STAGE, SECONDARY_STAGE_STEPS, level_numbers
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.linear_solve.islands import Islands
from ik_service.solver.given.targets import Target
from ik_service.solver.rows.binding import CONSTRAINT_ROW, RowKind
from ik_service.solver.rows.blocks import Rows
from objectives import IKObjective

SECONDARY_SHARE = 2.0**-6
SHARE = wp.constant(SECONDARY_SHARE)
STAGE = wp.constant(SECONDARY_STAGE["float32"])
# Beside constraints, closed in float64 afterwards: objectives without targets, and all rows in the last stage
CONSTRAINED_SHARE = wp.constant(2.0**-2)
CONSTRAINED_STAGE = wp.constant(2.0**-5)
STAGE_STEPS = wp.constant(SECONDARY_STAGE_STEPS)
HEAVIEST = wp.constant(3.0e38)
EXPONENT_MAX = 50  # of the factor: its square must fit float32, in the last stage too
LEAST_SCALE = wp.constant(2.0**-EXPONENT_MAX)


def secondary_scale(
    weights: NDArray[np.floating],  # weights of the rows of an island, [rows, 1 or n]
    primary: NDArray[np.bool_],  # higher-priority rows, [rows, 1 or n]
    secondary: NDArray[np.bool_],  # lower-priority rows, [rows, 1 or n]
    # heaviest secondary weight as a share of the lightest primary one, in all columns or in each
    share: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the factor of lower-priority rows, a power of two, so that products are exact.

    Returns:
        A factor for each column of the weights, 1 without rows of both kinds, [n].
    """
    lightest = np.where(primary, weights, np.inf).min(axis=0, initial=np.inf).astype(np.float64)
    heaviest = np.where(secondary, weights, 0.0).max(axis=0, initial=0.0).astype(np.float64)
    both = (lightest > 0.0) & np.isfinite(lightest) & (heaviest > 0.0) & np.isfinite(heaviest)
    shares = np.divide(share * lightest, heaviest, where=both, out=np.ones_like(heaviest))
    return np.asarray(np.exp2(np.clip(np.floor(np.log2(shares)), -EXPONENT_MAX, EXPONENT_MAX)))


@wp.struct
class Priorities:
    """Kinds of the rows, the lower-priority rows, and their factors."""

    yields: wp.array[wp.int32]  # [rows]: 1 for lower-priority rows, beside targets
    kind: wp.array[wp.int32]  # [rows]: `RowKind`
    # Factors in each island, [problem_capacity, trees]:
    scale: wp.array2d[wp.float32]  # of lower-priority rows
    stage: wp.array2d[wp.float32]  # further factor of `scale` in the last stage
    first_scale: wp.array2d[wp.float32]  # of other rows except constraints; 1 without constraints
    first_stage: wp.array2d[wp.float32]  # further factor of `first_scale` in the last stage


def priorities_of(rows: Rows, capacity: int, trees: int) -> Any:
    """Return the `Priorities` of rows; the factors are written later."""
    found: Any = Priorities()
    found.kind = wp.array(rows.row_kind, dtype=wp.int32, device=rows.model.device)
    found.yields = wp.array(rows.row_secondary, dtype=wp.int32, device=rows.model.device)
    found.scale = wp.ones((capacity, trees), dtype=wp.float32, device=rows.model.device)
    found.stage, found.first_scale, found.first_stage = (wp.ones_like(found.scale) for _ in range(3))
    return found


@wp.func
@typing.no_type_check
def scale_of_weights(share: float, lightest2: float, heaviest2: float):
    """Return the factor from the squares of the least primary and the largest secondary weight, as on the host."""
    if not (lightest2 > 0.0 and lightest2 < HEAVIEST and heaviest2 > 0.0 and heaviest2 < HEAVIEST):
        return 1.0
    most = share * wp.sqrt(lightest2 / heaviest2)
    scale = float(1.0)  # by halves and doubles, which are exact
    while scale > most and scale > LEAST_SCALE:
        scale *= 0.5
    while 2.0 * scale <= most and scale < 1.0 / LEAST_SCALE:
        scale *= 2.0
    return scale


@wp.func
@typing.no_type_check
def yielding_scale(priorities: Priorities, p: int, island: int, stage: float):
    """Return the factor of lower-priority rows beside targets, in a stage: 1 is the first."""
    return priorities.scale[p, island] * wp.where(stage == 1.0, 1.0, priorities.stage[p, island])


@wp.func
@typing.no_type_check
def first_row_scale(priorities: Priorities, p: int, island: int, stage: float):
    """Return the factor of rows except constraints and lower-priority rows beside targets."""
    return priorities.first_scale[p, island] * wp.where(stage == 1.0, 1.0, priorities.first_stage[p, island])


@wp.func
@typing.no_type_check
def row_scale(priorities: Priorities, p: int, island: int, row: int, stage: float):
    """Return the factor of a row of an island."""
    scale = float(1.0)
    if island >= 0:
        if priorities.yields[row] == 1:
            scale = yielding_scale(priorities, p, island, stage)
        elif priorities.kind[row] != CONSTRAINT_ROW:
            scale = first_row_scale(priorities, p, island, stage)
    return scale


@wp.func
@typing.no_type_check
def scale_in_slot(
    priorities: Priorities,
    islands: Islands,
    stage: wp.array2d[float],  # [n_batch, trees]
    slot: int,
    p: int,
    row: int,
):
    """Return the factor of a row of problem p in the stage of its slot."""
    island = islands.row_island[p, row]
    return row_scale(priorities, p, island, row, stage[slot, wp.max(island, 0)])


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def scale_residuals(
    priorities: Priorities,
    islands: Islands,
    problem_idx: wp.array[wp.int32],  # [n]
    stage: wp.array2d[float],  # [n_batch, trees]
    # in and out
    residuals: wp.array2d[float],  # [n, total_residuals]
):
    """Multiply lower-priority rows with their factor and the factor of the stage of their slot."""
    i = wp.tid()
    p = problem_idx[i]
    slot = i / (residuals.shape[0] / stage.shape[0])
    for row in range(residuals.shape[1]):
        scale = scale_in_slot(priorities, islands, stage, slot, p, row)
        if scale != 1.0:
            residuals[i, row] = scale * residuals[i, row]


@wp.func_native("""
float* __restrict__ entry = wp::address(jacobian, i, row, 0);
for (int dof = 0; dof < jacobian.shape[2]; ++dof) entry[dof] *= scale;
""")
@typing.no_type_check
def scale_row(jacobian: wp.array3d[float], i: int, row: int, scale: float):
    """Multiply a row of a Jacobian, as one loop over memory."""


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def scale_jacobian(
    priorities: Priorities,
    islands: Islands,
    problem_idx: wp.array[wp.int32],  # [n]
    stage: wp.array2d[float],  # [n, trees]
    # in and out
    jacobian: wp.array3d[float],  # [n, total_residuals, joint_dof_count]
):
    """Multiply the derivatives of lower-priority rows with the same factors."""
    i = wp.tid()
    for row in range(jacobian.shape[1]):
        scale = scale_in_slot(priorities, islands, stage, i, problem_idx[i], row)
        if scale != 1.0:
            scale_row(jacobian, i, row, scale)


Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of all rows."""

    lines: Float32Array  # one line for all problems or one each, shape [1 or problem_count, rows]
    is_common: bool = True  # whether one line serves any number of problems
    rows: Rows | None = None  # the rows with their priorities; None if all have one priority

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

    def of_rows(self, given: bytes, rows: Rows, problem_count: int) -> RowWeights:
        """Return the weights of all rows in a solve; `given` as in `InputArrays` without its first number."""
        # Rows of a target without positions or orientations are off
        if self._is_common and not rows.others:  # the most frequent solve, with cached weights
            known = self._known.get(given)
            if known is None:
                known = self._known[given] = RowWeights(np.hstack(self._given(given)))
            return known
        blocks = [*self._given(given), *map(objective_weights, rows.others)]
        if self._is_common and all(len(block) == 1 for block in blocks):
            return RowWeights(np.hstack(blocks), rows=rows)
        line = np.arange(problem_count)  # kernels repeat the last line if there are fewer
        spread = np.hstack([block[np.minimum(line, len(block) - 1)] for block in blocks])
        return RowWeights(spread, is_common=False, rows=rows)

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
        arrays = [HostDeviceArray((lines, tree_count), wp.float32, device) for _ in (*FACTORS, 0, 1)]
        # lightest2: square of the least weight of its rows, of its first level if there are several
        # heaviest2: square of the largest
        # factors: of the rows of level 1 and of level 2; 1 if there are none
        self.lightest2, self.heaviest2, *self.factors = arrays

    def write(self, weights: RowWeights, row_island: NDArray[np.integer]) -> None:
        """Set the scales of the islands of a solve."""
        # `row_island` is the island of every row, -1 for none, [1 or problem_count, rows]
        n, by_row, islands = len(weights.lines), np.ascontiguousarray(weights.lines.T), row_island.T
        for island in range(int(row_island.max(initial=-1)) + 1):
            own = islands == island  # [rows, 1 or n]
            for factor in self.factors:
                factor.host[:n, island] = 1.0
            judged = own
            if weights.rows is not None:
                kind, is_secondary = weights.rows.row_kind[:, None], weights.rows.row_secondary[:, None]
                is_constraint = kind == RowKind.CONSTRAINT
                level = level_numbers(is_constraint, kind == RowKind.TARGET, is_secondary, own)
                judged = own & (level == 0)
                share = np.where((own & is_constraint).any(axis=0), 1.0, SECONDARY_SHARE)
                for number, factor in enumerate(self.factors, 1):
                    yields = own & (level == number)
                    scale = secondary_scale(by_row, own & (level == number - 1), yields, share)
                    factor.host[:n, island] = scale
                    by_row, share = np.where(yields, scale * by_row, by_row), np.full_like(share, SECONDARY_SHARE)
            lightest = np.where(judged, by_row, np.inf).min(axis=0)
            heaviest = np.where(own, by_row, 0.0).max(axis=0)
            with np.errstate(over="ignore"):  # kernels treat infinity as too large
                self.lightest2.host[:n, island], self.heaviest2.host[:n, island] = lightest**2, heaviest**2
        for scales in (self.lightest2, self.heaviest2, *self.factors):
            scales.push(n)

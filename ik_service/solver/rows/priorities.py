"""Priorities of rows in an island: the factors of lower-priority rows, and their use on the device.

A row of weight w beside others of weight 1 shifts their solution by an amount of order w^2. So the factor makes the
heaviest lower-priority row a small share of the lightest higher-priority row, for any weights: lower-priority rows act
in the null space of higher ones.

This null space is curved, and steps along it become shorter with lighter lower-priority rows. So an attempt begins with
`SECONDARY_SHARE` and ends with `STAGE` times this factor: at once in the staged engine, when nothing more is gained,
and step by step in the compiled one. Then the higher-priority rows are met as well as alone.
"""

import typing
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import SECONDARY_STAGE, SECONDARY_STAGE_STEPS
from ik_service.linear_solve import Islands
from ik_service.solver.rows.binding import CONSTRAINT_ROW
from ik_service.solver.rows.blocks import Rows

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
    yields = np.zeros(rows.count, np.int32)
    for k in rows.secondary:
        yields[rows.start[k] : rows.start[k] + rows.objectives[k].residual_dim()] = 1
    found.kind = wp.array(rows.row_kind, dtype=wp.int32, device=rows.model.device)
    found.yields = wp.array(yields, dtype=wp.int32, device=rows.model.device)
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

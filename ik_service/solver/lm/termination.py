"""When an attempt is over, and how it has ended."""

import typing

import warp as wp

from ik_service import compiler
from ik_service.solver.lm.codes import (
    BLOCKED_BY_LIMITS,
    CONVERGED,
    INVALID,
    MAX_ITERATIONS,
    RUNNING,
    STALLED,
    STATIONARY,
)

# Floors are those of rows of weight 1; they scale with the weights.
RESIDUAL_FLOOR2 = wp.constant(9.0e-12)  # |r|^2 at which float32 kinematics has nothing more to give
FLOAT64_FLOOR2 = 1.0e-22  # the same of float64
NOT_EVALUATED = wp.constant(compiler.NOT_EVALUATED)  # |r|^2 before the first evaluation: any trial is better
ROUNDING2_FLOAT32 = wp.constant(1.0e-9)  # |r|^2 that is nothing but rounding where no step lowers it any more
COSINE_MAX = wp.constant(1.0e-3)  # largest cosine between the residual and a column of J at a stationary point
COSINE_STUCK = wp.constant(1.0e-2)  # the same where no step lowers the cost: float32 resolves no further
UNEVEN_MIN = wp.constant(1.0e-4)  # float32 resolves no smaller cosines
# Share of |r|^2 that a step can still gain, by the linear model, at a minimum: while the attempt may go on, and where
# it has ended without finding such a step.
GAIN_MAX = wp.constant(1.0e-6)
GAIN_STUCK = wp.constant(1.0e-5)
UNKNOWN_GAIN = wp.constant(1.0e30)
MODEL_DAMPING = wp.constant(2.4e-7)  # of the largest diagonal entry of J'J: four roundings
PRODUCT_MIN = wp.constant(1.0e-30)  # of a column's and the residual's squares, which float32 holds with all digits
PRODUCT_MAX = wp.constant(1.0e30)
COLUMN_MIN2 = wp.constant(1.0e-36)  # |column of J|^2 that is zero: beneath it float32 loses digits
INFINITY = wp.constant(float(wp.inf))


def residual_floor2(precision: str) -> float:
    """Return |r|^2 at which kinematics in "float32" or "float64" has nothing more to give, for rows of weight 1."""
    return float(RESIDUAL_FLOOR2) if precision == "float32" else FLOAT64_FLOOR2


@wp.func
@typing.no_type_check
def squared_cosine(gradient: float, diagonal: float, norm2: float):
    """Return the squared cosine between the residual and a column of J; infinite where a number is not finite.

    NaN would be lost on the way to the largest of several. Products that may overflow or lose digits are avoided.
    """
    product = diagonal * norm2
    if product > PRODUCT_MIN and product < PRODUCT_MAX:
        cosine2 = gradient * gradient / product
        if cosine2 <= 2.0:  # false for NaN
            return cosine2
    if not wp.isfinite(gradient) or not wp.isfinite(diagonal):
        return INFINITY
    if diagonal <= COLUMN_MIN2:
        return 0.0
    return (gradient / diagonal) * (gradient / norm2)


@wp.func
@typing.no_type_check
def phase_after(
    norm2: float,
    lightest2: float,
    heaviest2: float,
    slope: float,
    gain: float,
    blocked: int,
    ended: int,
    iterations_left: int,
):
    """Return whether an attempt goes on, or how it ended.

    Args:
        norm2: |r|^2.
        lightest2: Square of the least weight of any row.
        heaviest2: Square of the largest.
        slope: Largest squared cosine between r and the column of a DOF that is free to move; infinite where a
            derivative is not finite.
        gain: Share of |r|^2 that a step of the DOFs that are free to move gains by the linear model, or UNKNOWN_GAIN.
        blocked: 1 where a limit holds back a DOF that would lower the cost.
        ended: What the last step decided.
        iterations_left: Steps that the attempt may still take.
    """
    if not wp.isfinite(norm2) or not wp.isfinite(heaviest2):
        return INVALID
    if norm2 <= RESIDUAL_FLOOR2 * lightest2 or (ended == STALLED and norm2 <= ROUNDING2_FLOAT32 * lightest2):
        return CONVERGED
    if not wp.isfinite(slope):
        return INVALID
    # A light row may still have much to gain where the columns are those of heavy ones: the test is as much stricter.
    even = wp.clamp(lightest2 / heaviest2, UNEVEN_MIN, 1.0)
    flat = slope <= even * COSINE_MAX * COSINE_MAX or (ended == STALLED and slope <= even * COSINE_STUCK * COSINE_STUCK)
    over = ended == STALLED or iterations_left <= 0
    if flat or gain <= GAIN_MAX or (over and gain <= GAIN_STUCK):
        if blocked == 1:
            return BLOCKED_BY_LIMITS
        return STATIONARY
    if ended == RUNNING and iterations_left <= 0:
        return MAX_ITERATIONS
    return ended


@wp.func
@typing.no_type_check
def is_minimum(status: int, has_targets: bool):
    """Return whether an attempt without targets has ended at a minimum.

    One at limits counts where the whole problem has no targets.
    """
    return status == STATIONARY or status == CONVERGED or (status == BLOCKED_BY_LIMITS and not has_targets)

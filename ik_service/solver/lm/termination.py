"""End of an attempt, and its status."""

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

# Floors for rows of weight 1; floors scale with the weights.
RESIDUAL_FLOOR2 = wp.constant(9.0e-12)  # |r|^2 at the limit of float32 kinematics
FLOAT64_FLOOR2 = 1.0e-22  # the same of float64
NOT_EVALUATED = wp.constant(compiler.NOT_EVALUATED)  # |r|^2 before the first evaluation: any trial is better
ROUNDING2_FLOAT32 = wp.constant(1.0e-9)  # |r|^2 of rounding alone, if no step lowers the cost
COSINE_MAX = wp.constant(1.0e-3)  # largest cosine between the residual and a column of J at a stationary point
COSINE_STUCK = wp.constant(1.0e-2)  # the same if no step lowers the cost: float32 resolves no further
UNEVEN_MIN = wp.constant(1.0e-4)  # float32 resolves no smaller cosines
# Predicted gain of a step at a minimum, as a share of |r|^2: while the attempt may go on, and after it has ended
# without finding such a step.
GAIN_MAX = wp.constant(1.0e-6)
GAIN_STUCK = wp.constant(1.0e-5)
UNKNOWN_GAIN = wp.constant(1.0e30)
MODEL_DAMPING = wp.constant(2.4e-7)  # of the largest diagonal entry of J'J: four roundings
PRODUCT_MIN = wp.constant(1.0e-30)  # of a column's and the residual's squares, within which float32 keeps all digits
PRODUCT_MAX = wp.constant(1.0e30)
COLUMN_MIN2 = wp.constant(1.0e-36)  # |column of J|^2 taken as zero: below, float32 loses digits
INFINITY = wp.constant(float(wp.inf))


def residual_floor2(precision: str) -> float:
    """Return |r|^2 at the limit of kinematics in "float32" or "float64", for rows of weight 1."""
    return float(RESIDUAL_FLOOR2) if precision == "float32" else FLOAT64_FLOOR2


@wp.func
@typing.no_type_check
def squared_cosine(gradient: float, diagonal: float, norm2: float):
    """Return the squared cosine between the residual and a column of J; infinite if a number is not finite.

    A maximum of several cosines would lose NaN. Products with possible overflow or loss of digits are avoided.
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
    """Return whether an attempt continues, or its final status.

    Args:
        norm2: |r|^2.
        lightest2: Square of the least weight of any row.
        heaviest2: Square of the largest weight.
        slope: Largest squared cosine between r and the column of a free DOF; infinite if a derivative is not finite.
        gain: Share of |r|^2 gained by a step of the free DOFs in the linear model, or UNKNOWN_GAIN.
        blocked: 1 if a limit holds back a DOF against a lower cost.
        ended: Decision of the last step.
        iterations_left: Remaining steps of the attempt.
    """
    if not wp.isfinite(norm2) or not wp.isfinite(heaviest2):
        return INVALID
    if norm2 <= RESIDUAL_FLOOR2 * lightest2 or (ended == STALLED and norm2 <= ROUNDING2_FLOAT32 * lightest2):
        return CONVERGED
    if not wp.isfinite(slope):
        return INVALID
    # Beside heavy rows, a light row may still have much to gain: the test is as much stricter.
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

    A minimum at limits counts if the whole problem has no targets.
    """
    return status == STATIONARY or status == CONVERGED or (status == BLOCKED_BY_LIMITS and not has_targets)

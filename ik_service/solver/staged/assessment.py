"""First half of a Levenberg-Marquardt iteration: which attempts are over, what is held and how much to damp.

Cost is 1/2 |r|^2 over an island's rows. The damping of a step is `boost * (DAMPING_SHARE * |r|^2 + DAMPING_MIN * h)`, h
the largest diagonal entry of J'J: proportional to the error (Chan and Lawrence 1988) up to a share of h, and raised by
`boost` while steps are rejected.
A DOF at a limit whose gradient pushes it outwards is held for the step. Islands share nothing.
"""

import typing

import warp as wp

from ik_service.linear_solve import Equations, Islands
from ik_service.solver.lm.coordinates import Coordinates
from ik_service.solver.lm.slots import (
    BLOCKED_BY_LIMITS,
    CANCELLED,
    CONVERGED,
    INVALID,
    ITERATIONS,
    MAX_ITERATIONS,
    NO_TARGET,
    RUNNING,
    STALLED,
    STATIONARY,
    Slots,
)

# Floors are those of rows of weight 1; they scale with the weights.
RESIDUAL_FLOOR2 = wp.constant(9.0e-12)  # |r|^2 at which float32 kinematics has nothing more to give
ROUNDING2 = wp.constant(1.0e-9)  # |r|^2 that is nothing but rounding where no step lowers it any more
COSINE_MAX = wp.constant(1.0e-3)  # largest cosine between the residual and a column of J at a stationary point
COSINE_STUCK = wp.constant(1.0e-2)  # the same where no step lowers the cost: float32 resolves no further
UNEVEN_MIN = wp.constant(1.0e-4)  # float32 resolves no smaller cosines
DAMPING_SHARE = wp.constant(0.05)
DAMPING_MAX = wp.constant(0.5)  # of the largest diagonal entry of J'J: far targets are approached in long steps
DAMPING_MIN = wp.constant(5.0e-8)  # of the same
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
    if norm2 <= RESIDUAL_FLOOR2 * lightest2 or (ended == STALLED and norm2 <= ROUNDING2 * lightest2):
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
def predicted_gain(
    i: int,
    first: int,
    dofs: int,
    block: int,
    damping: float,
    hessian: wp.array2d[float],
    gradient: wp.array2d[float],
    held: wp.array2d[wp.int32],
    factor: wp.array2d[float],
    solved: wp.array2d[float],
):
    """Return what a step of the DOFs that are not held lowers |r|^2 by, if rows are straight: g'(J'J + damping)^-1 g.

    With L L' the factors of J'J + damping, that is |L^-1 g|^2. The diagonal of the factor holds inverses.
    """
    line = i * (factor.shape[0] / hessian.shape[0])
    gain = float(0.0)
    for k in range(dofs):
        free = 1.0 - float(held[i, first + k])
        row = block + k * dofs
        pivot = hessian[i, row + k] + damping
        value = free * gradient[i, first + k]
        for m in range(k):
            entry = free * hessian[i, row + m]
            for b in range(m):
                entry -= factor[line, row + b] * factor[line, block + m * dofs + b]
            entry *= factor[line, block + m * dofs + m]
            factor[line, row + m] = entry
            pivot -= entry * entry
            value -= entry * solved[line, first + m]
        inverse = free / wp.sqrt(wp.max(pivot, damping))
        factor[line, row + k] = inverse
        solved[line, first + k] = value * inverse
        gain += value * inverse * value * inverse
    return gain


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _assess(
    # model
    active_coordinate: wp.array[wp.int32],  # [active_dof_count]
    limit_lower: wp.array[float],  # [active_dof_count]
    limit_upper: wp.array[float],  # [active_dof_count]
    # islands
    island_dofadr: wp.array2d[wp.int32],
    island_dof: wp.array2d[wp.int32],
    island_rowadr: wp.array2d[wp.int32],
    island_row: wp.array2d[wp.int32],
    target_rows: int,  # they come first
    hessian_adr: wp.array2d[wp.int32],
    # solve
    settings: wp.array[wp.int32],
    winner_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
    lightest2: wp.array2d[float],  # [problem_capacity, trees]
    heaviest2: wp.array2d[float],  # [problem_capacity, trees]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    iterations: wp.array2d[wp.int32],  # [n_batch, trees]
    ended: wp.array2d[wp.int32],  # [n_batch, trees]
    boost: wp.array2d[float],  # [n_batch, trees]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    # rows, in island order
    residuals: wp.array2d[float],  # [n_batch, rows]
    hessian: wp.array2d[float],  # [n_batch, dofs x dofs]
    gradient: wp.array2d[float],  # [n_batch, dofs]
    # scratch
    factor: wp.array2d[float],  # [n_batch x candidates, dofs x dofs]
    solved: wp.array2d[float],  # [n_batch x candidates, dofs]
    # out
    phase_out: wp.array2d[wp.int32],  # [n_batch, trees]
    running_out: wp.array2d[wp.int32],  # [n_batch, trees]
    met_out: wp.array2d[wp.int32],  # [n_batch, trees]
    cost_out: wp.array2d[float],  # [n_batch, trees]
    damping_out: wp.array2d[float],  # [n_batch, trees]
    held_out: wp.array2d[wp.int32],  # [n_batch, dofs]
):
    i, island = wp.tid()
    if running_out[i, island] == 0:
        return
    p = problem_idx[i]
    norm2 = float(0.0)
    for r in range(island_rowadr[p, island], island_rowadr[p, island + 1]):
        norm2 += residuals[i, r] * residuals[i, r]
    cost_out[i, island] = 0.5 * norm2
    blocked = int(0)
    slope = float(0.0)  # largest squared cosine of a free DOF
    largest = float(0.0)  # entry on the diagonal of J'J
    first = island_dofadr[p, island]
    dofs = island_dofadr[p, island + 1] - first
    block = hessian_adr[p, island]
    for k in range(dofs):
        a = island_dof[p, first + k]
        c = active_coordinate[a]
        g = gradient[i, first + k]
        diagonal = hessian[i, block + k * dofs + k]
        largest = wp.max(largest, diagonal)
        cosine2 = squared_cosine(g, diagonal, norm2)
        held = int(0)
        if c >= 0:
            q = joint_q[i, c]
            if (q <= limit_lower[a] and g > 0.0) or (q >= limit_upper[a] and g < 0.0):
                held = 1
        held_out[i, first + k] = held
        if held == 1:
            if cosine2 > COSINE_MAX * COSINE_MAX:
                blocked = 1
        if held == 0 or not wp.isfinite(cosine2):
            slope = wp.max(slope, cosine2)
    share = wp.min(DAMPING_SHARE * norm2, DAMPING_MAX * largest)
    damping_out[i, island] = boost[i, island] * (share + DAMPING_MIN * largest)
    left = settings[ITERATIONS] - iterations[i, island]
    gain = float(UNKNOWN_GAIN)
    has_target = island_row[p, island_rowadr[p, island]] < target_rows  # rows stand in their order
    if not has_target and slope <= 2.0 * GAIN_STUCK:  # the gain is at least the largest squared cosine
        least = MODEL_DAMPING * largest
        gain = predicted_gain(i, first, dofs, block, least, hessian, gradient, held_out, factor, solved) / norm2
    phase = phase_after(norm2, lightest2[p, island], heaviest2[p, island], slope, gain, blocked, ended[i, island], left)
    if winner_rank[p, island] < wp.int64(seed[i]):
        phase = CANCELLED
    if phase != RUNNING:
        phase_out[i, island] = phase
        running_out[i, island] = 0
        met_out[i, island] = NO_TARGET


def assess(
    coordinates: Coordinates,
    islands: Islands,
    solve: "tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]",
    slots: Slots,
    joint_q: wp.array[typing.Any],
    equations: Equations,
    target_rows: int,
) -> None:
    """Decide which attempts are over, which DOFs are held and how much to damp.

    Args:
        coordinates: How active DOFs move coordinates, and their limits.
        islands: Islands of every problem.
        solve: Integer settings, winners' ranks, and squares of the least and largest weights of every island.
        slots: The slots.
        joint_q: Accepted configurations, [n_batch, joint_coord_count].
        equations: Normal equations at the accepted configurations; factors and steps are scratch.
        target_rows: Rows of targets, which come first.
    """
    wp.launch(
        _assess,
        dim=slots.phase.shape,
        inputs=[
            coordinates.active_coordinate,
            coordinates.limit_lower,
            coordinates.limit_upper,
            islands.island_dofadr,
            islands.island_dof,
            islands.island_rowadr,
            islands.island_row,
            target_rows,
            islands.hessian_adr,
            *solve,
            slots.problem_idx,
            slots.seed,
            slots.iterations,
            slots.ended,
            slots.boost,
            joint_q,
            equations.residuals,
            equations.hessian,
            equations.gradient,
            equations.factor,
            equations.step,
        ],
        outputs=[slots.phase, slots.running, slots.met, slots.cost, slots.damping, equations.held],
        device=slots.phase.device,
    )

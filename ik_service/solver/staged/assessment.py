"""First half of a Levenberg-Marquardt iteration: which attempts are over, which DOFs are at a bound, how much to damp.

Cost is 1/2 |r|^2 over an island's rows. The damping of a step is stated in `lm.damping`.
A DOF at a limit whose gradient pushes it outwards is kept there for the step. Islands share nothing.
"""

import typing

import warp as wp

from ik_service.linear_solve import Equations
from ik_service.solver.lm.bound import is_at_bound
from ik_service.solver.lm.codes import (
    CANCELLED,
    ITERATIONS,
    NO_TARGET,
    RUNNING,
)
from ik_service.solver.lm.coordinates import Coordinates
from ik_service.solver.lm.damping import DAMPING_MAX, DAMPING_MIN, DAMPING_SHARE
from ik_service.solver.lm.ranking import is_beaten
from ik_service.solver.lm.termination import (
    COSINE_MAX,
    GAIN_STUCK,
    MODEL_DAMPING,
    UNKNOWN_GAIN,
    phase_after,
    squared_cosine,
)
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.problems.rows.kinds import TARGET_ROW
from ik_service.solver.staged.slots import Slots


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
    at_bound: wp.array2d[wp.int32],
    factor: wp.array2d[float],
    solved: wp.array2d[float],
):
    """Return what a step of the DOFs off their bounds lowers |r|^2 by, if rows are straight: g'(J'J + damping)^-1 g.

    With L L' the factors of J'J + damping, that is |L^-1 g|^2. The diagonal of the factor holds inverses.
    """
    line = i * (factor.shape[0] / hessian.shape[0])
    gain = float(0.0)
    for k in range(dofs):
        free = 1.0 - float(at_bound[i, first + k])
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
    row_kind: wp.array[wp.int32],  # [rows]
    hessian_adr: wp.array2d[wp.int32],
    # solve
    settings: wp.array[wp.int32],
    best_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
    lightest2: wp.array2d[float],  # [problem_capacity, trees]
    heaviest2: wp.array2d[float],  # [problem_capacity, trees]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    iterations: wp.array2d[wp.int32],  # [n_batch, trees]
    ended: wp.array2d[wp.int32],  # [n_batch, trees]
    damping_factor: wp.array2d[float],  # [n_batch, trees]
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
    at_bound_out: wp.array2d[wp.int32],  # [n_batch, dofs]
):
    i, island = wp.tid()
    if running_out[i, island] == 0:
        return
    p = problem_idx[i]
    norm2 = float(0.0)
    has_target = bool(False)
    for r in range(island_rowadr[p, island], island_rowadr[p, island + 1]):
        norm2 += residuals[i, r] * residuals[i, r]
        if row_kind[island_row[p, r]] == TARGET_ROW:
            has_target = True
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
        at_bound = int(0)
        if c >= 0:
            if is_at_bound(joint_q[i, c], limit_lower[a], limit_upper[a], g):
                at_bound = 1
        at_bound_out[i, first + k] = at_bound
        if at_bound == 1:
            if cosine2 > COSINE_MAX * COSINE_MAX:
                blocked = 1
        if at_bound == 0 or not wp.isfinite(cosine2):
            slope = wp.max(slope, cosine2)
    share = wp.min(DAMPING_SHARE * norm2, DAMPING_MAX * largest)
    damping_out[i, island] = damping_factor[i, island] * (share + DAMPING_MIN * largest)
    left = settings[ITERATIONS] - iterations[i, island]
    gain = float(UNKNOWN_GAIN)
    if not has_target and slope <= 2.0 * GAIN_STUCK:  # the gain is at least the largest squared cosine
        least = MODEL_DAMPING * largest
        gain = predicted_gain(i, first, dofs, block, least, hessian, gradient, at_bound_out, factor, solved) / norm2
    phase = phase_after(norm2, lightest2[p, island], heaviest2[p, island], slope, gain, blocked, ended[i, island], left)
    if is_beaten(best_rank[p, island], seed[i]):
        phase = CANCELLED
    if phase != RUNNING:
        phase_out[i, island] = phase
        running_out[i, island] = 0
        met_out[i, island] = NO_TARGET


def assess(
    coordinates: Coordinates,
    problems: Problems,
    slots: Slots,
    joint_q: wp.array[typing.Any],
    equations: Equations,
    row_kind: wp.array[typing.Any],
) -> None:
    """Decide which attempts are over, which DOFs are at a bound and how much to damp.

    Args:
        coordinates: How active DOFs move coordinates, and their limits.
        problems: Arrays of the problems.
        slots: The slots.
        joint_q: Accepted configurations, [n_batch, joint_coord_count].
        equations: Normal equations at the accepted configurations; factors and steps are scratch.
        row_kind: `RowKind` of each row.
    """
    islands = problems.islands
    inputs = [coordinates.active_coordinate, coordinates.limit_lower, coordinates.limit_upper, islands.island_dofadr]
    inputs += [islands.island_dof, islands.island_rowadr, islands.island_row, row_kind, islands.hessian_adr]
    inputs += [problems.settings, problems.best.rank, problems.lightest2, problems.heaviest2, slots.problem_idx]
    inputs += [slots.seed, slots.iterations, slots.ended, slots.damping_factor, joint_q, equations.residuals]
    inputs += [equations.hessian, equations.gradient, equations.factor, equations.step]
    outputs = [slots.phase, slots.running, slots.met, slots.cost, slots.damping, equations.at_bound]
    wp.launch(_assess, slots.phase.shape, inputs, outputs, device=slots.phase.device)

"""First half of a Levenberg-Marquardt iteration: end of attempts, active set of joint bounds, damping factor.

Cost is 1/2 |r|^2 over an island's rows. The damping of a step is stated in `lm.damping`. A DOF at a limit with a
gradient pointing outwards is held for the step. Islands share nothing.
"""

import typing

import warp as wp

from ik_service.linear_solve import Equations, Islands, eliminate
from ik_service.solver.arrays.best_attempts import BestAttempts
from ik_service.solver.lm.codes import CANCELLED, INVALID, ITERATIONS, NO_TARGET, RUNNING
from ik_service.solver.lm.coordinates import Coordinates, is_at_bound
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
from ik_service.solver.rows.binding import CONSTRAINT_ROW, TARGET_ROW
from ik_service.solver.rows.priorities import STAGE, STAGE_STEPS, Priorities, first_row_scale, yielding_scale
from ik_service.solver.staged.attempts import Slots


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def assess(
    coordinates: Coordinates,
    islands: Islands,
    priorities: Priorities,
    # solve
    settings: wp.array[wp.int32],
    best: BestAttempts,
    lightest2: wp.array2d[float],  # [problem_capacity, trees]
    heaviest2: wp.array2d[float],  # [problem_capacity, trees]
    # attempt
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    slots: Slots,
    equations: Equations,
):
    """Find finished attempts, DOFs at a bound and the damping.

    Factors and steps of `equations` are scratch.
    """
    i, island = wp.tid()
    if slots.running[i, island] == 0:
        return
    p = slots.problem_idx[i]
    norm2 = float(0.0)
    constraint_norm2 = float(0.0)
    unscaled_norm2 = float(0.0)  # of the other rows except lower-priority rows, without their factor
    second_norm2 = float(0.0)  # of lower-priority rows, without their factors
    scale = yielding_scale(priorities, p, island, slots.stage[i, island])
    first_scale = first_row_scale(priorities, p, island, slots.stage[i, island])
    has_target = bool(False)
    has_second = bool(False)
    has_constraint = bool(False)
    for r in range(islands.rowadr[p, island], islands.rowadr[p, island + 1]):
        row = islands.row[p, r]
        residual2 = equations.residuals[i, r] * equations.residuals[i, r]
        yields = float(priorities.yields[row])
        norm2 += residual2
        if priorities.kind[row] == CONSTRAINT_ROW:
            has_constraint = True
            constraint_norm2 += residual2
        else:
            unscaled_norm2 += (1.0 - yields) * residual2 / (first_scale * first_scale)
        second_norm2 += yields * residual2 / (scale * scale)
        has_second = has_second or yields == 1.0
        has_target = has_target or priorities.kind[row] == TARGET_ROW
    slots.cost[i, island] = 0.5 * norm2
    slots.unscaled_cost[i, island] = 0.5 * (constraint_norm2 + unscaled_norm2 + second_norm2)
    own = wp.min(p, coordinates.limit_lower.shape[0] - 1)
    blocked = int(0)
    slope = float(0.0)  # largest squared cosine of a free DOF
    largest = float(0.0)  # entry on the diagonal of J'J
    first = islands.dofadr[p, island]
    dofs = islands.dofadr[p, island + 1] - first
    block = islands.hessian_adr[p, island]
    for k in range(dofs):
        a = islands.dof[p, first + k]
        c = coordinates.active_coordinate[a]
        g = equations.gradient[i, first + k]
        diagonal = equations.hessian[i, block + k * dofs + k]
        largest = wp.max(largest, diagonal)
        cosine2 = squared_cosine(g, diagonal, norm2)
        at_bound = int(0)
        if c >= 0:
            lower, upper = float(coordinates.limit_lower[own, a]), float(coordinates.limit_upper[own, a])
            if is_at_bound(joint_q[i, c], lower, upper, g):
                at_bound = 1
        equations.at_bound[i, first + k] = at_bound
        if at_bound == 1:
            if cosine2 > COSINE_MAX * COSINE_MAX:
                blocked = 1
        if at_bound == 0 or not wp.isfinite(cosine2):
            slope = wp.max(slope, cosine2)
    share = wp.min(DAMPING_SHARE * norm2, DAMPING_MAX * largest)
    slots.damping[i, island] = slots.damping_factor[i, island] * (share + DAMPING_MIN * largest)
    left = settings[ITERATIONS] - slots.iterations[i, island]
    is_first_stage = (has_constraint or (has_target and has_second)) and slots.stage[i, island] == 1.0
    if is_first_stage:
        left -= STAGE_STEPS
    gain = float(UNKNOWN_GAIN)
    is_lowered = is_first_stage and has_target and has_second
    if is_lowered and wp.isfinite(slope):
        slope = 1.0  # columns of lower-priority rows are short beside targets: cosines tell nothing
    if is_lowered or (not has_target and slope <= 2.0 * GAIN_STUCK):  # the gain is at least the largest squared cosine
        line = i * (equations.factor.shape[0] / slots.seed.shape[0])
        least = MODEL_DAMPING * largest
        gain = eliminate(equations, i, line, first, dofs, block, least, least) / norm2
    phase = phase_after(
        norm2, lightest2[p, island], heaviest2[p, island], slope, gain, blocked, slots.ended[i, island], left
    )
    if is_first_stage and phase != RUNNING and phase != INVALID:
        slots.stage[i, island] = STAGE
        slots.damping_factor[i, island] = 1.0
        slots.ended[i, island] = RUNNING
        first_scale = first_row_scale(priorities, p, island, STAGE)
        scale = yielding_scale(priorities, p, island, STAGE)
        yielding_norm2 = first_scale * first_scale * unscaled_norm2 + scale * scale * second_norm2
        slots.cost[i, island] = 0.5 * (constraint_norm2 + yielding_norm2)
        phase = RUNNING
    if is_beaten(best.rank[p, island], slots.seed[i]):
        phase = CANCELLED
    if phase != RUNNING:
        slots.phase[i, island] = phase
        slots.running[i, island] = 0
        slots.met[i, island] = NO_TARGET

"""A Levenberg-Marquardt iteration: end of attempts, active set, damping; trial configurations, and their acceptance.

Cost is 1/2 |r|^2 over an island's rows. The damping of a step is stated in `lm.damping`. A DOF at a limit with a
gradient pointing outwards is held for the step. Steps are clamped into the limits, so every accepted configuration is
inside; the predicted decrease belongs to the clamped step. Islands share nothing: each has its own choice of candidate
and its own acceptance.
"""

import typing

import warp as wp

from ik_service.kinematics.device_kinematics import turned
from ik_service.linear_solve.factors import Equations, eliminate, predict_decrease
from ik_service.linear_solve.islands import Islands
from ik_service.solver.arrays.problem_arrays import BestAttempts
from ik_service.solver.lm.codes import CANCELLED, INVALID, ITERATIONS, NO_TARGET, RUNNING, STALLED
from ik_service.solver.lm.coordinates import Coordinates, follow, is_at_bound
from ik_service.solver.lm.damping import (
    DAMPING_MAX,
    DAMPING_MIN,
    DAMPING_SHARE,
    FACTOR_DOWN,
    FACTOR_MAX_STAGED,
    FACTOR_UP,
    GAIN_MIN,
)
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
from ik_service.solver.rows.weights import STAGE, STAGE_STEPS, Priorities, first_row_scale, yielding_scale
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


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def propose(
    coordinates: Coordinates,
    islands: Islands,
    slots: Slots,
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    # in and out
    equations: Equations,
    # out
    joint_q_trial_out: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
):
    """Write the trial configurations and predict the decrease of cost of every running island.

    On output, steps are the clamped ones.
    """
    i, k, island = wp.tid()
    if slots.running[i, island] == 0:
        return
    step = equations.step
    t = i * (step.shape[0] / equations.gradient.shape[0]) + k
    p = slots.problem_idx[i]
    own = wp.min(p, coordinates.limit_lower.shape[0] - 1)
    first = islands.dofadr[p, island]
    dofs = islands.dofadr[p, island + 1] - first
    block = islands.hessian_adr[p, island]
    for m in range(dofs):
        a = islands.dof[p, first + m]
        c = coordinates.active_coordinate[a]
        if c >= 0:
            q = joint_q[i, c]
            lower, upper = float(coordinates.limit_lower[own, a]), float(coordinates.limit_upper[own, a])
            new = wp.clamp(q + step[t, first + m], lower, upper)
            joint_q_trial_out[t, c] = new
            step[t, first + m] = new - q
        c = coordinates.active_quaternion[a]
        if c >= 0:
            old = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
            turn = wp.vec3(step[t, first + m], step[t, first + m + 1], step[t, first + m + 2])
            rotation = turned(old, turn)
            for n in range(4):
                joint_q_trial_out[t, c + n] = rotation[n]
    for m in range(islands.coordadr[p, island], islands.coordadr[p, island + 1]):
        c = islands.coord[p, m]
        leader = coordinates.leader[c]
        if leader >= 0:
            joint_q_trial_out[t, c] = follow(coordinates.follower_number, c, joint_q_trial_out[t, leader])
    predict_decrease(equations, i, t, island, first, dofs, block)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def accept(
    islands: Islands,
    body_tree: wp.array[wp.int32],  # [body_count]: -1 for a static body
    # trials
    candidate_damping: wp.array[float],  # [candidates]
    joint_q_trial: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    body_q_trial: wp.array2d[wp.transform],  # [n_batch x candidates, body_count]
    residuals_trial: wp.array2d[float],  # [n_batch x candidates, total_residuals]
    equations: Equations,
    # in and out
    slots: Slots,
    # out
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
    body_q_out: wp.array2d[wp.transform],  # [n_batch, body_count]
):
    """Move every running island to its best trial, or raise its damping factor if no trial is better."""
    i, island = wp.tid()
    if slots.running[i, island] == 0:
        return
    p = slots.problem_idx[i]
    slots.iterations[i, island] = slots.iterations[i, island] + 1
    candidates = candidate_damping.shape[0]
    best = int(-1)
    current = slots.cost[i, island]
    best_cost = float(current)
    for k in range(candidates):
        t = i * candidates + k
        norm2 = float(0.0)
        for m in range(islands.rowadr[p, island], islands.rowadr[p, island + 1]):
            r = residuals_trial[t, islands.row[p, m]]
            norm2 += r * r
        # NaN compares false and so loses. A step with too small a gain ratio is not trusted.
        if 0.5 * norm2 < best_cost and current - 0.5 * norm2 >= GAIN_MIN * equations.predicted[t, island]:
            best = t
            best_cost = 0.5 * norm2
    if best < 0:
        slots.damping_factor[i, island] = slots.damping_factor[i, island] * FACTOR_UP
        if slots.damping_factor[i, island] > FACTOR_MAX_STAGED:
            slots.ended[i, island] = STALLED
        return
    for m in range(islands.coordadr[p, island], islands.coordadr[p, island + 1]):
        c = islands.coord[p, m]
        joint_q_out[i, c] = joint_q_trial[best, c]
    for body in range(body_tree.shape[0]):
        tree = body_tree[body]
        if tree >= 0:
            if islands.tree_island[p, tree] == island:
                body_q_out[i, body] = body_q_trial[best, body]
    factor = slots.damping_factor[i, island] * candidate_damping[best - i * candidates]
    slots.damping_factor[i, island] = wp.max(factor * FACTOR_DOWN, 1.0)

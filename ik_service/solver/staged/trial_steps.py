"""Second half of a Levenberg-Marquardt iteration: trial configurations, and acceptance of one of them.

Steps are clamped into the limits, so every accepted configuration is inside. The predicted decrease belongs to the
clamped step. Islands share nothing: each has its own choice of candidate and its own acceptance.
"""

import typing

import warp as wp

from ik_service.kinematics.integrate import turned
from ik_service.linear_solve import Equations, Islands, predict_decrease
from ik_service.solver.lm.codes import STALLED
from ik_service.solver.lm.coordinates import Coordinates, follow
from ik_service.solver.lm.damping import FACTOR_DOWN, FACTOR_MAX_STAGED, FACTOR_UP, GAIN_MIN
from ik_service.solver.staged.attempts import Slots


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
    predict_decrease(equations.hessian, equations.gradient, step, equations.predicted, i, t, island, first, dofs, block)


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

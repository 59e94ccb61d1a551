"""Second half of a Levenberg-Marquardt iteration: trial configurations, and which of them is accepted.

Steps are clamped into the limits, so every accepted configuration is inside. The predicted decrease is that of the
step actually taken. Islands share nothing: each has its own choice of candidate and its own acceptance.
"""

import typing

import warp as wp

from ik_service.kinematics import turned
from ik_service.linear_solve import Equations, Islands
from ik_service.solver.lm.codes import STALLED
from ik_service.solver.lm.coordinates import Coordinates
from ik_service.solver.lm.coupling import followed
from ik_service.solver.lm.damping import FACTOR_DOWN, FACTOR_MAX_STAGED, FACTOR_UP, GAIN_MIN
from ik_service.solver.problems.rows.blocks import Poses
from ik_service.solver.staged.slots import Slots


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _propose(
    # model
    active_coordinate: wp.array[wp.int32],  # [active_dof_count]
    active_quaternion: wp.array[wp.int32],  # [active_dof_count]
    limit_lower: wp.array[float],  # [active_dof_count]
    limit_upper: wp.array[float],  # [active_dof_count]
    coordinate_leader: wp.array[wp.int32],  # [joint_coord_count]
    coordinate_multiplier: wp.array[float],  # [joint_coord_count]
    coordinate_offset: wp.array[float],  # [joint_coord_count]
    coordinate_lower: wp.array[float],  # [joint_coord_count]
    coordinate_upper: wp.array[float],  # [joint_coord_count]
    # islands
    island_dofadr: wp.array2d[wp.int32],
    island_dof: wp.array2d[wp.int32],
    island_coordadr: wp.array2d[wp.int32],
    island_coord: wp.array2d[wp.int32],
    hessian_adr: wp.array2d[wp.int32],
    # state
    problem_idx: wp.array[wp.int32],  # [n_batch]
    running: wp.array2d[wp.int32],  # [n_batch, trees]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    hessian: wp.array2d[float],  # [n_batch, dofs x dofs]
    gradient: wp.array2d[float],  # [n_batch, dofs]
    # in and out
    step: wp.array2d[float],  # [n_batch x candidates, dofs]
    # out
    joint_q_trial_out: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    predicted_out: wp.array2d[float],  # [n_batch x candidates, trees]
):
    i, k, island = wp.tid()
    if running[i, island] == 0:
        return
    t = i * (step.shape[0] / gradient.shape[0]) + k
    p = problem_idx[i]
    first = island_dofadr[p, island]
    dofs = island_dofadr[p, island + 1] - first
    block = hessian_adr[p, island]
    for m in range(dofs):
        a = island_dof[p, first + m]
        c = active_coordinate[a]
        if c >= 0:
            q = joint_q[i, c]
            new = wp.clamp(q + step[t, first + m], limit_lower[a], limit_upper[a])
            joint_q_trial_out[t, c] = new
            step[t, first + m] = new - q
        c = active_quaternion[a]
        if c >= 0:
            old = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
            rotation = turned(old, wp.vec3(step[t, first + m], step[t, first + m + 1], step[t, first + m + 2]))
            for n in range(4):
                joint_q_trial_out[t, c + n] = rotation[n]
    for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
        c = island_coord[p, m]
        leader = coordinate_leader[c]
        if leader >= 0:
            joint_q_trial_out[t, c] = followed(
                joint_q_trial_out[t, leader],
                coordinate_multiplier[c],
                coordinate_offset[c],
                coordinate_lower[c],
                coordinate_upper[c],
            )
    predicted = float(0.0)
    for m in range(dofs):
        row = block + m * dofs
        product = 0.5 * hessian[i, row + m] * step[t, first + m] + gradient[i, first + m]
        for n in range(m):
            product += hessian[i, row + n] * step[t, first + n]
        predicted -= product * step[t, first + m]
    predicted_out[t, island] = predicted


def propose(
    coordinates: Coordinates,
    islands: Islands,
    slots: Slots,
    equations: Equations,
    joint_q: wp.array[typing.Any],
    joint_q_trial: wp.array[typing.Any],
) -> None:
    """Write the trial configurations and predict how much each lowers the cost of every running island.

    Args:
        coordinates: How active DOFs move coordinates, and their limits.
        islands: Islands of every problem.
        slots: The slots.
        equations: Normal equations and steps; the steps become those actually taken.
        joint_q: Accepted configurations, [n_batch, joint_coord_count].
        joint_q_trial: Out: trial configurations, [n_batch x candidates, joint_coord_count].
    """
    count, trees = slots.running.shape
    inputs = [coordinates.active_coordinate, coordinates.active_quaternion, coordinates.limit_lower]
    inputs += [coordinates.limit_upper, *coordinates.followers, islands.island_dofadr, islands.island_dof]
    inputs += [islands.island_coordadr, islands.island_coord, islands.hessian_adr, slots.problem_idx, slots.running]
    inputs += [joint_q, equations.hessian, equations.gradient]
    outputs = [equations.step, joint_q_trial, equations.predicted]
    dim = (count, joint_q_trial.shape[0] // count, trees)
    wp.launch(_propose, dim, inputs, outputs, device=joint_q_trial.device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _accept(
    # islands
    island_rowadr: wp.array2d[wp.int32],
    island_row: wp.array2d[wp.int32],
    island_coordadr: wp.array2d[wp.int32],
    island_coord: wp.array2d[wp.int32],
    # trials
    candidate_damping: wp.array[float],  # [candidates]
    joint_q_trial: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    residuals_trial: wp.array2d[float],  # [n_batch x candidates, total_residuals]
    predicted: wp.array2d[float],  # [n_batch x candidates, trees]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    running: wp.array2d[wp.int32],  # [n_batch, trees]
    cost: wp.array2d[float],  # [n_batch, trees]
    # in and out
    damping_factor: wp.array2d[float],  # [n_batch, trees]
    iterations: wp.array2d[wp.int32],  # [n_batch, trees]
    # out
    ended_out: wp.array2d[wp.int32],  # [n_batch, trees]
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
):
    i, island = wp.tid()
    if running[i, island] == 0:
        return
    p = problem_idx[i]
    iterations[i, island] = iterations[i, island] + 1
    candidates = candidate_damping.shape[0]
    best = int(-1)
    current = cost[i, island]
    best_cost = float(current)
    for k in range(candidates):
        t = i * candidates + k
        norm2 = float(0.0)
        for m in range(island_rowadr[p, island], island_rowadr[p, island + 1]):
            r = residuals_trial[t, island_row[p, m]]
            norm2 += r * r
        # NaN compares false and so loses. A step that realises next to nothing of its promise is not trusted.
        if 0.5 * norm2 < best_cost and current - 0.5 * norm2 >= GAIN_MIN * predicted[t, island]:
            best = t
            best_cost = 0.5 * norm2
    if best < 0:
        damping_factor[i, island] = damping_factor[i, island] * FACTOR_UP
        if damping_factor[i, island] > FACTOR_MAX_STAGED:
            ended_out[i, island] = STALLED
        return
    for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
        c = island_coord[p, m]
        joint_q_out[i, c] = joint_q_trial[best, c]
    factor = damping_factor[i, island] * candidate_damping[best - i * candidates]
    damping_factor[i, island] = wp.max(factor * FACTOR_DOWN, 1.0)


def accept(
    islands: Islands,
    candidate_damping: wp.array[typing.Any],
    trials: Poses,
    predicted: wp.array[typing.Any],
    slots: Slots,
    joint_q: wp.array[typing.Any],
) -> None:
    """Move every running island to its best trial, or raise its damping where no trial is better.

    Args:
        islands: Islands of every problem.
        candidate_damping: Factors of the candidates, shape [candidates].
        trials: Configurations and residuals of the trials.
        predicted: Predicted decrease of the cost by each, [n_batch x candidates, trees].
        slots: The slots.
        joint_q: In and out: accepted configurations, shape [n_batch, joint_coord_count].
    """
    inputs = [islands.island_rowadr, islands.island_row, islands.island_coordadr, islands.island_coord]
    inputs += [candidate_damping, trials.joint_q, trials.residuals, predicted, slots.problem_idx, slots.running]
    outputs = [slots.damping_factor, slots.iterations, slots.ended, joint_q]
    wp.launch(_accept, slots.phase.shape, [*inputs, slots.cost], outputs, device=slots.phase.device)

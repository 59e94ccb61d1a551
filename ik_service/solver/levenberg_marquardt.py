"""One Levenberg-Marquardt iteration of every running island of every slot: assess, propose, accept.

Cost is 1/2 |r|^2 over the island's rows. The damping of a step is `boost * (DAMPING_SHARE * |r|^2 + DAMPING_MIN)`:
proportional to the error (Chan and Lawrence 1988), and raised by `boost` while steps are rejected. A DOF at a limit
whose gradient pushes it outwards is held for the step, and steps are clamped into the limits, so every accepted
configuration is inside. The predicted decrease is that of the step actually taken. Islands share nothing: each has its
own damping, choice of candidate, acceptance and end.
"""

import typing

import warp as wp

from ik_service.kinematics import quat_exp
from ik_service.linear_solve import Equations, Islands
from ik_service.solver.coordinates import Coordinates
from ik_service.solver.slots import (
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

RESIDUAL_FLOOR2 = wp.constant(9.0e-12)  # |r|^2 at which float32 kinematics has nothing more to give
ROUNDING2 = wp.constant(1.0e-9)  # |r|^2 that is nothing but rounding where no step lowers it any more
COSINE_MAX = wp.constant(1.0e-3)  # largest cosine between the residual and a column of J at a stationary point
COSINE_STUCK = wp.constant(1.0e-2)  # the same where no step lowers the cost: float32 resolves no further
DAMPING_SHARE = wp.constant(0.05)
DAMPING_MIN = wp.constant(1.0e-7)
BOOST_UP = wp.constant(4.0)
BOOST_DOWN = wp.constant(0.25)
BOOST_MAX = wp.constant(1.0e6)  # a step this short that still fails will not succeed
GAIN_MIN = wp.constant(1.0e-3)  # share of the predicted decrease that an accepted step must realise


@wp.func
@typing.no_type_check
def phase_after(norm2: float, slope: float, blocked: int, ended: int, iterations_left: int):
    """Return whether an attempt goes on, or how it ended.

    Args:
        norm2: |r|^2.
        slope: Largest squared cosine between r and the column of a DOF that is free to move.
        blocked: 1 where a limit holds back a DOF that would lower the cost.
        ended: What the last step decided.
        iterations_left: Steps that the attempt may still take.
    """
    if not wp.isfinite(norm2):
        return INVALID
    if norm2 <= RESIDUAL_FLOOR2 or (ended == STALLED and norm2 <= ROUNDING2):
        return CONVERGED
    if slope <= COSINE_MAX * COSINE_MAX or (ended == STALLED and slope <= COSINE_STUCK * COSINE_STUCK):
        if blocked == 1:
            return BLOCKED_BY_LIMITS
        return STATIONARY
    if ended == RUNNING and iterations_left <= 0:
        return MAX_ITERATIONS
    return ended


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
    hessian_adr: wp.array2d[wp.int32],
    # solve
    settings: wp.array[wp.int32],
    winner_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
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
    damping_out[i, island] = boost[i, island] * (DAMPING_SHARE * norm2 + DAMPING_MIN)
    blocked = int(0)
    slope = float(0.0)  # largest squared cosine of a free DOF
    first = island_dofadr[p, island]
    dofs = island_dofadr[p, island + 1] - first
    block = hessian_adr[p, island]
    for k in range(dofs):
        a = island_dof[p, first + k]
        c = active_coordinate[a]
        g = gradient[i, first + k]
        cosine2 = g * g / (hessian[i, block + k * dofs + k] * norm2 + 1.0e-30)
        held = int(0)
        if c >= 0:
            q = joint_q[i, c]
            if (q <= limit_lower[a] and g > 0.0) or (q >= limit_upper[a] and g < 0.0):
                held = 1
        held_out[i, first + k] = held
        if held == 1:
            if cosine2 > COSINE_MAX * COSINE_MAX:
                blocked = 1
        else:
            slope = wp.max(slope, cosine2)
    left = settings[ITERATIONS] - iterations[i, island]
    phase = phase_after(norm2, slope, blocked, ended[i, island], left)
    if winner_rank[p, island] < wp.int64(seed[i]):
        phase = CANCELLED
    if phase != RUNNING:
        phase_out[i, island] = phase
        running_out[i, island] = 0
        met_out[i, island] = NO_TARGET


def assess(
    coordinates: Coordinates,
    islands: Islands,
    solve: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    slots: Slots,
    joint_q: wp.array[typing.Any],
    equations: Equations,
) -> None:
    """Decide which attempts are over, which DOFs are held and how much to damp.

    Args:
        coordinates: How active DOFs move coordinates, and their limits.
        islands: Islands of every problem.
        solve: Integer settings, and the winners' ranks.
        slots: The slots.
        joint_q: Accepted configurations, [n_batch, joint_coord_count].
        equations: Normal equations at the accepted configurations.
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
        ],
        outputs=[slots.phase, slots.running, slots.met, slots.cost, slots.damping, equations.held],
        device=slots.phase.device,
    )


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
            turn = quat_exp(wp.vec3(step[t, first + m], step[t, first + m + 1], step[t, first + m + 2]))
            old = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
            rotation = wp.normalize(turn * old)
            for n in range(4):
                joint_q_trial_out[t, c + n] = rotation[n]
    for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
        c = island_coord[p, m]
        leader = coordinate_leader[c]
        if leader >= 0:
            q = coordinate_multiplier[c] * joint_q_trial_out[t, leader] + coordinate_offset[c]
            joint_q_trial_out[t, c] = wp.clamp(q, coordinate_lower[c], coordinate_upper[c])
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
    instances: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    equations: Equations,
    configurations: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
) -> None:
    """Write the trial configurations and predict how much each lowers the cost of every running island.

    Args:
        coordinates: How active DOFs move coordinates, and their limits.
        islands: Islands of every problem.
        instances: Problem of each slot [n_batch], and which of its islands run [n_batch, trees], int32.
        equations: Normal equations and steps; the steps become those actually taken.
        configurations: Accepted [n_batch, joint_coord_count], and trials [n_batch x candidates, joint_coord_count].
    """
    accepted, trials = configurations
    count, trees = instances[1].shape
    wp.launch(
        _propose,
        dim=(count, trials.shape[0] // count, trees),
        inputs=[
            coordinates.active_coordinate,
            coordinates.active_quaternion,
            coordinates.limit_lower,
            coordinates.limit_upper,
            *coordinates.followers,
            islands.island_dofadr,
            islands.island_dof,
            islands.island_coordadr,
            islands.island_coord,
            islands.hessian_adr,
            *instances,
            accepted,
            equations.hessian,
            equations.gradient,
        ],
        outputs=[equations.step, trials, equations.predicted],
        device=trials.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _accept(
    # islands
    island_rowadr: wp.array2d[wp.int32],
    island_row: wp.array2d[wp.int32],
    island_coordadr: wp.array2d[wp.int32],
    island_coord: wp.array2d[wp.int32],
    # trials
    damping_factor: wp.array[float],  # [candidates]
    joint_q_trial: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    residuals_trial: wp.array2d[float],  # [n_batch x candidates, total_residuals]
    predicted: wp.array2d[float],  # [n_batch x candidates, trees]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    running: wp.array2d[wp.int32],  # [n_batch, trees]
    cost: wp.array2d[float],  # [n_batch, trees]
    # in and out
    boost: wp.array2d[float],  # [n_batch, trees]
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
    candidates = damping_factor.shape[0]
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
        boost[i, island] = boost[i, island] * BOOST_UP
        if boost[i, island] > BOOST_MAX:
            ended_out[i, island] = STALLED
        return
    for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
        c = island_coord[p, m]
        joint_q_out[i, c] = joint_q_trial[best, c]
    boost[i, island] = wp.max(boost[i, island] * damping_factor[best - i * candidates] * BOOST_DOWN, 1.0)


def accept(
    islands: Islands,
    damping_factor: wp.array[typing.Any],
    trials: "tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]",
    slots: Slots,
    joint_q: wp.array[typing.Any],
) -> None:
    """Move every running island to its best trial, or raise its damping where no trial is better.

    Args:
        islands: Islands of every problem.
        damping_factor: Factors of the candidates, shape [candidates].
        trials: Configurations, residuals and predicted decreases of the trials.
        slots: The slots.
        joint_q: In and out: accepted configurations, shape [n_batch, joint_coord_count].
    """
    wp.launch(
        _accept,
        dim=slots.phase.shape,
        inputs=[
            islands.island_rowadr,
            islands.island_row,
            islands.island_coordadr,
            islands.island_coord,
            damping_factor,
            *trials,
            slots.problem_idx,
            slots.running,
            slots.cost,
        ],
        outputs=[slots.boost, slots.iterations, slots.ended, joint_q],
        device=slots.phase.device,
    )

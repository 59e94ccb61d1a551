"""One Levenberg-Marquardt iteration of every running slot: assess, propose, accept.

Cost is 1/2 |r|^2. The damping of a step is `boost * (DAMPING_SHARE * |r|^2 + DAMPING_MIN)`: proportional to the error
(Chan and Lawrence 1988), and raised by `boost` while steps are rejected. A DOF at a limit whose gradient pushes it
outwards is held for the step, and steps are clamped into the limits, so every accepted configuration is inside. The
predicted decrease is that of the step actually taken.
"""

import typing
from dataclasses import dataclass

import warp as wp

from ik_service.kinematics import quat_exp
from ik_service.kinematics.forward_kinematics import BALL, FLOATING
from ik_service.robots import DeviceModel
from ik_service.solver.attempts import (
    BLOCKED_BY_LIMITS,
    CANCELLED,
    CONVERGED,
    INVALID,
    ITERATIONS,
    MAX_ITERATIONS,
    RUNNING,
    STALLED,
    STATIONARY,
    Slots,
)
from ik_service.solver.seeds import follow

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


@dataclass(frozen=True)
class Equations:
    """Scratch of one iteration.

    Attributes:
        hessian: J'J, lower triangle, [n_batch, active_dof_count, active_dof_count].
        gradient: J'r, [n_batch, active_dof_count].
        held: 1 where a DOF keeps still, int32 [n_batch, active_dof_count].
        factor: Cholesky factors, [n_batch x candidates, active_dof_count, active_dof_count].
        step: Steps, [n_batch x candidates, active_dof_count].
        predicted: Predicted decrease of the cost, [n_batch x candidates].
    """

    hessian: wp.array[typing.Any]
    gradient: wp.array[typing.Any]
    held: wp.array[typing.Any]
    factor: wp.array[typing.Any]
    step: wp.array[typing.Any]
    predicted: wp.array[typing.Any]

    @classmethod
    def allocate(cls, n_batch: int, candidates: int, dofs: int, device: wp.Device) -> "Equations":
        """Return zeroed scratch."""

        def floats(*shape: int) -> wp.array[typing.Any]:
            return wp.zeros(shape, dtype=wp.float32, device=device)

        return cls(
            hessian=floats(n_batch, dofs, dofs),
            gradient=floats(n_batch, dofs),
            held=wp.zeros((n_batch, dofs), dtype=wp.int32, device=device),
            factor=floats(n_batch * candidates, dofs, dofs),
            step=floats(n_batch * candidates, dofs),
            predicted=floats(n_batch * candidates),
        )


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
    # solve
    settings: wp.array[wp.int32],
    winner_rank: wp.array[wp.int64],  # [problem_capacity]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    iterations: wp.array[wp.int32],  # [n_batch]
    ended: wp.array[wp.int32],  # [n_batch]
    boost: wp.array[float],  # [n_batch]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    # rows
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    hessian: wp.array3d[float],  # [n_batch, active_dof_count, active_dof_count]
    gradient: wp.array2d[float],  # [n_batch, active_dof_count]
    # out
    phase_out: wp.array[wp.int32],  # [n_batch]
    running_out: wp.array[wp.int32],  # [n_batch]
    cost_out: wp.array[float],  # [n_batch]
    damping_out: wp.array[float],  # [n_batch]
    held_out: wp.array2d[wp.int32],  # [n_batch, active_dof_count]
):
    i = wp.tid()
    if running_out[i] == 0:
        return
    norm2 = float(0.0)
    for r in range(residuals.shape[1]):
        norm2 += residuals[i, r] * residuals[i, r]
    cost_out[i] = 0.5 * norm2
    damping_out[i] = boost[i] * (DAMPING_SHARE * norm2 + DAMPING_MIN)
    blocked = int(0)
    slope = float(0.0)  # largest squared cosine of a free DOF
    for a in range(gradient.shape[1]):
        c = active_coordinate[a]
        g = gradient[i, a]
        cosine2 = g * g / (hessian[i, a, a] * norm2 + 1.0e-30)
        held = int(0)
        if c >= 0:
            q = joint_q[i, c]
            if (q <= limit_lower[a] and g > 0.0) or (q >= limit_upper[a] and g < 0.0):
                held = 1
        held_out[i, a] = held
        if held == 1:
            if cosine2 > COSINE_MAX * COSINE_MAX:
                blocked = 1
        else:
            slope = wp.max(slope, cosine2)
    phase = phase_after(norm2, slope, blocked, ended[i], settings[ITERATIONS] - iterations[i])
    if winner_rank[problem_idx[i]] < wp.int64(seed[i]):
        phase = CANCELLED
    if phase != RUNNING:
        phase_out[i] = phase
        running_out[i] = 0


def assess(
    model: tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]],
    solve: tuple[wp.array[typing.Any], wp.array[typing.Any]],
    slots: Slots,
    state: tuple[wp.array[typing.Any], wp.array[typing.Any]],
    equations: Equations,
) -> None:
    """Decide which attempts are over, which DOFs are held and how much to damp.

    Args:
        model: Coordinates (-1 for rotations of ball and floating joints) and limits of the active DOFs.
        solve: Integer settings, and the winners' ranks.
        slots: The slots.
        state: Accepted configurations, and the residuals there.
        equations: Normal equations at the accepted configurations.
    """
    wp.launch(
        _assess,
        dim=slots.phase.shape[0],
        inputs=[
            *model,
            *solve,
            slots.problem_idx,
            slots.seed,
            slots.iterations,
            slots.ended,
            slots.boost,
            *state,
            equations.hessian,
            equations.gradient,
        ],
        outputs=[slots.phase, slots.running, slots.cost, slots.damping, equations.held],
        device=slots.phase.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _propose(
    # model
    joint_type: wp.array[wp.int32],
    joint_q_start: wp.array[wp.int32],
    joint_qd_start: wp.array[wp.int32],
    dof_active: wp.array[wp.int32],
    active_dof: wp.array[wp.int32],
    dof_coordinate: wp.array[wp.int32],
    dof_multiplier: wp.array[float],
    dof_offset: wp.array[float],
    lower: wp.array[float],  # [joint_dof_count]
    upper: wp.array[float],  # [joint_dof_count]
    limit_lower: wp.array[float],  # [active_dof_count]
    limit_upper: wp.array[float],  # [active_dof_count]
    # state
    running: wp.array[wp.int32],  # [n_batch]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    hessian: wp.array3d[float],  # [n_batch, active_dof_count, active_dof_count]
    gradient: wp.array2d[float],  # [n_batch, active_dof_count]
    # in and out
    step: wp.array2d[float],  # [n_batch x candidates, active_dof_count]
    # out
    joint_q_trial_out: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    predicted_out: wp.array[float],  # [n_batch x candidates]
):
    i, k = wp.tid()
    if running[i] == 0:
        return
    t = i * (step.shape[0] / gradient.shape[0]) + k
    dofs = gradient.shape[1]
    for c in range(joint_q.shape[1]):
        joint_q_trial_out[t, c] = joint_q[i, c]
    for a in range(dofs):
        c = dof_coordinate[active_dof[a]]
        if c >= 0:
            q = joint_q[i, c]
            new = wp.clamp(q + step[t, a], limit_lower[a], limit_upper[a])
            joint_q_trial_out[t, c] = new
            step[t, a] = new - q
    for j in range(joint_type.shape[0]):
        kind = joint_type[j]
        if kind == BALL or kind == FLOATING:
            c = joint_q_start[j + 1] - 4
            a = dof_active[joint_qd_start[j + 1] - 3]
            if a >= 0:
                turn = quat_exp(wp.vec3(step[t, a], step[t, a + 1], step[t, a + 2]))
                old = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
                new_rotation = wp.normalize(turn * old)
                for m in range(4):
                    joint_q_trial_out[t, c + m] = new_rotation[m]
    follow(t, dof_active, active_dof, dof_coordinate, dof_multiplier, dof_offset, lower, upper, joint_q_trial_out)
    predicted = float(0.0)
    for a in range(dofs):
        product = 0.5 * hessian[i, a, a] * step[t, a] + gradient[i, a]
        for b in range(a):
            product += hessian[i, a, b] * step[t, b]
        predicted -= product * step[t, a]
    predicted_out[t] = predicted


def propose(
    model: DeviceModel,
    limits: tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]],
    running: wp.array[typing.Any],
    equations: Equations,
    configurations: tuple[wp.array[typing.Any], wp.array[typing.Any]],
) -> None:
    """Write the trial configurations and predict how much each lowers the cost.

    Args:
        model: The robot on the device.
        limits: Lower and upper limits of all DOFs, then of the active ones; infinite where they are not enforced.
        running: Slots to treat, int32 [n_batch].
        equations: Normal equations and steps; the steps become those actually taken.
        configurations: Accepted [n_batch, joint_coord_count], and trials [n_batch x candidates, joint_coord_count].
    """
    accepted, trials = configurations
    wp.launch(
        _propose,
        dim=(running.shape[0], trials.shape[0] // running.shape[0]),
        inputs=[
            model.joint_type,
            model.joint_q_start,
            model.joint_qd_start,
            model.dof_active,
            model.active_dof,
            model.dof_coordinate,
            model.dof_multiplier,
            model.dof_offset,
            *limits,
            running,
            accepted,
            equations.hessian,
            equations.gradient,
        ],
        outputs=[equations.step, trials, equations.predicted],
        device=running.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _accept(
    # trials
    damping_factor: wp.array[float],  # [candidates]
    joint_q_trial: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    residuals_trial: wp.array2d[float],  # [n_batch x candidates, total_residuals]
    predicted: wp.array[float],  # [n_batch x candidates]
    # attempt
    running: wp.array[wp.int32],  # [n_batch]
    cost: wp.array[float],  # [n_batch]
    # in and out
    boost: wp.array[float],  # [n_batch]
    iterations: wp.array[wp.int32],  # [n_batch]
    # out
    ended_out: wp.array[wp.int32],  # [n_batch]
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
):
    i = wp.tid()
    if running[i] == 0:
        return
    iterations[i] = iterations[i] + 1
    candidates = damping_factor.shape[0]
    best = int(-1)
    best_cost = float(cost[i])
    for k in range(candidates):
        t = i * candidates + k
        norm2 = float(0.0)
        for r in range(residuals_trial.shape[1]):
            norm2 += residuals_trial[t, r] * residuals_trial[t, r]
        # NaN compares false and so loses. A step that realises next to nothing of its promise is not trusted.
        if 0.5 * norm2 < best_cost and cost[i] - 0.5 * norm2 >= GAIN_MIN * predicted[t]:
            best = t
            best_cost = 0.5 * norm2
    if best < 0:
        boost[i] = boost[i] * BOOST_UP
        if boost[i] > BOOST_MAX:
            ended_out[i] = STALLED
        return
    for c in range(joint_q_out.shape[1]):
        joint_q_out[i, c] = joint_q_trial[best, c]
    boost[i] = wp.max(boost[i] * damping_factor[best - i * candidates] * BOOST_DOWN, 1.0)


def accept(
    damping_factor: wp.array[typing.Any],
    trials: tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]],
    slots: Slots,
    joint_q: wp.array[typing.Any],
) -> None:
    """Move every running slot to its best trial, or raise its damping where no trial is better.

    Args:
        damping_factor: Factors of the candidates, shape [candidates].
        trials: Configurations, residuals and predicted decreases of the trials.
        slots: The slots.
        joint_q: In and out: accepted configurations, shape [n_batch, joint_coord_count].
    """
    wp.launch(
        _accept,
        dim=slots.phase.shape[0],
        inputs=[damping_factor, *trials, slots.running, slots.cost],
        outputs=[slots.boost, slots.iterations, slots.ended, joint_q],
        device=slots.phase.device,
    )

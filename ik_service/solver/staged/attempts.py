"""The queue of attempts: which (problem, seed) each slot of the batch works on, and which answers are kept.

A batch has a fixed number of slots. A slot that has finished an attempt takes the next one: first every problem's
first seed, then the second seed of those that have not succeeded, and so on. So seeds are tried one after another
while the slots stay full, and any number of problems runs in the memory of one batch.

Every island of a problem is an attempt of its own: it starts only where no lower seed has solved it, ends by itself,
and has a best attempt of its own: the lowest seed that succeeds, or else the one of least cost, then of lowest index.
An attempt is cancelled only when a lower seed has succeeded, so the answer does not depend on the number of slots, on
the order in which they finish, on the other islands, or on the other problems of the batch.
"""

import typing
from typing import Any

import warp as wp

from ik_service.linear_solve import Islands
from ik_service.solver.lm.codes import CONVERGED, IDLE, INVALID, NO_TARGET, PROBLEM_COUNT, RUNNING, SEEDS
from ik_service.solver.lm.ranking import attempt_rank, may_still_win
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.problems.best_attempts import BestAttempts
from ik_service.solver.staged.slots import Slots


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _rank_ended(
    # attempts
    phase: wp.array2d[wp.int32],  # [n_batch, trees]
    met: wp.array2d[wp.int32],  # [n_batch, trees]
    cost: wp.array2d[float],  # [n_batch, trees]
    seed: wp.array[wp.int32],  # [n_batch]
    problem_idx: wp.array[wp.int32],  # [n_batch]
    # out
    rank_out: wp.array2d[wp.int64],  # [n_batch, trees]
    best_rank_out: wp.array2d[wp.int64],  # [problem_capacity, trees]
):
    i, island = wp.tid()
    status = phase[i, island]
    if status < 0:
        return
    success = met[i, island] == 1 and status != INVALID
    if met[i, island] == NO_TARGET:
        success = status == CONVERGED  # a stationary point may be anything: the seeds compete by cost
    rank = attempt_rank(success, True, seed[i], cost[i, island])
    rank_out[i, island] = rank
    wp.atomic_min(best_rank_out, problem_idx[i], island, rank)


def rank_ended(slots: Slots, best: BestAttempts) -> None:
    """Rank the attempts that have just ended and keep the best rank of every problem and island."""
    inputs = [slots.phase, slots.met, slots.cost, slots.seed, slots.problem_idx]
    wp.launch(_rank_ended, slots.phase.shape, inputs, [slots.rank, best.rank], device=slots.phase.device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _collect(
    # islands
    island_coordadr: wp.array2d[wp.int32],
    island_coord: wp.array2d[wp.int32],
    best_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
    # attempts
    problem_idx: wp.array[wp.int32],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    rank: wp.array2d[wp.int64],  # [n_batch, trees]
    cost: wp.array2d[float],  # [n_batch, trees]
    iterations: wp.array2d[wp.int32],  # [n_batch, trees]
    met: wp.array2d[wp.int32],  # [n_batch, trees]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    # out
    phase_out: wp.array2d[wp.int32],  # [n_batch, trees]
    best_joint_q_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    best_cost_out: wp.array2d[float],  # [problem_capacity, trees]
    best_seed_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    best_iterations_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    best_status_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    best_met_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
):
    i, island = wp.tid()
    status = phase_out[i, island]
    if status == RUNNING or status == IDLE:
        return
    p = problem_idx[i]
    if status >= 0 and best_rank[p, island] == rank[i, island]:
        for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
            c = island_coord[p, m]
            best_joint_q_out[p, c] = joint_q[i, c]
        best_cost_out[p, island] = cost[i, island]
        best_seed_out[p, island] = seed[i]
        best_iterations_out[p, island] = iterations[i, island]
        best_status_out[p, island] = status
        best_met_out[p, island] = met[i, island]
    phase_out[i, island] = IDLE


def collect(islands: Islands, slots: Slots, best: BestAttempts, joint_q: wp.array[Any]) -> None:
    """Keep the answers of ended attempts that are the best of their problem and island.

    Args:
        islands: Islands of every problem.
        slots: The slots; ended islands become idle.
        best: The best attempts.
        joint_q: Accepted configurations, shape [n_batch, joint_coord_count].
    """
    inputs = [islands.island_coordadr, islands.island_coord, best.rank, slots.problem_idx, slots.seed, slots.rank]
    inputs += [slots.cost, slots.iterations, slots.met, joint_q]
    outputs = [slots.phase, best.joint_q, best.cost, best.seed, best.iterations, best.status, best.met]
    wp.launch(_collect, slots.phase.shape, inputs, outputs, device=slots.phase.device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _refill(
    # solve
    settings: wp.array[wp.int32],
    nisland: wp.array[wp.int32],  # [problem_capacity]
    best_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
    start_joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    # out
    problem_idx_out: wp.array[wp.int32],  # [n_batch]
    seed_out: wp.array[wp.int32],  # [n_batch]
    phase_out: wp.array2d[wp.int32],  # [n_batch, trees]
    running_out: wp.array2d[wp.int32],  # [n_batch, trees]
    fresh_out: wp.array2d[wp.int32],  # [n_batch, trees]
    iterations_out: wp.array2d[wp.int32],  # [n_batch, trees]
    ended_out: wp.array2d[wp.int32],  # [n_batch, trees]
    damping_factor_out: wp.array2d[float],  # [n_batch, trees]
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
    joint_q_trial_out: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    next_attempt_out: wp.array[wp.int32],  # [1]
    running_count_out: wp.array[wp.int32],  # [1]
):
    i = wp.tid()
    candidates = joint_q_trial_out.shape[0] / joint_q_out.shape[0]
    started = int(0)
    for island in range(running_out.shape[1]):
        if running_out[i, island] != 0:
            started = 1
    problem_count = settings[PROBLEM_COUNT]
    total = problem_count * settings[SEEDS]
    searching = int(1 - started)
    while searching == 1:
        attempt = int(total)
        if next_attempt_out[0] < total:  # looked at first, so that idle slots do not count it up for ever
            attempt = wp.atomic_add(next_attempt_out, 0, 1)
        if attempt >= total:
            searching = 0
        else:
            p = attempt % problem_count
            s = attempt / problem_count
            for island in range(nisland[p]):
                if may_still_win(best_rank[p, island], s):
                    phase_out[i, island] = RUNNING
                    running_out[i, island] = 1
                    fresh_out[i, island] = 1
                    iterations_out[i, island] = 0
                    ended_out[i, island] = RUNNING
                    damping_factor_out[i, island] = 1.0
                    started = 1
            if started == 1:
                problem_idx_out[i] = p
                seed_out[i] = s
                for c in range(joint_q_out.shape[1]):
                    joint_q_out[i, c] = start_joint_q[p, c]
                    for k in range(candidates):  # steps move only what belongs to an island
                        joint_q_trial_out[i * candidates + k, c] = start_joint_q[p, c]
                searching = 0
    wp.atomic_add(running_count_out, 0, started)


def refill(
    problems: Problems,
    slots: Slots,
    joint_q: wp.array[Any],
    joint_q_trial: wp.array[Any],
    next_attempt: wp.array[Any],
    running_count: wp.array[Any],
) -> None:
    """Hand the next attempts to the slots in which no island runs, at the start configurations of their problems.

    Args:
        problems: Arrays of the problems.
        slots: The slots.
        joint_q: Out: accepted configurations, [n_batch, joint_coord_count].
        joint_q_trial: Out: trial configurations, [n_batch x candidates, joint_coord_count].
        next_attempt: The next attempt to hand out, [1].
        running_count: Out: number of slots that run afterwards, [1]; zeroed by the caller.
    """
    inputs = [problems.settings, problems.islands.nisland, problems.best.rank, problems.start_joint_q]
    outputs = [slots.problem_idx, slots.seed, slots.phase, slots.running, slots.fresh, slots.iterations, slots.ended]
    outputs += [slots.damping_factor, joint_q, joint_q_trial, next_attempt, running_count]
    wp.launch(_refill, slots.phase.shape[0], inputs, outputs, device=slots.phase.device)

"""The queue of attempts: which (problem, seed) each slot of the batch works on, when it is over, and what it yields.

A batch has a fixed number of slots. A slot that has finished an attempt takes the next one: first every problem's
first seed, then the second seed of those that have not succeeded, and so on. So the work is that of restarting one
problem at a time, while the slots stay full, and any number of problems runs in the memory of one batch.

The winner of a problem is the lowest seed that succeeds, or else the one of least cost, then of lowest index. An
attempt is dropped early only when a lower seed has succeeded, so the answer does not depend on the number of slots,
on the order in which they finish, or on the other problems of the batch.
"""

import typing
from dataclasses import dataclass

import warp as wp

from ik_service.solver.status import IKStatus

# Phases of a slot: RUNNING, or the IKStatus (or STATIONARY) with which its attempt has just ended, or one of:
RUNNING = wp.constant(-1)
CANCELLED = wp.constant(-2)  # a lower seed of its problem has succeeded
IDLE = wp.constant(-3)  # it has no attempt

FAILED = wp.constant(wp.int64(1 << 56))  # added to the rank of an attempt that failed
UNRANKED = wp.constant(wp.int64(1 << 60))  # above the rank of any attempt
SEED_BITS = wp.constant(wp.int64(16))  # room for the seed under the cost in the rank of a failure

CONVERGED = wp.constant(int(IKStatus.CONVERGED))
STALLED = wp.constant(int(IKStatus.STALLED))
MAX_ITERATIONS = wp.constant(int(IKStatus.MAX_ITERATIONS))
BLOCKED_BY_LIMITS = wp.constant(int(IKStatus.BLOCKED_BY_LIMITS))
INVALID = wp.constant(int(IKStatus.INVALID))
STATIONARY = wp.constant(len(IKStatus))  # passed the gradient test; becomes CONVERGED or STALLED in the result

# Entries of the integer settings of a solve, which live on the device so that a recorded graph sees them change.
PROBLEM_COUNT = wp.constant(0)
SEEDS = wp.constant(1)
ITERATIONS = wp.constant(2)
HAS_START = wp.constant(3)
RANDOM_SEED = wp.constant(4)
SETTINGS_COUNT = 5


@dataclass(frozen=True)
class Slots:
    """What each slot is doing, int32 or float32 [n_batch].

    Attributes:
        problem_idx: Its problem; of an idle slot, some valid problem.
        seed: Its seed.
        phase: RUNNING, CANCELLED, IDLE or the status with which its attempt has just ended.
        running: 1 while phase is RUNNING.
        fresh: 1 where the start configuration has yet to be written.
        iterations: Steps tried in this attempt.
        ended: Status that the last step ended the attempt with, or RUNNING.
        met: 1 where every target is met, valid once the attempt has ended.
        cost: 1/2 |r|^2 of the accepted configuration.
        boost: Factor on the damping, raised by rejected steps.
        damping: Damping of the next step.
        rank: Rank of the attempt among those of its problem (int64), valid once it has ended.
    """

    problem_idx: wp.array[typing.Any]
    seed: wp.array[typing.Any]
    phase: wp.array[typing.Any]
    running: wp.array[typing.Any]
    fresh: wp.array[typing.Any]
    iterations: wp.array[typing.Any]
    ended: wp.array[typing.Any]
    met: wp.array[typing.Any]
    cost: wp.array[typing.Any]
    boost: wp.array[typing.Any]
    damping: wp.array[typing.Any]
    rank: wp.array[typing.Any]

    @classmethod
    def allocate(cls, slot_count: int, device: wp.Device) -> "Slots":
        """Return idle slots."""
        floats = {"cost": wp.float32, "boost": wp.float32, "damping": wp.float32, "rank": wp.int64}
        arrays = {
            name: wp.zeros(slot_count, dtype=floats.get(name, wp.int32), device=device) for name in cls.__annotations__
        }
        return cls(**arrays)


@dataclass(frozen=True)
class Winners:
    """The best attempt of every problem so far.

    Attributes:
        rank: Its rank, int64 [problem_capacity].
        joint_q: Its configuration, float32 [problem_capacity, joint_coord_count].
        cost: 1/2 |r|^2, float32 [problem_capacity].
        seed: Its seed, int32 [problem_capacity].
        iterations: Its steps, int32 [problem_capacity].
        status: Its IKStatus, int32 [problem_capacity].
    """

    rank: wp.array[typing.Any]
    joint_q: wp.array[typing.Any]
    cost: wp.array[typing.Any]
    seed: wp.array[typing.Any]
    iterations: wp.array[typing.Any]
    status: wp.array[typing.Any]

    @classmethod
    def allocate(cls, problem_capacity: int, joint_coord_count: int, device: wp.Device) -> "Winners":
        """Return room for the answers of `problem_capacity` problems."""
        vector = {name: wp.zeros(problem_capacity, dtype=wp.int32, device=device) for name in ("seed", "iterations")}
        return cls(
            rank=wp.zeros(problem_capacity, dtype=wp.int64, device=device),
            joint_q=wp.zeros((problem_capacity, joint_coord_count), dtype=wp.float32, device=device),
            cost=wp.zeros(problem_capacity, dtype=wp.float32, device=device),
            status=wp.zeros(problem_capacity, dtype=wp.int32, device=device),
            **vector,
        )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _rank_ended(
    # attempts
    target_count: int,
    phase: wp.array[wp.int32],  # [n_batch]
    met: wp.array[wp.int32],  # [n_batch]
    cost: wp.array[float],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    problem_idx: wp.array[wp.int32],  # [n_batch]
    # out
    rank_out: wp.array[wp.int64],  # [n_batch]
    winner_rank_out: wp.array[wp.int64],  # [problem_capacity]
):
    i = wp.tid()
    status = phase[i]
    if status < 0:
        return
    success = status == CONVERGED or (target_count == 0 and status == STATIONARY)
    if target_count > 0:
        success = met[i] != 0 and status != INVALID
    rank = wp.int64(seed[i])
    if not success:
        # The bits of a float that is not negative order like the float; NaN lands above every number.
        rank += FAILED + (wp.int64(wp.cast(wp.abs(cost[i]), wp.int32)) << SEED_BITS)
    rank_out[i] = rank
    wp.atomic_min(winner_rank_out, problem_idx[i], rank)


def rank_ended(slots: Slots, winners: Winners, target_count: int) -> None:
    """Rank the attempts that have just ended and keep the best rank of every problem."""
    wp.launch(
        _rank_ended,
        dim=slots.phase.shape[0],
        inputs=[target_count, slots.phase, slots.met, slots.cost, slots.seed, slots.problem_idx],
        outputs=[slots.rank, winners.rank],
        device=slots.phase.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _collect_and_refill(
    # solve
    settings: wp.array[wp.int32],
    winner_rank: wp.array[wp.int64],  # [problem_capacity]
    # attempts in
    rank: wp.array[wp.int64],  # [n_batch]
    cost: wp.array[float],  # [n_batch]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    # attempts in and out
    problem_idx: wp.array[wp.int32],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    phase: wp.array[wp.int32],  # [n_batch]
    iterations: wp.array[wp.int32],  # [n_batch]
    # out
    running_out: wp.array[wp.int32],  # [n_batch]
    fresh_out: wp.array[wp.int32],  # [n_batch]
    ended_out: wp.array[wp.int32],  # [n_batch]
    boost_out: wp.array[float],  # [n_batch]
    winner_joint_q_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    winner_cost_out: wp.array[float],  # [problem_capacity]
    winner_seed_out: wp.array[wp.int32],  # [problem_capacity]
    winner_iterations_out: wp.array[wp.int32],  # [problem_capacity]
    winner_status_out: wp.array[wp.int32],  # [problem_capacity]
    next_attempt_out: wp.array[wp.int32],  # [1]
    running_count_out: wp.array[wp.int32],  # [1]
):
    i = wp.tid()
    if phase[i] == RUNNING:
        wp.atomic_add(running_count_out, 0, 1)
        return
    p = problem_idx[i]
    if phase[i] >= 0 and winner_rank[p] == rank[i]:
        for c in range(joint_q.shape[1]):
            winner_joint_q_out[p, c] = joint_q[i, c]
        winner_cost_out[p] = cost[i]
        winner_seed_out[p] = seed[i]
        winner_iterations_out[p] = iterations[i]
        winner_status_out[p] = phase[i]
    phase[i] = IDLE
    problem_count = settings[PROBLEM_COUNT]
    total = problem_count * settings[SEEDS]
    searching = int(1)
    while searching == 1:
        attempt = int(total)
        if next_attempt_out[0] < total:  # looked at first, so that idle slots do not count it up for ever
            attempt = wp.atomic_add(next_attempt_out, 0, 1)
        if attempt >= total:
            searching = 0
        else:
            p = attempt % problem_count
            s = attempt / problem_count
            if winner_rank[p] > wp.int64(s):
                problem_idx[i] = p
                seed[i] = s
                phase[i] = RUNNING
                running_out[i] = 1
                fresh_out[i] = 1
                iterations[i] = 0
                ended_out[i] = RUNNING
                boost_out[i] = 1.0
                wp.atomic_add(running_count_out, 0, 1)
                searching = 0


def collect_and_refill(
    settings: wp.array[typing.Any],
    slots: Slots,
    winners: Winners,
    joint_q: wp.array[typing.Any],
    counters: tuple[wp.array[typing.Any], wp.array[typing.Any]],
) -> None:
    """Keep the answers of attempts that have become the best of their problem, and hand out the next attempts.

    Args:
        settings: Integer settings of the solve.
        slots: The slots.
        winners: The answers.
        joint_q: Accepted configurations, shape [n_batch, joint_coord_count].
        counters: The next attempt to hand out, and (zeroed by the caller) the number of slots running afterwards.
    """
    wp.launch(
        _collect_and_refill,
        dim=slots.phase.shape[0],
        inputs=[
            settings,
            winners.rank,
            slots.rank,
            slots.cost,
            joint_q,
            slots.problem_idx,
            slots.seed,
            slots.phase,
            slots.iterations,
        ],
        outputs=[
            slots.running,
            slots.fresh,
            slots.ended,
            slots.boost,
            winners.joint_q,
            winners.cost,
            winners.seed,
            winners.iterations,
            winners.status,
            *counters,
        ],
        device=slots.phase.device,
    )

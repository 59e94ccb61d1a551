"""The queue of attempts: which (problem, seed) each slot of the batch works on, when it is over, and what it yields.

A batch has a fixed number of slots. A slot that has finished an attempt takes the next one: first every problem's
first seed, then the second seed of those that have not succeeded, and so on. So the work is that of restarting one
problem at a time, while the slots stay full, and any number of problems runs in the memory of one batch.

Every island of a problem is an attempt of its own: it starts only where no lower seed has solved it, ends by itself,
and has a winner of its own. The winner is the lowest seed that succeeds, or else the one of least cost, then of lowest
index. An attempt is dropped early only when a lower seed has succeeded, so the answer does not depend on the number
of slots, on the order in which they finish, on the other islands, or on the other problems of the batch.
"""

import typing
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.linear_solve import Islands
from ik_service.solver.status import IKStatus

# Phases of an island in a slot: RUNNING, the IKStatus (or STATIONARY) with which its attempt has just ended, or:
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
NO_TARGET = wp.constant(2)  # value of `met` where an island has no pose target: it succeeds by the gradient test
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
    """What each slot is doing.

    Attributes:
        problem_idx: Its problem; of an idle slot, some valid problem. int32 [n_batch].
        seed: Its seed, int32 [n_batch].
        phase: Of each island: RUNNING, CANCELLED, IDLE or the status with which its attempt has just ended. This and
            what follows: int32 unless said, [n_batch, trees].
        running: 1 while phase is RUNNING.
        fresh: 1 where the start configuration has yet to be written.
        iterations: Steps tried in this attempt.
        ended: Status that the last step ended the attempt with, or RUNNING.
        met: Once the attempt has ended: 1 where every target is met, 0 where one is missed, NO_TARGET without any.
        cost: 1/2 |r|^2 of the accepted configuration, float32.
        boost: Factor on the damping, raised by rejected steps, float32.
        damping: Damping of the next step, float32.
        rank: Rank of the ended attempt among those of its problem and island, int64.
    """

    problem_idx: wp.array[Any]
    seed: wp.array[Any]
    phase: wp.array[Any]
    running: wp.array[Any]
    fresh: wp.array[Any]
    iterations: wp.array[Any]
    ended: wp.array[Any]
    met: wp.array[Any]
    cost: wp.array[Any]
    boost: wp.array[Any]
    damping: wp.array[Any]
    rank: wp.array[Any]

    @classmethod
    def allocate(cls, slot_count: int, tree_count: int, device: wp.Device) -> "Slots":
        """Return idle slots."""
        dtypes = {"cost": wp.float32, "boost": wp.float32, "damping": wp.float32, "rank": wp.int64}
        per_slot = ("problem_idx", "seed")
        arrays = {
            name: wp.zeros(
                slot_count if name in per_slot else (slot_count, tree_count),
                dtype=dtypes.get(name, wp.int32),
                device=device,
            )
            for name in cls.__annotations__
        }
        return cls(**arrays)


@dataclass(frozen=True)
class Winners:
    """The best attempt of every problem and island so far.

    Attributes:
        joint_q: Its configuration, float32 [problem_capacity, joint_coord_count].
        rank: Its rank, int64. This and what follows: [problem_capacity, trees].
        cost: 1/2 |r|^2, float32.
        seed: Its seed, int32.
        iterations: Its steps, int32.
        status: Its IKStatus or STATIONARY, int32.
        met: Whether it met its targets, as in Slots, int32.
    """

    joint_q: wp.array[Any]
    rank: wp.array[Any]
    cost: wp.array[Any]
    seed: wp.array[Any]
    iterations: wp.array[Any]
    status: wp.array[Any]
    met: wp.array[Any]

    @classmethod
    def allocate(cls, problem_capacity: int, joint_coord_count: int, tree_count: int, device: wp.Device) -> "Winners":
        """Return room for the answers of `problem_capacity` problems."""
        dtypes = {"rank": wp.int64, "cost": wp.float32}
        arrays = {
            name: wp.zeros((problem_capacity, tree_count), dtype=dtypes.get(name, wp.int32), device=device)
            for name in cls.__annotations__
            if name != "joint_q"
        }
        joint_q = wp.zeros((problem_capacity, joint_coord_count), dtype=wp.float32, device=device)
        return cls(joint_q=joint_q, **arrays)


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
    winner_rank_out: wp.array2d[wp.int64],  # [problem_capacity, trees]
):
    i, island = wp.tid()
    status = phase[i, island]
    if status < 0:
        return
    success = met[i, island] == 1 and status != INVALID
    if met[i, island] == NO_TARGET:
        success = status == CONVERGED or status == STATIONARY
    rank = wp.int64(seed[i])
    if not success:
        # The bits of a float that is not negative order like the float; NaN lands above every number.
        rank += FAILED + (wp.int64(wp.cast(wp.abs(cost[i, island]), wp.int32)) << SEED_BITS)
    rank_out[i, island] = rank
    wp.atomic_min(winner_rank_out, problem_idx[i], island, rank)


def rank_ended(slots: Slots, winners: Winners) -> None:
    """Rank the attempts that have just ended and keep the best rank of every problem and island."""
    wp.launch(
        _rank_ended,
        dim=slots.phase.shape,
        inputs=[slots.phase, slots.met, slots.cost, slots.seed, slots.problem_idx],
        outputs=[slots.rank, winners.rank],
        device=slots.phase.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _collect(
    # islands
    island_coordadr: wp.array2d[wp.int32],
    island_coord: wp.array2d[wp.int32],
    winner_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
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
    winner_joint_q_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    winner_cost_out: wp.array2d[float],  # [problem_capacity, trees]
    winner_seed_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    winner_iterations_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    winner_status_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    winner_met_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
):
    i, island = wp.tid()
    status = phase_out[i, island]
    if status == RUNNING or status == IDLE:
        return
    p = problem_idx[i]
    if status >= 0 and winner_rank[p, island] == rank[i, island]:
        for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
            c = island_coord[p, m]
            winner_joint_q_out[p, c] = joint_q[i, c]
        winner_cost_out[p, island] = cost[i, island]
        winner_seed_out[p, island] = seed[i]
        winner_iterations_out[p, island] = iterations[i, island]
        winner_status_out[p, island] = status
        winner_met_out[p, island] = met[i, island]
    phase_out[i, island] = IDLE


def collect(islands: Islands, slots: Slots, winners: Winners, joint_q: wp.array[Any]) -> None:
    """Keep the answers of ended attempts that are the best of their problem and island.

    Args:
        islands: Islands of every problem.
        slots: The slots; ended islands become idle.
        winners: The answers.
        joint_q: Accepted configurations, shape [n_batch, joint_coord_count].
    """
    wp.launch(
        _collect,
        dim=slots.phase.shape,
        inputs=[
            islands.island_coordadr,
            islands.island_coord,
            winners.rank,
            slots.problem_idx,
            slots.seed,
            slots.rank,
            slots.cost,
            slots.iterations,
            slots.met,
            joint_q,
        ],
        outputs=[
            slots.phase,
            winners.joint_q,
            winners.cost,
            winners.seed,
            winners.iterations,
            winners.status,
            winners.met,
        ],
        device=slots.phase.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _refill(
    # solve
    settings: wp.array[wp.int32],
    nisland: wp.array[wp.int32],  # [problem_capacity]
    winner_rank: wp.array2d[wp.int64],  # [problem_capacity, trees]
    start_joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    # out
    problem_idx_out: wp.array[wp.int32],  # [n_batch]
    seed_out: wp.array[wp.int32],  # [n_batch]
    phase_out: wp.array2d[wp.int32],  # [n_batch, trees]
    running_out: wp.array2d[wp.int32],  # [n_batch, trees]
    fresh_out: wp.array2d[wp.int32],  # [n_batch, trees]
    iterations_out: wp.array2d[wp.int32],  # [n_batch, trees]
    ended_out: wp.array2d[wp.int32],  # [n_batch, trees]
    boost_out: wp.array2d[float],  # [n_batch, trees]
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
    next_attempt_out: wp.array[wp.int32],  # [1]
    running_count_out: wp.array[wp.int32],  # [1]
):
    i = wp.tid()
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
                if winner_rank[p, island] > wp.int64(s):
                    phase_out[i, island] = RUNNING
                    running_out[i, island] = 1
                    fresh_out[i, island] = 1
                    iterations_out[i, island] = 0
                    ended_out[i, island] = RUNNING
                    boost_out[i, island] = 1.0
                    started = 1
            if started == 1:
                problem_idx_out[i] = p
                seed_out[i] = s
                for c in range(joint_q_out.shape[1]):
                    joint_q_out[i, c] = start_joint_q[p, c]
                searching = 0
    wp.atomic_add(running_count_out, 0, started)


def refill(
    solve: "tuple[wp.array[Any], wp.array[Any], wp.array[Any], wp.array[Any]]",
    slots: Slots,
    joint_q: wp.array[Any],
    counters: "tuple[wp.array[Any], wp.array[Any]]",
) -> None:
    """Hand the next attempts to the slots in which no island runs, at the start configurations of their problems.

    Args:
        solve: Integer settings, number of islands, winners' ranks and start configurations.
        slots: The slots.
        joint_q: Accepted configurations, shape [n_batch, joint_coord_count].
        counters: The next attempt to hand out, and (zeroed by the caller) the number of slots running afterwards.
    """
    wp.launch(
        _refill,
        dim=slots.phase.shape[0],
        inputs=[*solve],
        outputs=[
            slots.problem_idx,
            slots.seed,
            slots.phase,
            slots.running,
            slots.fresh,
            slots.iterations,
            slots.ended,
            slots.boost,
            joint_q,
            *counters,
        ],
        device=slots.phase.device,
    )

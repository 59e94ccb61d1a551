"""State of the slots of a batch and of the best attempts so far, and the codes that stand in it."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.solver.lm.status import IKStatus

# Phases of an island in a slot: RUNNING, the IKStatus (or STATIONARY) with which its attempt has just ended, or:
RUNNING = wp.constant(-1)
CANCELLED = wp.constant(-2)  # a lower seed of its problem has succeeded
IDLE = wp.constant(-3)  # it has no attempt

NEAR = wp.constant(wp.int64(1 << 16))  # added to the rank of an attempt that is within the tolerances, no more
FAILED = wp.constant(wp.int64(1 << 56))  # added to the rank of an attempt that failed
UNRANKED = wp.constant(wp.int64(1 << 60))  # above the rank of any attempt
SEED_BITS = wp.constant(wp.int64(16))  # room for the seed under the cost in the rank of a failure

CONVERGED = wp.constant(int(IKStatus.CONVERGED))
STALLED = wp.constant(int(IKStatus.STALLED))
MAX_ITERATIONS = wp.constant(int(IKStatus.MAX_ITERATIONS))
DEADLINE = wp.constant(int(IKStatus.DEADLINE))
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
KEEP_ALL = wp.constant(5)  # 1: every attempt has an answer of its own, at line problem * seeds + seed
SETTINGS_COUNT = 6


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
        next_seed: Seeds that the compiled engine has handed out, int32.
    """

    joint_q: wp.array[Any]
    rank: wp.array[Any]
    cost: wp.array[Any]
    seed: wp.array[Any]
    iterations: wp.array[Any]
    status: wp.array[Any]
    met: wp.array[Any]
    next_seed: wp.array[Any]

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

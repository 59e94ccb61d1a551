"""The slots of a batch: what each of them is working on."""

from dataclasses import dataclass
from typing import Any

import warp as wp


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
        damping_factor: Factor on the damping, raised by rejected steps, float32.
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
    damping_factor: wp.array[Any]
    damping: wp.array[Any]
    rank: wp.array[Any]

    @classmethod
    def allocate(cls, slot_count: int, tree_count: int, device: wp.Device) -> "Slots":
        """Return idle slots."""
        dtypes = {"cost": wp.float32, "damping_factor": wp.float32, "damping": wp.float32, "rank": wp.int64}
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

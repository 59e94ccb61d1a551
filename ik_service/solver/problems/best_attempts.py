"""The best attempt of every problem and island, on the device."""

from dataclasses import dataclass
from typing import Any

import warp as wp


@dataclass(frozen=True)
class BestAttempts:
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
    def allocate(
        cls, problem_capacity: int, joint_coord_count: int, tree_count: int, device: wp.Device
    ) -> "BestAttempts":
        """Return room for the answers of `problem_capacity` problems."""
        dtypes = {"rank": wp.int64, "cost": wp.float32}
        arrays = {
            name: wp.zeros((problem_capacity, tree_count), dtype=dtypes.get(name, wp.int32), device=device)
            for name in cls.__annotations__
            if name != "joint_q"
        }
        joint_q = wp.zeros((problem_capacity, joint_coord_count), dtype=wp.float32, device=device)
        return cls(joint_q=joint_q, **arrays)

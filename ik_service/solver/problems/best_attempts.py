"""The best attempt of every problem and island, on the device."""

from typing import Any

import warp as wp

from ik_service.linear_solve import zeroed


@wp.struct
class BestAttempts:
    """The best attempt of every problem and island so far."""

    joint_q: wp.array2d[wp.float32]  # [problem_capacity, joint_coord_count]: its configuration
    rank: wp.array2d[wp.int64]  # its rank; this and what follows: [problem_capacity, trees]
    cost: wp.array2d[wp.float32]  # 1/2 |r|^2
    seed: wp.array2d[wp.int32]  # its seed
    iterations: wp.array2d[wp.int32]  # its steps
    status: wp.array2d[wp.int32]  # its IKStatus or STATIONARY
    met: wp.array2d[wp.int32]  # whether it met its targets, as in `Slots`
    next_seed: wp.array2d[wp.int32]  # seeds that the compiled engine has handed out


def allocate_attempts(capacity: int, joint_coord_count: int, tree_count: int, device: wp.Device) -> Any:
    """Return `BestAttempts` with room for the answers of `capacity` problems."""
    return zeroed(BestAttempts, device, (capacity, tree_count), joint_q=(capacity, joint_coord_count))

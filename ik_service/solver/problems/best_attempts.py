"""The best attempt of every problem and island, and how far their searches are, on the device."""

import typing
from typing import Any

import warp as wp

from ik_service.linear_solve import zeroed
from ik_service.solver.lm.codes import SEEDS


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


@wp.struct
class Searches:
    """How far the compiled engine has come with the seeds of every problem and island, [problem_capacity, trees]."""

    next_seed: wp.array2d[wp.int32]  # seeds that have been handed out
    end_seed: wp.array2d[wp.int32]  # the first whose attempt cannot win
    counted: wp.array2d[wp.int32]  # costs of attempts without precise success, see `lm.search`


def allocate_attempts(capacity: int, joint_coord_count: int, tree_count: int, device: wp.Device) -> Any:
    """Return `BestAttempts` with room for the answers of `capacity` problems."""
    return zeroed(BestAttempts, device, (capacity, tree_count), joint_q=(capacity, joint_coord_count))


@wp.func
@typing.no_type_check
def begin_search(searches: Searches, settings: wp.array[wp.int32], p: int, island: int):
    """Put a search before its first seed."""
    searches.next_seed[p, island] = 0
    searches.end_seed[p, island] = settings[SEEDS]
    searches.counted[p, island] = 0


def allocate_searches(capacity: int, tree_count: int, device: wp.Device) -> Any:
    """Return `Searches` for `capacity` problems."""
    return zeroed(Searches, device, (capacity, tree_count))

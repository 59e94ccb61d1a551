"""The best attempt of every problem and island, and the progress of their searches, on the device."""

import typing
from typing import Any

import warp as wp

from ik_service.linear_solve import zeroed
from ik_service.solver.lm.codes import DEADLINE, NO_TARGET, SEEDS
from ik_service.solver.lm.ranking import IN_CONTACT, UNRANKED

NAN = wp.constant(float("nan"))


@wp.struct
class BestAttempts:
    """The best attempt of every problem and island so far."""

    joint_q: wp.array2d[wp.float32]  # [problem_capacity, joint_coord_count]: its configuration
    rank: wp.array2d[wp.int64]  # its rank; like the arrays below: [problem_capacity, trees]
    cost: wp.array2d[wp.float32]  # 1/2 |r|^2
    seed: wp.array2d[wp.int32]  # its seed
    iterations: wp.array2d[wp.int32]  # its steps
    status: wp.array2d[wp.int32]  # its IKStatus or STATIONARY
    met: wp.array2d[wp.int32]  # whether its targets are met, as in `Slots`


@wp.struct
class Searches:
    """Progress of the compiled engine in the seeds of every problem and island, [problem_capacity, trees]."""

    next_seed: wp.array2d[wp.int32]  # number of seeds handed out
    end_seed: wp.array2d[wp.int32]  # first seed that cannot win
    counted: wp.array2d[wp.int32]  # costs of attempts without precise success, see `lm.search`
    proof: wp.array2d[wp.int32]  # proof that the targets are out of reach, 0 for none


def allocate_attempts(capacity: int, joint_coord_count: int, tree_count: int, device: wp.Device) -> Any:
    """Return `BestAttempts` with room for the answers of `capacity` problems."""
    return zeroed(BestAttempts, device, (capacity, tree_count), joint_q=(capacity, joint_coord_count))


@wp.func
@typing.no_type_check
def begin_search(searches: Searches, settings: wp.array[wp.int32], p: int, island: int):
    """Set a search before its first seed."""
    searches.next_seed[p, island] = 0
    searches.end_seed[p, island] = settings[SEEDS]
    searches.counted[p, island] = 0


def allocate_searches(capacity: int, tree_count: int, device: wp.Device) -> Any:
    """Return `Searches` for `capacity` problems."""
    return zeroed(Searches, device, (capacity, tree_count))


@wp.func
@typing.no_type_check
def mark_deadline(best: BestAttempts, p: int, island: int):
    """Mark an unsolved island with status DEADLINE, after the deadline has ended its search."""
    rank = best.rank[p, island]
    is_minimum = best.met[p, island] == NO_TARGET and rank < UNRANKED
    if rank >= IN_CONTACT and not is_minimum:
        best.status[p, island] = DEADLINE
        if rank >= UNRANKED:  # the entry is of another solve
            best.met[p, island] = NO_TARGET
            best.seed[p, island] = 0
            best.iterations[p, island] = 0
            best.cost[p, island] = NAN

"""The slots of a batch: what each of them is working on."""

from typing import Any

import warp as wp

from ik_service.linear_solve import zeroed

STEPS_ASIDE = wp.constant(2)  # value of `fresh` where an attempt goes on from beside where it stands


@wp.struct
class Slots:
    """What each slot is doing."""

    problem_idx: wp.array[wp.int32]  # [n_batch]: its problem; of an idle slot, some valid problem
    seed: wp.array[wp.int32]  # [n_batch]: its seed
    stale: wp.array[wp.int32]  # [n_batch]: 1 where the poses of bodies are not those of its configuration
    # Of each island, [n_batch, trees]:
    phase: wp.array2d[wp.int32]  # RUNNING, CANCELLED, IDLE or the status with which its attempt has just ended
    running: wp.array2d[wp.int32]  # 1 while phase is RUNNING
    fresh: wp.array2d[wp.int32]  # 1 where the start configuration has yet to be written, or STEPS_ASIDE; else 0
    iterations: wp.array2d[wp.int32]  # steps tried in this attempt
    ended: wp.array2d[wp.int32]  # status that the last step ended the attempt with, or RUNNING
    # Once the attempt has ended: 1 where every target is met, 0 where one is missed, NO_TARGET without any.
    met: wp.array2d[wp.int32]
    cost: wp.array2d[wp.float32]  # 1/2 |r|^2 of the accepted configuration
    unscaled_cost: wp.array2d[wp.float32]  # the same without the factor of rows that yield
    stage: wp.array2d[wp.float32]  # what the factor of rows that yield is multiplied with: 1, then STAGE
    damping_factor: wp.array2d[wp.float32]  # factor on the damping, raised by rejected steps
    damping: wp.array2d[wp.float32]  # damping of the next step
    depth: wp.array2d[wp.float32]  # how deep it is in contact, or nearer to it than allowed [m]; 0 for not
    rank: wp.array2d[wp.int64]  # rank of the ended attempt among those of its problem and island


def idle_slots(slot_count: int, tree_count: int, device: wp.Device) -> Any:
    """Return idle `Slots`."""
    return zeroed(Slots, device, (slot_count, tree_count), problem_idx=slot_count, seed=slot_count, stale=slot_count)

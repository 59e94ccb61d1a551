"""Ranking of the attempts at a problem and island: the lowest seed that succeeds, else the attempt nearest to success.

Nearest to success is the least depth among attempts with targets met in contact, otherwise the least cost, or, on
request, the first seed.
"""

import typing

import warp as wp

IMPRECISE = wp.constant(wp.int64(1 << 16))  # added to the rank of an attempt barely within the tolerances
IN_CONTACT = wp.constant(wp.int64(1 << 55))  # added to the rank of an attempt with targets met in contact
FAILED = wp.constant(wp.int64(1 << 56))  # added to the rank of a failed attempt
UNRANKED = wp.constant(wp.int64(1 << 60))  # above the rank of any attempt
SEED_BITS = wp.constant(wp.int64(16))  # room for the seed under the cost in the rank of a failure
SEEDS_OF_RANKS = wp.constant(wp.int64((1 << 16) - 1))  # the bits of the seed in a rank


@wp.func
@typing.no_type_check
def attempt_rank(success: bool, precise: bool, seed: int, cost: float, first_failure: int):
    """Return the rank of an attempt among the attempts at its problem and island: the least one wins.

    An attempt within the tolerances but not precise (next to a boundary, or slow) ranks after later seeds.
    """
    rank = wp.int64(seed)
    if success and not precise:
        rank += IMPRECISE
    if not success:
        # The bits of floats >= 0 order like the floats; NaN lands above every number.
        rank += FAILED
        if first_failure == 0:
            rank += wp.int64(wp.cast(wp.abs(cost), wp.int32)) << SEED_BITS
    return rank


@wp.func
@typing.no_type_check
def contact_rank(seed: int, depth: float):
    """Return the rank of an attempt with targets met in contact; depth [m]: shortfall of its clearance."""
    return IN_CONTACT + (wp.int64(wp.cast(wp.abs(depth), wp.int32)) << SEED_BITS) + wp.int64(seed)


@wp.func
@typing.no_type_check
def value_rank(seed: int, value: float):
    """Return the rank of a success, least value first (value >= 0); among equal ones the first seed wins."""
    return (wp.int64(wp.cast(wp.abs(value), wp.int32)) << SEED_BITS) + wp.int64(seed)


@wp.func
@typing.no_type_check
def seed_of(rank: wp.int64):
    """Return the seed of a rank."""
    return wp.int32(rank & SEEDS_OF_RANKS)


@wp.func
@typing.no_type_check
def may_still_win(best_rank: wp.int64, seed: int):
    """Return whether an attempt not yet begun could become the best: no seed up to this one has succeeded."""
    return best_rank > wp.int64(seed)


@wp.func
@typing.no_type_check
def is_beaten(best_rank: wp.int64, seed: int):
    """Return whether a running attempt can no longer become the best: a lower seed has succeeded."""
    return best_rank < wp.int64(seed)

"""Ranking of the attempts at a problem and island: the lowest seed that succeeds, else the one nearest to success.

That is of attempts that meet their targets in contact the one of least depth, else the one of least cost, or, where a
solve asks for that, the one of the first seed.
"""

import typing

import warp as wp

IMPRECISE = wp.constant(wp.int64(1 << 16))  # added to the rank of an attempt that is within the tolerances, no more
IN_CONTACT = wp.constant(wp.int64(1 << 55))  # added to the rank of an attempt that meets its targets in contact
FAILED = wp.constant(wp.int64(1 << 56))  # added to the rank of an attempt that failed
UNRANKED = wp.constant(wp.int64(1 << 60))  # above the rank of any attempt
SEED_BITS = wp.constant(wp.int64(16))  # room for the seed under the cost in the rank of a failure
SEEDS_OF_RANKS = wp.constant(wp.int64((1 << 16) - 1))  # the bits of a rank that are its seed


@wp.func
@typing.no_type_check
def attempt_rank(success: bool, precise: bool, seed: int, cost: float, first_failure: int):
    """Return the rank of an attempt among those of its problem and island: the least one wins.

    An attempt that ends within the tolerances but not precisely (next to a boundary, or slow) yields to later seeds.
    """
    rank = wp.int64(seed)
    if success and not precise:
        rank += IMPRECISE
    if not success:
        # The bits of a float that is not negative order like the float; NaN lands above every number.
        rank += FAILED
        if first_failure == 0:
            rank += wp.int64(wp.cast(wp.abs(cost), wp.int32)) << SEED_BITS
    return rank


@wp.func
@typing.no_type_check
def contact_rank(seed: int, depth: float):
    """Return the rank of an attempt that meets its targets in contact, or nearer to it than allowed by a depth [m]."""
    return IN_CONTACT + (wp.int64(wp.cast(wp.abs(depth), wp.int32)) << SEED_BITS) + wp.int64(seed)


@wp.func
@typing.no_type_check
def value_rank(seed: int, value: float):
    """Return the rank of a success where the least value wins that is not negative; of equal ones the first seed."""
    return (wp.int64(wp.cast(wp.abs(value), wp.int32)) << SEED_BITS) + wp.int64(seed)


@wp.func
@typing.no_type_check
def seed_of(rank: wp.int64):
    """Return the seed of a rank."""
    return wp.int32(rank & SEEDS_OF_RANKS)


@wp.func
@typing.no_type_check
def may_still_win(best_rank: wp.int64, seed: int):
    """Return whether an attempt that has yet to begin could become the best: no seed up to it has succeeded."""
    return best_rank > wp.int64(seed)


@wp.func
@typing.no_type_check
def is_beaten(best_rank: wp.int64, seed: int):
    """Return whether a running attempt cannot become the best any more: a lower seed has succeeded."""
    return best_rank < wp.int64(seed)

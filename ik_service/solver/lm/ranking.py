"""Ranking of the attempts at a problem and island, nearness to their targets, and the end of the search over seeds.

The lowest seed that succeeds wins, else the attempt nearest to success: the least depth among attempts with targets met
in contact, otherwise the least cost, or, on request, the first seed. Nearness to targets is of float32 residuals;
success is judged later, in float64. Seeds are tried one after another until one succeeds, or the least cost has come up
often enough.

If no attempt succeeds, for example with targets out of reach or objectives alone, and the caller has not set the number
of seeds, the search ends when EQUAL_MINIMA attempts have ended at the least cost, EQUAL_MINIMA_OF_MANY if an island has
several targets. The test runs between rounds of seeds, when all attempts of the seeds before have ended: so the result
depends neither on the order of their ends nor on other problems. Costs are counted by their exponents and first bits,
in the class of the least cost and the next one: a window of 2 to 6 %, because attempts end a little above their
minimum. The count of a set of costs does not depend on their order.

An attempt counts in full at a stationary point inside the joint limits. An attempt stalled short of a minimum counts
1/8. An attempt blocked by limits counts 0: many starts slide into one wide minimum there while others meet the target.

If targets are met, but only in contact, the search ends after 256 seeds or a quarter of the allowed ones: of 85 000
problems in random worlds and 2 100 goals of MotionBenchMaker with a free answer none needed more than 131.
"""

import typing

import warp as wp

from ik_service.solver.lm.codes import BLOCKED_BY_LIMITS, STATIONARY

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


MARGIN = wp.constant(0.999)  # errors above this share of a tolerance count as missed, for the rounding of the verdict
# Precision of float32 at convergence: an attempt not as near ranks after later seeds.
PRECISE_POSITION = wp.constant(1.0e-5)  # units of length
PRECISE_ORIENTATION = wp.constant(1.0e-4)  # [rad]
SMALL_CHORD = wp.constant(4.0e-4)  # below, chord and angle are equal in float32


@wp.func
@typing.no_type_check
def chord_angle(chord: float):
    """Return the angle of a rotation [rad] from the length of its residual, 2 sin(angle / 2)."""
    if chord < SMALL_CHORD:
        return chord
    return 2.0 * wp.asin(wp.min(0.5 * chord, 1.0))


@wp.func
@typing.no_type_check
def is_within(error: float, tolerance: float):
    """Return whether an error is within its tolerance, with a margin for the rounding of float32."""
    return error <= MARGIN * tolerance


EQUAL_MINIMA = 12  # with fewer, more reachable targets are given up
EQUAL_MINIMA_OF_MANY = 16  # several links with common joints have more minima
FEW_SEEDS = wp.constant(64)  # at most, in search of a more precise answer or a lower cost
FIRST_ROUND = wp.constant(8)  # seeds
ROUND_STEP = wp.constant(4)  # least number of seeds of a later round
ROUND_SHARE = wp.constant(8)  # a round has at least this part of the seeds before
CLASS_SHIFT = wp.constant(18)  # low bits of a float32 left out of its class: all but 5 of the fraction
COUNT_MAX = wp.constant(255)  # room for a count, in eighths of an attempt
FULL_COUNT = wp.constant(8)
CONTACT_SEEDS = wp.constant(256)  # least number of seeds if targets are met only in contact
CONTACT_SHARE = wp.constant(4)  # and this part of the allowed seeds


@wp.func
@typing.no_type_check
def is_round_end(seeds: int):
    """Return whether a round ends after the first `seeds` seeds."""
    step = int(ROUND_STEP)
    while step * ROUND_SHARE <= seeds:
        step *= 2
    return seeds >= FIRST_ROUND and seeds % step == 0


@wp.func
@typing.no_type_check
def attempt_count(status: int, met: int):
    """Return the count of an attempt without precise success [eighths].

    Args:
        status: Status of the attempt.
        met: Whether the targets are met; NO_TARGET without targets.
    """
    if met != 0 or status == STATIONARY:
        return int(FULL_COUNT)
    return wp.where(status == BLOCKED_BY_LIMITS, 0, 1)


@wp.func
@typing.no_type_check
def count_cost(counted: int, cost: float, count: int):
    """Return the packed count of an island's costs, with the cost of one more attempt.

    Args:
        counted: Packed count before, 0 for none: the class of the least cost, and the counts of attempts in this class
            and the next one.
        cost: Cost of an attempt without precise success.
        count: Count of this attempt, from `attempt_count`.
    """
    # The bits of floats >= 0 order like the floats; NaN lands above every number.
    cost_class = wp.cast(wp.abs(cost), wp.int32) >> CLASS_SHIFT
    least = counted >> 16
    in_least = (counted >> 8) & COUNT_MAX
    in_next = counted & COUNT_MAX
    if counted == 0 or cost_class < least - 1:
        least = cost_class
        in_least = count
        in_next = int(0)
    elif cost_class == least - 1:
        least = cost_class
        in_next = in_least
        in_least = count
    elif cost_class == least:
        in_least = wp.min(in_least + count, COUNT_MAX)
    elif cost_class == least + 1:
        in_next = wp.min(in_next + count, COUNT_MAX)
    return (least << 16) | (in_least << 8) | in_next


@wp.func
@typing.no_type_check
def search_ends(counted: int, equal_minima: int, is_good: bool, seeds: int):
    """Return whether a search without precise success ends after a round.

    Args:
        counted: Costs of all attempts so far, from `count_cost`.
        equal_minima: Sufficient number of attempts at the least cost.
        is_good: Whether an attempt is within the tolerances, or there are no targets.
        seeds: Seeds tried so far.
    """
    equal = ((counted >> 8) & COUNT_MAX) + (counted & COUNT_MAX)
    return equal >= equal_minima * FULL_COUNT or (is_good and seeds >= FEW_SEEDS)


@wp.func
@typing.no_type_check
def contact_search_ends(seeds: int, most: int):
    """Return whether a search with targets met only in contact ends after a round.

    Args:
        seeds: Seeds tried so far.
        most: Allowed number of seeds.
    """
    return seeds >= CONTACT_SEEDS and seeds * CONTACT_SHARE >= most

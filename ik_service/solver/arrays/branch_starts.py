"""Branches of an arm as the first starts of a search, in the place of drawn seeds.

`Searches.branches` has an int32 for each problem and island, 0 for none:

    bits 0 to 3   number of kept branches
    bits 4 to 7   number of kept branches within the limits; they come first, others are just beyond the limits
    bit 8         without tolerances each branch within the limits has one solution, at most `branch_radius` from its
                  start, and there is no other
    bit 9         the search ends at its `end_seed`, unless an attempt comes close to the target
    bit 10        an attempt has come close
    bits 16 ...   seed of the first branch; the next seeds have the others

Bits 3 k to 3 k + 2 of `branch_numbers` are the number of branch k in the class, see `closed_form.branches`.
"""

import typing

import warp as wp

from ik_service.solver.arrays.problem_arrays import Searches
from ik_service.solver.lm.codes import SEEDS, TRIES_ALL
from ik_service.solver.lm.ranking import FAILED

BRANCHES_MAX = wp.constant(8)
COUNT_BITS, WITHIN_AT, ISOLATED_BIT, FIRST_AT, NUMBER_BITS = (wp.constant(k) for k in (15, 4, 256, 16, 3))
WIDE_RADIUS = wp.constant(0.3)  # radius of a branch whose centre says little about its solution [rad]
LIMITED_BIT, CLOSE_BIT = wp.constant(512), wp.constant(1024)
CLOSE = wp.constant(2.0)  # errors of an attempt that comes close to the target, in tolerances
CLOSE_SEEDS = 128  # seeds of a limited search with a close attempt


@wp.func
@typing.no_type_check
def branch_of_seed(searches: Searches, p: int, island: int, s: int):
    """Return the index of the branch from which a seed starts; -1 for none."""
    state = searches.branches[p, island]
    branch = s - (state >> FIRST_AT)
    return wp.where(branch < (state & COUNT_BITS), wp.max(branch, -1), -1)


@wp.func
@typing.no_type_check
def starts_in_rows(searches: Searches, p: int, island: int):
    """Return the number of attempts that start from the configurations in their lines."""
    return searches.row_starts[p, island]


@wp.func
@typing.no_type_check
def sole_branches(searches: Searches, p: int, island: int):
    """Return the number of branches within the limits if these have all solutions, one each; otherwise 0."""
    state = searches.branches[p, island]
    return wp.where((state & ISOLATED_BIT) != 0, (state >> WITHIN_AT) & COUNT_BITS, 0)


@wp.func
@typing.no_type_check
def first_branch(searches: Searches, p: int, island: int):
    """Return the seed of the first branch."""
    return searches.branches[p, island] >> FIRST_AT


@wp.func
@typing.no_type_check
def seeds_of_branches(searches: Searches, p: int, island: int):
    """Return the number of seeds up to the last branch."""
    state = searches.branches[p, island]
    return (state & COUNT_BITS) + (state >> FIRST_AT)


@wp.func
@typing.no_type_check
def limit_search(searches: Searches, settings: wp.array[wp.int32], p: int, island: int, seeds: int):
    """End a search after a number of seeds, unless an attempt comes close or the caller has set the number."""
    if settings[TRIES_ALL] == 1:
        seeds = settings[SEEDS]
    else:
        searches.branches[p, island] = searches.branches[p, island] | LIMITED_BIT
    searches.end_seed[p, island] = wp.min(searches.end_seed[p, island], wp.min(seeds, settings[SEEDS]))


@wp.func
@typing.no_type_check
def is_limited(searches: Searches, p: int, island: int):
    """Return whether a search ends early."""
    return (searches.branches[p, island] & LIMITED_BIT) != 0


@wp.func
@typing.no_type_check
def note_close(searches: Searches, p: int, island: int):
    """Note that an attempt has come close to the target."""
    searches.branches[p, island] = searches.branches[p, island] | CLOSE_BIT


@wp.func
@typing.no_type_check
def extend_search(searches: Searches, settings: wp.array[wp.int32], p: int, island: int, rank: wp.int64):
    """Give a limited search more seeds, after all its attempts have ended, if one has come close; return whether."""
    state = searches.branches[p, island]
    if (state & LIMITED_BIT) == 0 or (state & CLOSE_BIT) == 0 or rank < FAILED:
        return False
    searches.branches[p, island] = state & ~int(LIMITED_BIT)
    searches.end_seed[p, island] = wp.min(CLOSE_SEEDS, settings[SEEDS])
    return searches.next_seed[p, island] < searches.end_seed[p, island]


@wp.func
@typing.no_type_check
def set_branches(searches: Searches, p: int, island: int, first: int, count: int):
    """Set a number of branches as the starts of the seeds from `first` on."""
    searches.branches[p, island] = count | (first << FIRST_AT)


@wp.func
@typing.no_type_check
def branch_code(searches: Searches, p: int, island: int, branch: int):
    """Return the code of a branch, 4 shoulder + 2 elbow + wrist; -1 for no branch, or of arms with seven joints."""
    numbers = searches.branch_numbers[p, island]
    return wp.where(branch < 0, -1, (numbers >> (NUMBER_BITS * wp.max(branch, 0))) & (BRANCHES_MAX - 1))

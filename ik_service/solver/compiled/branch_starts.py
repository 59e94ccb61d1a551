"""Branches of an arm as the first starts of a search, in the place of drawn seeds.

`Searches.branches` has an int32 for each problem and island, 0 for none:

    bits 0 to 3   number of kept branches
    bits 4 to 7   number of kept branches within the limits; they come first, others are just beyond the limits
    bit 8         without tolerances each branch within the limits has one solution, and there is no other

Branch k is the start of seed k, or k + 1 after a start of the caller. Bits 3 k to 3 k + 2 of `branch_numbers` are its
number in the class, see `closed_form.branches`.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.problem_arrays import Searches
from ik_service.solver.lm.codes import HAS_START
from ik_service.solver.lm.ranking import FAILED, IMPRECISE, IN_CONTACT

BRANCHES_MAX = wp.constant(8)
COUNT_BITS, WITHIN_AT, ISOLATED_BIT, NUMBER_BITS = (wp.constant(k) for k in (15, 4, 256, 3))
NEAR = wp.constant(0.1)  # a branch refused by no more is a start as well [m or rad]
BEHIND = wp.constant(1.0e3)  # added to the order of a refused branch
ISOLATED = wp.constant(0.05)  # largest radius of a branch with a single solution [rad]
WIDE = wp.constant(0.3)  # radius of a branch whose centre says little about its solution [rad]


@wp.func
@typing.no_type_check
def branch_of_seed(searches: Searches, settings: wp.array[wp.int32], p: int, island: int, s: int):
    """Return the number of the branch from which a seed starts; -1 for none."""
    found = s - settings[HAS_START]
    return wp.where(found < (searches.branches[p, island] & COUNT_BITS), wp.max(found, -1), -1)


@wp.func
@typing.no_type_check
def has_all_branches(searches: Searches, p: int, island: int):
    """Return whether the branches are known to be all solutions, unless an attempt from one failed."""
    return (searches.branches[p, island] & ISOLATED_BIT) != 0


@wp.func
@typing.no_type_check
def note_branch(searches: Searches, settings: wp.array[wp.int32], p: int, island: int, s: int, rank: wp.int64):
    """Note that the solution of a branch is not found where its attempt, seed s, did not meet the target precisely."""
    is_met = rank < IMPRECISE or (rank >= IN_CONTACT and rank < FAILED)
    branch = branch_of_seed(searches, settings, p, island, s)
    if not is_met and branch >= 0 and branch < ((searches.branches[p, island] >> WITHIN_AT) & COUNT_BITS):
        searches.branches[p, island] = searches.branches[p, island] & ~int(ISOLATED_BIT)


@wp.func
@typing.no_type_check
def seeds_of_branches(searches: Searches, settings: wp.array[wp.int32], p: int, island: int):
    """Return the number of seeds up to the last branch."""
    return (searches.branches[p, island] & COUNT_BITS) + settings[HAS_START]


@typing.no_type_check
def number_at(Numbers: Any) -> Any:
    """Return the function (numbers, place) -> number; an index on a reference would first copy all numbers."""
    NumbersRef: Any = reference_to(Numbers)

    @wp.func_native("return numbers.c[place];")
    def at(numbers: NumbersRef, place: int) -> Numbers._wp_scalar_type_: ...

    return at


@typing.no_type_check
def branch_functions(source: ProofSource, Found: Any) -> tuple[Any, Any]:
    """Return functions of the branches found for a lane: to keep them as starts, and whether one is wide.

    keep: (found, lane, searches, settings, problem, island, places, columns, starts, most). Keeps up to `most` branches
    within the limits, then just beyond them. Places are those of the arm's joints among the DOFs of the island, columns
    those in `joint_q`.
    """
    FoundRef: Any = reference_to(Found)
    W, OUTPUTS, JOINTS = source.lanes.width, source.outputs, len(source.arm.arm.dofs)
    Keys: Any = wp.types.vector(BRANCHES_MAX, wp.float32)
    Numbers: Any = wp.types.vector(BRANCHES_MAX, int)
    BRANCHES = source.branches
    IS_EXACT, at = source.is_exact, number_at(Found)

    @wp.func
    def distance_from_start(
        found: FoundRef,
        lane: int,
        b: int,
        starts: wp.array2d[wp.float32],
        p: int,
        columns: wp.array[wp.int32],
    ):
        """Return the largest change of a joint from the start, modulo turns [rad]."""
        largest = float(0.0)
        j = int(0)
        while j < JOINTS:
            gap = at(found, (b * OUTPUTS + 3 + j) * W + lane) - starts[p, columns[j]]
            largest = wp.max(largest, wp.abs(gap - 2.0 * wp.PI * wp.round(gap / (2.0 * wp.PI))))
            j += 1
        return largest

    @wp.func
    def keep(
        found: FoundRef,
        lane: int,
        searches: Searches,
        settings: wp.array[wp.int32],
        p: int,
        island: int,
        places: wp.array[wp.int32],
        columns: wp.array[wp.int32],
        starts: wp.array2d[wp.float32],
        most: int,
    ):
        keys = Keys()
        numbers = Numbers()
        count = int(0)
        within = int(0)
        isolated = int(wp.static(int(IS_EXACT)))
        b = int(0)
        while b < BRANCHES:
            refused = at(found, b * OUTPUTS * W + lane)
            radius = at(found, (b * OUTPUTS + 1) * W + lane)
            key = float(0.0)
            if settings[HAS_START] == 1:
                key = distance_from_start(found, lane, b, starts, p, columns)
            else:
                key = -at(found, (b * OUTPUTS + 2) * W + lane)
            if refused > 0.0:
                key = BEHIND + refused
            else:
                within += 1
                if not (radius <= ISOLATED):
                    isolated = int(0)
            is_last = count == most and not (key < keys[most - 1])
            if not (refused > NEAR) and wp.isfinite(key + radius) and not is_last:
                k = wp.min(count, most - 1)
                count = k + 1
                while k > 0 and keys[wp.max(k - 1, 0)] > key:
                    keys[k] = keys[k - 1]
                    numbers[k] = numbers[k - 1]
                    k -= 1
                keys[k] = key
                numbers[k] = b
            b += 1
        searches.branches[p, island] = count | (wp.min(within, count) << WITHIN_AT) | (isolated * ISOLATED_BIT)
        of_kept = int(0)
        k = int(0)
        while k < count:
            of_kept = of_kept | (numbers[k] << (NUMBER_BITS * k))
            j = int(0)
            while j < JOINTS:
                angle = at(found, (numbers[k] * OUTPUTS + 3 + j) * W + lane)
                searches.branch_joint_q[p, island, k * JOINTS + places[j]] = angle
                j += 1
            k += 1
        searches.branch_numbers[p, island] = of_kept

    @wp.func
    def is_wide(found: FoundRef, lane: int):
        """Return whether the centre of a branch that is not refused says little about the solution."""
        wide = bool(False)
        b = int(0)
        while b < BRANCHES:
            refused = at(found, b * OUTPUTS * W + lane) > 0.0
            wide = wide or not (refused or at(found, (b * OUTPUTS + 1) * W + lane) <= WIDE)
            b += 1
        return wide

    return keep, is_wide

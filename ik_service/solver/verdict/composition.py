"""Success and status of islands by the verified errors, and of problems by their islands."""

import typing

import warp as wp

from ik_service.solver.arrays.branch_starts import branch_of_seed, starts_in_rows
from ik_service.solver.arrays.parts import SOLVE_IO, first_problem
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches
from ik_service.solver.lm.codes import (
    BLOCKED_BY_COLLISION,
    BLOCKED_BY_LIMITS,
    CONVERGED,
    DEADLINE,
    HAS_START,
    INVALID,
    LOOP_OPEN,
    NO_TARGET,
    PROOF_BY_CONTACT,
    STALLED,
    STATIONARY,
    UNREACHABLE,
)
from ik_service.solver.lm.ranking import UNRANKED
from ik_service.solver.lm.termination import is_minimum

# Marks of the rows of an island, or of no island, by their tolerances
MISSED = wp.constant(1)  # a row is outside its tolerance
OPEN = wp.constant(2)  # a row of a loop is outside its tolerance


@wp.func
@typing.no_type_check
def misses(error: wp.float64, tolerance: wp.float64):
    """Return whether an error is above its tolerance; NaN is unconstrained."""
    return error > tolerance


@wp.func
@typing.no_type_check
def succeeds_but_for_targets(status: int, met: int, has_targets: bool):
    """Return whether the best attempt of an island succeeds, except for missed targets.

    Without targets an attempt at a minimum succeeds; while seeds compete such an attempt does not, see
    `staged.attempts`.
    """
    if met == NO_TARGET:
        return is_minimum(status, has_targets)
    return status != INVALID


@wp.func
@typing.no_type_check
def final_status(status: int, met: int, success: bool, proof: int):
    """Return the status of an island by the verified success; a minimum at limits keeps its own status."""
    if success and met == NO_TARGET and status == BLOCKED_BY_LIMITS:
        return BLOCKED_BY_LIMITS
    if success:
        return CONVERGED
    if proof > 0 and status != INVALID and status != DEADLINE:
        return wp.where(proof == PROOF_BY_CONTACT, BLOCKED_BY_COLLISION, UNREACHABLE)
    if status == STATIONARY or status == CONVERGED:
        return STALLED  # no gain left, but not met
    return status


@wp.func
@typing.no_type_check
def reported_seed(settings: wp.array[wp.int32], best: BestAttempts, searches: Searches, p: int, island: int):
    """Return the seed of an answer; -1 for a branch in closed form."""
    seed = best.seed[p, island]
    in_row = seed >= settings[HAS_START] and seed < starts_in_rows(searches, p, island)
    if best.rank[p, island] < UNRANKED and (in_row or branch_of_seed(searches, p, island, seed) >= 0):
        seed = -1
    return seed


@wp.func
@typing.no_type_check
def status_with_loops(status: int, missed: int):
    """Return a status; LOOP_OPEN if a row of a loop is outside its tolerance and numbers are finite."""
    if missed == OPEN and status != INVALID:
        return LOOP_OPEN
    return status


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def compose_islands(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # judgement
    tolerances: wp.array[wp.float64],  # [2]
    target_row: wp.array[wp.int32],  # [targets]
    position_error: wp.array2d[wp.float64],  # [problem_capacity, targets]
    orientation_error: wp.array2d[wp.float64],  # [problem_capacity, targets]
    row_missed: wp.array2d[wp.int32],  # [1 or problem_capacity, trees + 1]: 0, MISSED or OPEN; last: of no island
    # islands
    nisland: wp.array[wp.int32],  # [1 or problems]
    row_island: wp.array2d[wp.int32],  # [1 or problems, rows]
    best: BestAttempts,
    searches: Searches,
    # out
    island_success_out: wp.array2d[wp.bool],  # [problem_capacity, trees]
    island_status_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    island_seed_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    island_iterations_out: wp.array2d[wp.int32],  # [problem_capacity, trees]
    island_cost_out: wp.array2d[float],  # [problem_capacity, trees]
    success_out: wp.array[wp.bool],  # [problem_capacity]; also the arrays below
    status_out: wp.array[wp.int8],
    cost_out: wp.array[float],
    iterations_out: wp.array[wp.int32],
    seed_out: wp.array[wp.int32],
    proof_out: wp.array[wp.int32],
):
    """Write success and status of a problem and its islands, and the sums of cost and iterations."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    line = wp.min(p, nisland.shape[0] - 1)
    count = nisland[line]
    has_targets = target_row.shape[0] > 0
    island = int(0)
    while island < count:
        status = best.status[p, island]
        island_success_out[p, island] = succeeds_but_for_targets(status, best.met[p, island], has_targets)
        island += 1
    all_met = bool(True)
    k = int(0)
    while k < target_row.shape[0]:
        missed = misses(position_error[p, k], tolerances[0]) or misses(orientation_error[p, k], tolerances[1])
        if missed:
            all_met = False
            for m in range(6):
                island = row_island[line, target_row[k] + m]
                if island >= 0:
                    if best.met[p, island] != NO_TARGET:
                        island_success_out[p, island] = False
        k += 1
    judged = wp.min(p, row_missed.shape[0] - 1)
    island = int(0)
    while island < count:
        if row_missed[judged, island] != 0:
            island_success_out[p, island] = False
        island += 1
    worst = int(row_missed[judged, row_missed.shape[1] - 1])
    if worst != 0:
        all_met = False
    result = int(STALLED)  # of a problem without a failed island, but with a missed target or row
    untroubled = bool(True)
    blocked = bool(False)  # a minimum at limits
    cost = float(0.0)
    iterations = int(0)
    seed = int(0)
    proven = int(0)
    island = int(0)
    while island < count:
        proof = searches.proof[p, island]
        status = final_status(best.status[p, island], best.met[p, island], island_success_out[p, island], proof)
        status = status_with_loops(status, row_missed[judged, island])
        worst = wp.max(worst, row_missed[judged, island])
        island_status_out[p, island] = status
        blocked = blocked or status == BLOCKED_BY_LIMITS
        if not island_success_out[p, island] and untroubled:
            untroubled = False
            result = status
        proven = wp.max(proven, proof)
        chosen = reported_seed(settings, best, searches, p, island)
        island_seed_out[p, island] = chosen
        island_iterations_out[p, island] = best.iterations[p, island]
        island_cost_out[p, island] = best.cost[p, island]
        cost += best.cost[p, island]
        iterations = wp.max(iterations, best.iterations[p, island])
        if island == 0:
            seed = chosen
        elif seed != chosen:
            seed = -1
        island += 1
    success = untroubled and all_met
    if success:
        result = CONVERGED
        if blocked:
            result = BLOCKED_BY_LIMITS
    result = status_with_loops(result, worst)
    success_out[p] = success
    status_out[p] = wp.int8(result)
    cost_out[p] = cost
    iterations_out[p] = iterations
    seed_out[p] = seed
    proof_out[p] = proven

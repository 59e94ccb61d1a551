"""Kernels for the choice among all attempts of a problem, and for its solutions, see `solutions`."""

import typing

import warp as wp

from ik_service.solver.arrays.branch_starts import branch_code, branch_of_seed, first_branch, sole_branches
from ik_service.solver.arrays.limit_arrays import Turns, turn_towards_start
from ik_service.solver.arrays.parts import SOLVE_EXTRAS, first_problem
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches
from ik_service.solver.compiled.solution_ranking import (
    NO_SEED,
    TAKEN,
    AttemptArrays,
    attempt_value,
    has_all_branches,
    has_all_solutions,
    is_distinct,
    note_solutions,
    value_left,
)
from ik_service.solver.lm.codes import HAS_START, SEEDS
from ik_service.solver.lm.ranking import IMPRECISE, IN_CONTACT, UNRANKED, seed_of, value_rank

SEEDS_WITHOUT_NEW = wp.constant(64)  # in a row without a new solution end a search


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def begin_choice(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts, in and out
    attempts: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
):
    """Clear the choice of each island."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    for island in range(nisland[wp.min(p, nisland.shape[0] - 1)]):
        attempts.least[p, island] = UNRANKED
        for k in range(attempts.choice.shape[2]):
            attempts.choice[p, island, k] = UNRANKED


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def turn_attempts(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts, in and out
    lanes: int,  # threads of a problem
    turns: Turns,
    attempts: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
):
    """Move each attempt to the turns nearest the start; find the least rank."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid() / lanes, 0)
    line = wp.min(p, nisland.shape[0] - 1)
    for s in range(wp.tid() % lanes, attempts.made[p], lanes):
        row = p * settings[SEEDS] + s
        turn_towards_start(turns, settings, attempts.start_joint_q, p, attempts.answers.joint_q, row)
        for island in range(nisland[line]):
            wp.atomic_min(attempts.least, p, island, attempts.answers.rank[row, island])


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def choose_next(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts, in and out
    lanes: int,  # threads of a problem
    attempts: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    # order
    first: int,  # number of the first solution to choose, from 0
    end: int,  # and of the first one after the last; a single one where a problem has several threads
    order: wp.array[wp.int32],  # [2]: order, number of solutions
    difference: wp.array[float],  # [1]
):
    """Choose the best attempts that are distinct from all chosen before."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid() / lanes, 0)
    line = wp.min(p, nisland.shape[0] - 1)
    for island in range(nisland[line]):
        last = wp.int64(0)
        if first > 0:
            last = attempts.choice[p, island, first - 1]
        number = int(first)
        while number < end and last < UNRANKED:
            best = int(NO_SEED)
            least = float(TAKEN)
            for s in range(wp.tid() % lanes, attempts.made[p], lanes):
                row = p * settings[SEEDS] + s
                value = float(0.0)
                if number == 0:
                    value = attempt_value(attempts, p, row, line, island, order[0])
                else:
                    chosen = p * settings[SEEDS] + seed_of(last)
                    value = value_left(attempts, row, line, island, chosen, difference[0])
                attempts.value[row, island] = value
                if value < least:
                    best = s
                    least = value
            if best != NO_SEED:
                wp.atomic_min(attempts.choice, p, island, number, value_rank(best, least))
            last = attempts.choice[p, island, number]
            number += 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def end_choice(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts
    attempts: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    difference: wp.array[float],  # [1]
    searches: Searches,
    # out
    found_out: wp.array2d[wp.int32],  # [problems, trees]: solutions of each island
    solution_count_out: wp.array[wp.int32],  # [problems]
    branch_out: wp.array2d[wp.int32],  # [problems, solutions]: branch code of a solution, -1 for none
    complete_out: wp.array[wp.int32],  # [problems]: 1 if there are no other solutions
):
    """Write number, branches and completeness of the chosen solutions."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    most = int(0)
    islands = nisland[wp.min(p, nisland.shape[0] - 1)]
    for island in range(islands):
        attempts.chosen[p, island, 0] = seed_of(attempts.least[p, island])
        count = int(0)
        for k in range(attempts.choice.shape[2]):
            if attempts.choice[p, island, k] < UNRANKED:
                attempts.chosen[p, island, k] = seed_of(attempts.choice[p, island, k])
                count += 1
        found_out[p, island] = count
        most = wp.max(most, count)
    solution_count_out[p] = most
    complete_out[p] = 0
    for k in range(attempts.choice.shape[2]):
        branch_out[p, k] = -1
        if islands == 1 and k < most:
            branch_out[p, k] = branch_code(searches, p, 0, branch_of_seed(searches, p, 0, attempts.chosen[p, 0, k]))
    if islands == 1:
        fits = most < attempts.choice.shape[2] or sole_branches(searches, p, 0) <= most
        has_all = has_all_solutions(attempts, searches, p, settings[SEEDS], most, difference[0])
        if searches.proof[p, 0] > 0 or (fits and has_all):
            complete_out[p] = 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def choose_branches(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts from the branches of one arm, and from the start if one is given
    turns: Turns,
    attempts: AttemptArrays,
    difference: wp.array[float],  # [1]
    searches: Searches,
    # out, as of `end_choice`
    found_out: wp.array2d[wp.int32],
    solution_count_out: wp.array[wp.int32],
    branch_out: wp.array2d[wp.int32],
    complete_out: wp.array[wp.int32],
    unfinished_out: wp.array[wp.int32],  # [problems]: 1 if further seeds may lead to further solutions
):
    """Choose the distinct solutions if each branch led to one or is blocked; else mark the problem unfinished."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    row = wp.max(p * settings[SEEDS], 0)
    line = wp.min(p, attempts.tree_island.shape[0] - 1)
    count = int(0)
    s = int(0)
    while s < attempts.made[p]:
        turn_towards_start(turns, settings, attempts.start_joint_q, p, attempts.answers.joint_q, row + s)
        s += 1
    in_rows = searches.row_starts[p, 0] > 0
    finished = in_rows or has_all_branches(attempts, searches, p, 0, settings[SEEDS])
    s = int(0)
    while s < attempts.made[p] and finished:
        rank = attempts.answers.rank[row + s, 0]
        if rank < IMPRECISE:
            if count < branch_out.shape[1]:
                if is_distinct(attempts, p, line, 0, settings[SEEDS], s, count, difference[0]):
                    attempts.chosen[p, 0, count] = s
                    count += 1
        elif rank < IN_CONTACT and not in_rows:
            finished = bool(False)  # an imprecise success: not ranked by the seed alone
        s += 1
    proven = searches.proof[p, 0] > 0
    finished = finished and count > 0
    if not finished:
        count = 0
        attempts.chosen[p, 0, 0] = 0
    fits = count < branch_out.shape[1] or sole_branches(searches, p, 0) <= count
    all_found = finished and fits and has_all_solutions(attempts, searches, p, settings[SEEDS], count, difference[0])
    found_out[p, 0] = count
    solution_count_out[p] = count
    complete_out[p] = wp.where(proven or all_found, 1, 0)
    unfinished_out[p] = wp.where(proven or finished, 0, 1)
    k = int(0)
    while k < branch_out.shape[1]:
        branch_out[p, k] = -1
        if k < count:
            branch_out[p, k] = branch_code(searches, p, 0, branch_of_seed(searches, p, 0, attempts.chosen[p, 0, k]))
        k += 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def take_solution(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # solutions
    number: wp.array[wp.int32],  # [problems]: solution to take; the last of an island with fewer
    attempts: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    found: wp.array2d[wp.int32],  # [problems, trees]
    best_out: BestAttempts,
):
    """Make one solution of each problem its best attempt."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    line = wp.min(p, nisland.shape[0] - 1)
    for island in range(nisland[line]):
        seed = attempts.chosen[p, island, wp.max(wp.min(number[p], found[p, island] - 1), 0)]
        row = wp.max(p * settings[SEEDS] + seed, 0)
        best_out.rank[p, island] = attempts.answers.rank[row, island]
        best_out.cost[p, island] = attempts.answers.cost[row, island]
        best_out.seed[p, island] = seed
        best_out.iterations[p, island] = attempts.answers.iterations[row, island]
        best_out.status[p, island] = attempts.answers.status[row, island]
        best_out.met[p, island] = attempts.answers.met[row, island]
    for c in range(attempts.kind.shape[0]):
        island = int(-1)
        if attempts.coordinate_tree[c] >= 0:
            island = attempts.tree_island[line, attempts.coordinate_tree[c]]
        q = attempts.start_joint_q[p, c]
        if island >= 0:
            q = attempts.answers.joint_q[wp.max(p * settings[SEEDS] + best_out.seed[p, island], 0), c]
        best_out.joint_q[p, c] = q


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def keep_verified(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # solutions
    number: wp.array[wp.int32],  # [problems]: verified solution; from 0, one after the other
    solution_count: wp.array[wp.int32],  # [problems]
    branch: wp.array2d[wp.int32],  # [problems, solutions]
    # its verdict
    success: wp.array[wp.bool],  # [problems]
    joint_q: wp.array2d[float],  # [problems, joint_coord_count]
    # in and out
    kept: wp.array[wp.int32],  # [problems]: number of solutions with success
    answer: wp.array[wp.int32],  # [problems]: the first of them
    kept_branch: wp.array2d[wp.int32],  # [problems, solutions]
    kept_joint_q: wp.array3d[float],  # [problems, solutions, joint_coord_count]
):
    """Keep the configurations that pass the verdict, in order."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    k = number[p]
    if k == 0:
        kept[p] = 0
        answer[p] = 0
        for m in range(kept_branch.shape[1]):
            kept_branch[p, m] = -1
            for c in range(joint_q.shape[1]):
                kept_joint_q[p, m, c] = wp.nan
    if success[p] and k < wp.max(solution_count[p], 1):  # without a joint to move there is still one answer
        place = kept[p]
        if place == 0:
            answer[p] = k
        kept_branch[p, place] = branch[p, k]
        for c in range(joint_q.shape[1]):
            kept_joint_q[p, place, c] = joint_q[p, c]
        kept[p] = place + 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def begin_round(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # round
    first: int,  # its first seed
    size: int,
    only_branches: int,  # 1: no other seeds, in a single round
    order: wp.array[wp.int32],  # [2]: order, number of solutions
    difference: wp.array[float],  # [1]
    attempts: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    # in and out
    found: wp.array2d[wp.int32],  # [problems, trees]: solutions of each island in the rounds before
    newest: wp.array2d[wp.int32],  # [problems, trees]: number of seeds up to the last solution
    searches: Searches,
):
    """Let the searches without enough solutions go on for a round of seeds."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    line = wp.min(p, nisland.shape[0] - 1)
    end = wp.min(first + size, settings[SEEDS])
    if first == 0:
        attempts.made[p] = 0
    made = attempts.made[p]
    island = int(0)
    while island < nisland[line]:
        if first == 0:
            found[p, island] = 0
            newest[p, island] = 0
            searches.end_seed[p, island] = 0
        before = wp.max(first - size, 0)
        ends = searches.end_seed[p, island]  # of the round before
        branches_end = first_branch(searches, p, island) + sole_branches(searches, p, island)
        of_branches = ends == branches_end and first == size and sole_branches(searches, p, island) > 0
        if ends == first or of_branches:  # not stopped before
            last = wp.min(first, made)
            note_solutions(attempts, p, line, island, settings[SEEDS], before, last, order, difference, found, newest)
            has_all = of_branches and found[p, island] > 0
            if has_all:
                has_all = has_all_branches(attempts, searches, p, island, settings[SEEDS])
            if found[p, island] < order[1] and first - newest[p, island] < SEEDS_WITHOUT_NEW and not has_all:
                searches.next_seed[p, island] = wp.min(ends, first)
                searches.end_seed[p, island] = end
                if searches.proof[p, island] > 0:  # out of reach: one attempt, as without further solutions
                    searches.end_seed[p, island] = 1
                elif first == 0 and (only_branches == 1 or end < settings[SEEDS]):
                    if only_branches == 1 or sole_branches(searches, p, island) > 0:
                        searches.end_seed[p, island] = branches_end  # where these suffice
                    if searches.row_starts[p, island] > 0:
                        searches.end_seed[p, island] = searches.row_starts[p, island]
                attempts.made[p] = wp.max(attempts.made[p], searches.end_seed[p, island])
        island += 1
    s = int(made)
    while s < attempts.made[p]:
        row = p * settings[SEEDS] + s
        if s < settings[HAS_START] or s >= searches.row_starts[p, 0]:
            c = int(0)
            while c < attempts.kind.shape[0]:
                attempts.answers.joint_q[row, c] = attempts.start_joint_q[p, c]
                c += 1
        island = int(0)
        while island < attempts.answers.rank.shape[1]:
            attempts.answers.rank[row, island] = UNRANKED
            island += 1
        s += 1

"""Phases of proofs for arms with branches in closed form.

    phase 0    the shell, then the branches without tolerances; without one within the limits the intervals with
               tolerances. A proven target gets one attempt, others starts from their first branches
    phase 1    all branches, and the intervals with tolerances

After a start of the caller the branches wait for phase 1, unless all attempts are kept.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.branch_starts import (
    BRANCHES_MAX,
    FIRST_AT,
    ISOLATED_BIT,
    NUMBER_BITS,
    WIDE,
    WITHIN_AT,
    limit_search,
    seeds_of_branches,
)
from ik_service.solver.arrays.problem_arrays import Searches, mark_proven
from ik_service.solver.compiled.proof_task import TOLERANCES, WAITS, TaskRef, number_at
from ik_service.solver.lm.codes import BRANCHES, HAS_START, KEEP_ALL, PROOF_BY_INTERVALS, PROOF_BY_SHELL, SEEDS
from ik_service.solver.lm.ranking import FAILED

SEEDS_BEFORE_INTERVALS = 3  # drawn ones, where branches are no starts; no number at which a round of seeds ends
FIRST_BRANCHES = 3  # before phase 1; the best few of them are free of contact with the arm itself
FURTHER_SEEDS = 8  # after branches whose places are known
NEAR_LIMITS = wp.constant(0.1)  # a branch refused by no more is a start as well [m or rad]
BEHIND = wp.constant(1.0e3)  # added to the order of a refused branch
ISOLATED = wp.constant(0.05)  # largest radius of a branch with a single solution [rad]


@typing.no_type_check
def phases_with_branches(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource, Inputs: Any
) -> tuple[Any, Any]:
    """Return the functions (inputs, problems, their number, task) of both phases for arms with branches."""
    W = source.lanes.width
    InputsRef: Any = reference_to(Inputs)
    ProblemsRef: Any = reference_to(wp.types.vector(W, int))
    Found: Any = wp.types.vector(len(source.branches) * source.outputs * W, wp.float32)
    FoundRef: Any = reference_to(Found)
    Tolerances: Any = wp.types.vector(2 * W, wp.float32)
    IS_WHOLE = W == 1  # on a GPU, where searches do not wait for a second phase
    WAITING = not IS_WHOLE
    at, problem_at = number_at(Inputs), number_at(wp.types.vector(W, int))
    keep, is_wide = _branch_functions(source, Found)

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    @wp.func_native(source.branches_text())
    def branches(inputs: InputsRef, found: FoundRef) -> int: ...

    @wp.func
    def branches_without_tolerances(inputs: InputsRef, found: FoundRef):
        """Find the branches of the exact targets; return the lanes without any, as bits."""
        tolerances = Tolerances()
        for k in range(2 * W):
            tolerances[k] = at(inputs, TOLERANCES * W + k)
            inputs[TOLERANCES * W + k] = 0.0
        none = branches(inputs, found)
        for k in range(2 * W):
            inputs[TOLERANCES * W + k] = tolerances[k]
        return none

    @wp.func
    def may_end_early(found: FoundRef, lane: int):
        """Return whether few further seeds suffice without a proof; `found`: the branches with tolerances."""
        return WAITING and not is_wide(found, lane)

    @wp.func
    def begin(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach, or let their searches begin."""
        exact = Found()
        found = Found()
        every = (1 << count) - 1
        by_shell = shell(inputs) & every
        seeks = task.starts == 1 and task.settings[BRANCHES] == 1
        if wp.static(not IS_WHOLE):
            seeks = seeks and (task.settings[HAS_START] == 0 or task.settings[KEEP_ALL] == 1)
        none = int(0)
        proven = int(0)
        if seeks and by_shell != every:
            none = branches_without_tolerances(inputs, exact) & every
            if (none & ~by_shell) != 0:
                proven = branches(inputs, found) & none
        for lane in range(count):
            p = problem_at(problem, lane)
            seeds = int(1)
            proof = int(WAITS)
            if (by_shell >> lane) & 1 == 1:
                proof = PROOF_BY_SHELL
            elif (proven >> lane) & 1 == 1:
                proof = PROOF_BY_INTERVALS
            elif seeks:
                keep(
                    exact,
                    lane,
                    task.searches,
                    task.settings,
                    p,
                    task.island,
                    task.place,
                    task.column,
                    task.start_joint_q,
                    wp.where(WAITING and task.settings[KEEP_ALL] == 0, FIRST_BRANCHES, BRANCHES_MAX),
                )
                if (none >> lane) & 1 == 1:
                    proof = 0
                    seeds = task.settings[SEEDS]
                    if may_end_early(found, lane) and task.settings[KEEP_ALL] == 0:
                        of_branches = seeds_of_branches(task.searches, p, task.island)
                        limit_search(task.searches, task.settings, p, task.island, of_branches + FURTHER_SEEDS)
                else:
                    seeds = seeds_of_branches(task.searches, p, task.island)
            elif task.starts == 0 or task.settings[BRANCHES] == 0:
                seeds = int(SEEDS_BEFORE_INTERVALS)
            if proof == WAITS and (IS_WHOLE or task.settings[KEEP_ALL] == 1):
                proof = 0
                seeds = int(task.settings[SEEDS])
            if proof > 0:
                seeds = mark_proven(task.best, task.searches, task.settings, p, task.island, proof)
            task.searches.proof[p, task.island] = proof
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], seeds)

    @wp.func
    def prove_rest(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach that no attempt has met so far, or let their searches go on."""
        found = Found()
        if task.starts == 1 and task.settings[BRANCHES] == 1:
            branches_without_tolerances(inputs, found)
            for lane in range(count):
                keep(
                    found,
                    lane,
                    task.searches,
                    task.settings,
                    problem_at(problem, lane),
                    task.island,
                    task.place,
                    task.column,
                    task.start_joint_q,
                    BRANCHES_MAX,
                )
        proven = branches(inputs, found)
        for lane in range(count):
            p = problem_at(problem, lane)
            if (proven >> lane) & 1 == 1 and task.best.rank[p, task.island] >= FAILED:
                mark_proven(task.best, task.searches, task.settings, p, task.island, PROOF_BY_INTERVALS)
            else:
                task.searches.end_seed[p, task.island] = task.settings[SEEDS]
                if task.searches.branches[p, task.island] != 0 and may_end_early(found, lane):
                    of_branches = seeds_of_branches(task.searches, p, task.island)
                    limit_search(task.searches, task.settings, p, task.island, of_branches + FURTHER_SEEDS)

    return begin, prove_rest


@typing.no_type_check
def _branch_functions(source: ProofSource, Found: Any) -> tuple[Any, Any]:
    """Return functions of the branches found for a lane: to keep them as starts, and whether one is wide.

    keep: (found, lane, searches, settings, problem, island, places, columns, starts, most). Keeps up to `most` branches
    within the limits, then just beyond them. Places are those of the arm's joints among the DOFs of the island, columns
    those in `joint_q`.
    """
    FoundRef: Any = reference_to(Found)
    W, OUTPUTS, JOINTS = source.lanes.width, source.outputs, len(source.arm.arm.dofs)
    Keys: Any = wp.types.vector(BRANCHES_MAX, wp.float32)
    Numbers: Any = wp.types.vector(BRANCHES_MAX, int)
    BRANCHES_OF_ARM = len(source.branches)
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
        while b < BRANCHES_OF_ARM:
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
            if not (refused > NEAR_LIMITS) and wp.isfinite(key + radius) and not is_last:
                k = wp.min(count, most - 1)
                count = k + 1
                while k > 0 and keys[wp.max(k - 1, 0)] > key:
                    keys[k] = keys[k - 1]
                    numbers[k] = numbers[k - 1]
                    k -= 1
                keys[k] = key
                numbers[k] = b
            b += 1
        state = count | (wp.min(within, count) << WITHIN_AT) | (isolated * ISOLATED_BIT)
        searches.branches[p, island] = state | (settings[HAS_START] << FIRST_AT)
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
        while b < BRANCHES_OF_ARM:
            refused = at(found, b * OUTPUTS * W + lane) > 0.0
            wide = wide or not (refused or at(found, (b * OUTPUTS + 1) * W + lane) <= WIDE)
            b += 1
        return wide

    return keep, is_wide

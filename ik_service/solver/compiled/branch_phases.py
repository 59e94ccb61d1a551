"""Phases of proofs for arms with branches in closed form.

    phase 0    the shell, then the branches without tolerances; without one within the limits the intervals with
               tolerances. A proven target gets at most one attempt, others starts from their first branches
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
    WIDE_RADIUS,
    WITHIN_AT,
    limit_search,
    seeds_of_branches,
)
from ik_service.solver.arrays.problem_arrays import mark_proven
from ik_service.solver.compiled.proof_task import (
    FIRST_ANGLE,
    MARGIN,
    RADIUS,
    REFUSED,
    TOLERANCES,
    WAITS,
    TaskRef,
    number_at,
)
from ik_service.solver.lm.codes import BRANCHES, HAS_START, KEEP_ALL, PROOF_BY_INTERVALS, PROOF_BY_SHELL, SEEDS
from ik_service.solver.lm.ranking import FAILED

SEEDS_BEFORE_INTERVALS = 3  # drawn ones, where branches are no starts; no number at which a round of seeds ends
FIRST_BRANCHES = 3  # starts before phase 1: most often one of three is free of self-collision
FURTHER_SEEDS = 8  # after branches whose places are known
NEAR_LIMITS = wp.constant(0.1)  # a branch refused by no more is a start as well [m or rad]
BEHIND = wp.constant(1.0e3)  # added to the order of a refused branch
ISOLATED = wp.constant(0.2)  # largest radius of a branch with a single solution [rad]


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
    WAITING = W > 1  # searches on a GPU do not wait for a second phase
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
    def go_on(found: FoundRef, lane: int, task: TaskRef, p: int):
        """Let a search go on with drawn seeds, few of them where the centres of all branches say much.

        `found` has the branches with tolerances.
        """
        seeds = seeds_of_branches(task.searches, p, task.island) + FURTHER_SEEDS
        task.searches.end_seed[p, task.island] = task.settings[SEEDS]
        has_branches = task.searches.branches[p, task.island] != 0
        if has_branches and WAITING and task.settings[KEEP_ALL] == 0 and not is_wide(found, lane):
            limit_search(task.searches, task.settings, p, task.island, seeds)

    @wp.func
    def begin(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach, or let their searches begin."""
        exact = Found()
        found = Found()
        every = (1 << count) - 1
        waiting = WAITING and task.settings[KEEP_ALL] == 0
        seeks = task.starts == 1 and task.settings[BRANCHES] == 1
        first_seeds = wp.where(seeks, 1, SEEDS_BEFORE_INTERVALS)
        seeks = seeks and (task.settings[HAS_START] == 0 or not waiting)
        by_shell = shell(inputs) & every
        none = int(0)  # lanes without a branch within the limits
        by_intervals = int(0)
        if seeks and by_shell != every:
            none = branches_without_tolerances(inputs, exact) & every
            if (none & ~by_shell) != 0:
                by_intervals = branches(inputs, found) & none
        for lane in range(count):
            p = problem_at(problem, lane)
            end = int(task.settings[SEEDS])
            proof = int(0)
            if ((by_shell | by_intervals) >> lane) & 1 == 1:
                proof = wp.where((by_shell >> lane) & 1 == 1, PROOF_BY_SHELL, PROOF_BY_INTERVALS)
                end = mark_proven(task.best, task.searches, task.settings, p, task.island, proof)
            elif seeks:
                keep(exact, lane, task, p, wp.where(waiting, FIRST_BRANCHES, BRANCHES_MAX))
                if (none >> lane) & 1 == 1:
                    go_on(found, lane, task, p)
                elif waiting:
                    proof = WAITS
                    end = seeds_of_branches(task.searches, p, task.island)
            elif waiting:
                proof = WAITS
                end = first_seeds
            task.searches.proof[p, task.island] = proof
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], end)

    @wp.func
    def prove_rest(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach that no attempt has met so far, or let their searches go on."""
        found = Found()
        if task.starts == 1 and task.settings[BRANCHES] == 1:
            branches_without_tolerances(inputs, found)
            for lane in range(count):
                keep(found, lane, task, problem_at(problem, lane), BRANCHES_MAX)
        proven = branches(inputs, found)
        for lane in range(count):
            p = problem_at(problem, lane)
            if (proven >> lane) & 1 == 1 and task.best.rank[p, task.island] >= FAILED:
                mark_proven(task.best, task.searches, task.settings, p, task.island, PROOF_BY_INTERVALS)
            else:
                go_on(found, lane, task, p)

    return begin, prove_rest


@typing.no_type_check
def _branch_functions(source: ProofSource, Found: Any) -> tuple[Any, Any]:
    """Return functions of the branches found for a lane: to keep them as starts, and whether one is wide."""
    FoundRef: Any = reference_to(Found)
    W, OUTPUTS, JOINTS = source.lanes.width, source.outputs, len(source.arm.arm.dofs)
    Keys: Any = wp.types.vector(BRANCHES_MAX, wp.float32)
    Numbers: Any = wp.types.vector(BRANCHES_MAX, int)
    BRANCHES_OF_ARM = len(source.branches)
    IS_EXACT, at = source.is_exact, number_at(Found)

    @wp.func
    def distance_from_start(found: FoundRef, lane: int, b: int, task: TaskRef, p: int):
        """Return the largest change of a joint from the start, modulo turns [rad]."""
        largest = float(0.0)
        j = int(0)
        while j < JOINTS:
            gap = at(found, (b * OUTPUTS + FIRST_ANGLE + j) * W + lane) - task.start_joint_q[p, task.column[j]]
            largest = wp.max(largest, wp.abs(gap - 2.0 * wp.PI * wp.round(gap / (2.0 * wp.PI))))
            j += 1
        return largest

    @wp.func
    def keep(found: FoundRef, lane: int, task: TaskRef, p: int, most: int):
        """Keep up to `most` branches within the limits, then those just beyond, as starts."""
        keys = Keys()
        numbers = Numbers()
        count = int(0)
        within = int(0)
        isolated = int(wp.static(int(IS_EXACT)))
        largest = float(0.0)
        b = int(0)
        while b < BRANCHES_OF_ARM:
            refused = at(found, (b * OUTPUTS + REFUSED) * W + lane)
            radius = at(found, (b * OUTPUTS + RADIUS) * W + lane)
            key = float(0.0)
            if task.settings[HAS_START] == 1:
                key = distance_from_start(found, lane, b, task, p)
            else:
                key = -at(found, (b * OUTPUTS + MARGIN) * W + lane)
            if refused > 0.0:
                key = BEHIND + refused
            else:
                within += 1
                largest = wp.max(largest, radius)
                if not (radius <= ISOLATED and at(found, (b * OUTPUTS + MARGIN) * W + lane) > -1.0):
                    isolated = int(0)
            is_dropped = count == most and not (key < keys[most - 1])
            if not (refused > NEAR_LIMITS) and wp.isfinite(key + radius) and not is_dropped:
                k = wp.min(count, most - 1)
                count = k + 1
                while k > 0 and keys[wp.max(k - 1, 0)] > key:
                    keys[k] = keys[k - 1]
                    numbers[k] = numbers[k - 1]
                    k -= 1
                keys[k] = key
                numbers[k] = b
            b += 1
        count = wp.min(count, wp.max(task.settings[SEEDS] - task.settings[HAS_START], 0))
        if within > count:
            isolated = int(0)
        state = count | (wp.min(within, count) << WITHIN_AT) | (isolated * ISOLATED_BIT)
        task.searches.branches[p, task.island] = state | (task.settings[HAS_START] << FIRST_AT)
        task.searches.branch_radius[p, task.island] = largest
        of_kept = int(0)
        k = int(0)
        while k < count:
            of_kept = of_kept | (numbers[k] << (NUMBER_BITS * k))
            j = int(0)
            while j < JOINTS:
                angle = at(found, (numbers[k] * OUTPUTS + FIRST_ANGLE + j) * W + lane)
                task.searches.branch_joint_q[p, task.island, k * JOINTS + task.place[j]] = angle
                j += 1
            k += 1
        task.searches.branch_numbers[p, task.island] = of_kept

    @wp.func
    def is_wide(found: FoundRef, lane: int):
        """Return whether the centre of a branch that is not refused says little about the solution."""
        wide = bool(False)
        b = int(0)
        while b < BRANCHES_OF_ARM:
            refused = at(found, (b * OUTPUTS + REFUSED) * W + lane) > 0.0
            wide = wide or not (refused or at(found, (b * OUTPUTS + RADIUS) * W + lane) <= WIDE_RADIUS)
            b += 1
        return wide

    return keep, is_wide

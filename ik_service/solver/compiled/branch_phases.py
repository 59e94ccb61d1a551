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
    WAITS,
    TaskRef,
    number_at,
)
from ik_service.solver.lm.codes import BRANCHES, HAS_START, KEEP_ALL, PROOF_BY_INTERVALS, PROOF_BY_SHELL, SEEDS
from ik_service.solver.lm.ranking import FAILED

SEEDS_BEFORE_INTERVALS = 3  # drawn ones, where branches are no starts; no number at which a round of seeds ends
FIRST_BRANCHES = 3  # starts before phase 1: most often one of three is free of self-collision
FURTHER_SEEDS = 8  # after branches whose places are known
NEAR_LIMITS = 0.1  # a branch refused by no more is a start as well [m or rad]
BEHIND = 1.0e3  # added to the order of a refused branch
ISOLATED = 0.2  # largest radius of a branch with a single solution [rad]
# Ranks: number of starts; of branches within the limits their number, whether each has a single solution, whether the
# centre of one says little, and the largest radius; the numbers of the starts in order, as octal digits, lowest first
RANKS = 6
COUNT, WITHIN, SOLE, WIDE, LARGEST, NUMBERS = (wp.constant(k) for k in range(RANKS))


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
    Ranks: Any = wp.types.vector(RANKS * W, wp.float32)
    RanksRef: Any = reference_to(Ranks)
    WAITING = W > 1  # searches on a GPU do not wait for a second phase
    of_ranks, problem_at = number_at(Ranks), number_at(wp.types.vector(W, int))
    rank, keep = _branch_functions(source, Found, Ranks)

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    @wp.func_native(source.branches_text())
    def branches(inputs: InputsRef, found: FoundRef, tolerates: int) -> int: ...

    @wp.func
    def go_on(ranks: RanksRef, lane: int, task: TaskRef, p: int):
        """Let a search go on with drawn seeds, few of them where the centres of branches with tolerances say much."""
        seeds = seeds_of_branches(task.searches, p, task.island) + FURTHER_SEEDS
        task.searches.end_seed[p, task.island] = task.settings[SEEDS]
        has_branches = task.searches.branches[p, task.island] != 0
        if has_branches and WAITING and task.settings[KEEP_ALL] == 0 and of_ranks(ranks, WIDE * W + lane) == 0.0:
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
        ranks = Ranks()
        tolerated = Ranks()  # of the branches with tolerances
        if seeks and by_shell != every:
            none = branches(inputs, exact, 0) & every
            if (none & ~by_shell) != 0:
                by_intervals = branches(inputs, found, 1) & none
                tolerated = rank(found, problem, 0, task)
            ranks = rank(exact, problem, count, task)
        for lane in range(count):
            p = wp.max(problem_at(problem, lane), 0)
            end = int(task.settings[SEEDS])
            proof = int(0)
            if ((by_shell | by_intervals) >> lane) & 1 == 1:
                proof = wp.where((by_shell >> lane) & 1 == 1, PROOF_BY_SHELL, PROOF_BY_INTERVALS)
                end = mark_proven(task.best, task.searches, task.settings, p, task.island, proof)
            elif seeks:
                keep(exact, ranks, lane, task, p, wp.where(waiting, FIRST_BRANCHES, BRANCHES_MAX))
                if (none >> lane) & 1 == 1:
                    go_on(tolerated, lane, task, p)
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
            branches(inputs, found, 0)
            ranks = rank(found, problem, count, task)
            for lane in range(count):
                keep(found, ranks, lane, task, problem_at(problem, lane), BRANCHES_MAX)
        proven = branches(inputs, found, 1)
        tolerated = rank(found, problem, 0, task)
        for lane in range(count):
            p = wp.max(problem_at(problem, lane), 0)
            if (proven >> lane) & 1 == 1 and task.best.rank[p, task.island] >= FAILED:
                mark_proven(task.best, task.searches, task.settings, p, task.island, PROOF_BY_INTERVALS)
            else:
                go_on(tolerated, lane, task, p)

    return begin, prove_rest


@typing.no_type_check
def _branch_functions(source: ProofSource, Found: Any, Ranks: Any) -> tuple[Any, Any]:
    """Return functions of found branches: to rank branches, and to keep the branches of a lane as starts."""
    FoundRef: Any = reference_to(Found)
    W, OUTPUTS, JOINTS, OF_ARM = source.lanes.width, source.outputs, len(source.arm.arm.dofs), len(source.branches)
    Keys: Any = wp.types.vector(OF_ARM * W, wp.float32)
    KeysRef: Any = reference_to(Keys)
    RanksRef: Any = reference_to(Ranks)
    ProblemsRef: Any = reference_to(wp.types.vector(W, int))
    IS_EXACT, at, of_ranks, problem_at = source.is_exact, *map(number_at, (Found, Ranks, wp.types.vector(W, int)))

    @wp.func_native(_ranks_text(source))
    def order(found: FoundRef, keys: KeysRef, has_keys: int, ranks: RanksRef): ...

    @wp.func
    def rank(found: FoundRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Return the ranks of the branches in all lanes; a key is the largest change from the start [rad]."""
        keys = Keys()
        ranks = Ranks()
        place = int(0)
        while task.settings[HAS_START] == 1 and place < OF_ARM * count:
            b = place / count
            lane = place % count
            j = int(0)
            while j < JOINTS:
                gap = at(found, (b * OUTPUTS + FIRST_ANGLE + j) * W + lane)
                gap -= task.start_joint_q[problem_at(problem, lane), task.column[j]]
                gap = wp.abs(gap - 2.0 * wp.PI * wp.round(gap / (2.0 * wp.PI)))  # modulo turns
                keys[b * W + lane] = wp.max(keys[b * W + lane], gap)
                j += 1
            place += 1
        order(found, keys, task.settings[HAS_START], ranks)
        return ranks

    @wp.func
    def keep(found: FoundRef, ranks: RanksRef, lane: int, task: TaskRef, p: int, most: int):
        """Keep up to `most` branches within the limits, then those just beyond, as starts."""
        starts = wp.max(task.settings[SEEDS] - task.settings[HAS_START], 0)
        count = wp.min(int(of_ranks(ranks, COUNT * W + lane)), wp.min(most, starts))
        within = int(of_ranks(ranks, WITHIN * W + lane))
        state = count | (wp.min(within, count) << WITHIN_AT)
        if IS_EXACT and within <= count and of_ranks(ranks, SOLE * W + lane) > 0.0:
            state = state | ISOLATED_BIT
        task.searches.branches[p, task.island] = state | (task.settings[HAS_START] << FIRST_AT)
        task.searches.branch_radius[p, task.island] = of_ranks(ranks, LARGEST * W + lane)
        numbers = int(of_ranks(ranks, NUMBERS * W + lane)) & ((1 << (NUMBER_BITS * count)) - 1)
        task.searches.branch_numbers[p, task.island] = numbers
        k = int(0)
        while k < count:
            j = int(0)
            while j < JOINTS:
                angle = at(found, ((numbers & (BRANCHES_MAX - 1)) * OUTPUTS + FIRST_ANGLE + j) * W + lane)
                task.searches.branch_joint_q[p, task.island, k * JOINTS + task.place[j]] = angle
                j += 1
            numbers = numbers >> NUMBER_BITS
            k += 1

    return rank, keep


def _ranks_text(source: ProofSource) -> str:
    """Write the body of `order`: a branch is ranked by its key, without keys by its margin, then by its number."""
    return "\n".join(["{", *source.lanes.prologue(), _RANKS.format(count=len(source.branches), outputs=source.outputs)])


_RANKS = f"""const U *f = (const U*)&found, *given = (const U*)&keys;
const F zero = F{{{{}}}}, one = zero + 1.0f, never = zero + 3e38f;
F key[{{count}}], starts = zero, within = zero, sole = one, wide = zero, largest = zero, numbers = zero;
for (int b = 0; b < {{count}}; ++b, f += {{outputs}}) {{{{
    const F refused = f[{REFUSED}], radius = f[{RADIUS}], margin = f[{MARGIN}], own = has_keys ? (F)given[b] : -margin;
    const auto is_beyond = refused > 0.0f;
    const auto is_sole = (radius <= {ISOLATED}f) & (margin > -1.0f);
    const F first = is_beyond ? refused + {BEHIND}f : own, size = first + radius;
    const auto is_number = (size < never) & (size > -never);
    key[b] = refused > {NEAR_LIMITS}f ? never : is_number ? first : never;
    starts += key[b] < never ? one : zero;
    within += is_beyond ? zero : one;
    sole = is_beyond ? sole : is_sole ? sole : zero;
    wide = is_beyond ? wide : radius <= {float(WIDE_RADIUS)}f ? wide : one;
    largest = is_beyond ? largest : radius > largest ? radius : largest;
}}}}
for (int a = 0; a < {{count}}; ++a) {{{{
    F digit = zero + (float)a;
    for (int b = 0; b < a; ++b) digit = key[b] <= key[a] ? digit * 8.0f : digit;
    for (int b = a + 1; b < {{count}}; ++b) digit = key[b] < key[a] ? digit * 8.0f : digit;
    numbers += key[a] < never ? digit : zero;
}}}}
const F out[] = {{{{starts, within, sole, wide, largest, numbers}}}};
for (int k = 0; k < {RANKS}; ++k) ((U*)&ranks)[k] = out[k];
}}}}"""

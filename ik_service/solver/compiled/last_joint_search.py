"""Phases of proofs for arms with a searched last joint.

    phase 0    the shell; other targets get their first drawn seeds
    phase 1    all intervals of the last joint; intervals without a proof give further starts

A GPU has phase 0 alone.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.branch_starts import limit_search, set_branches
from ik_service.solver.arrays.problem_arrays import BRANCH_NUMBERS, mark_proven
from ik_service.solver.compiled.proof_task import FIRST_ANGLE, LIMITS, WAITS, TaskRef, number_at
from ik_service.solver.lm.codes import BRANCHES, KEEP_ALL, PROOF_BY_SEARCH, PROOF_BY_SHELL, SEEDS
from ik_service.solver.lm.ranking import FAILED

SEEDS_BEFORE_SEARCH = 15  # most targets within reach need fewer; no number at which a round of seeds ends
SEEDS_AFTER_SEARCH = 240  # drawn ones after starts from intervals: with narrow limits some targets need more than 100
# Intervals of the last joint in a search.
FIRST, SPLIT_BITS, LEVELS = 8, 2, 5
SPLIT = 1 << SPLIT_BITS
INTERVALS_MAX = 768  # tried for a problem at most
LEVEL_SHIFT, INDEX_MASK = 16, (1 << 16) - 1  # an interval is its level and its index there
START_LEVEL = 2  # starts come from different intervals of this level
PROVEN = wp.constant(1000)


@typing.no_type_check
def phases_with_search(source: ProofSource, Inputs: Any) -> tuple[Any, Any]:
    """Return the functions (inputs, problems, their number, task) of both phases."""
    W = source.lanes.width
    InputsRef: Any = reference_to(Inputs)
    Problems: Any = wp.types.vector(W, int)
    ProblemsRef: Any = reference_to(Problems)
    Found: Any = wp.types.vector(source.outputs * W, wp.float32)
    IS_WHOLE = W == 1  # on a GPU
    search, of_problem = _search(source, Inputs, Found), number_at(Problems)

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    @wp.func
    def begin(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach by the shell, and let the others begin their search."""
        proven = shell(inputs)
        for lane in range(count):
            p = of_problem(problem, lane)
            seeds = int(task.settings[SEEDS])
            proof = int(0)
            if (proven >> lane) & 1 == 1:
                proof = PROOF_BY_SHELL
                seeds = mark_proven(task.best, task.searches, task.settings, p, task.island, proof)
            elif not IS_WHOLE and task.settings[KEEP_ALL] == 0 and seeds > SEEDS_BEFORE_SEARCH:
                proof = WAITS
                seeds = int(SEEDS_BEFORE_SEARCH)
            task.searches.proof[p, task.island] = proof
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], seeds)

    @wp.func
    def prove_rest(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach that no attempt has met so far, or let their searches go on."""
        packet = Inputs()
        found = Found()
        for lane in range(count):
            p = of_problem(problem, lane)
            end = int(task.settings[SEEDS])
            if task.best.rank[p, task.island] >= FAILED:
                kept = search(inputs, packet, found, lane, task, p)
                if kept == PROVEN:
                    mark_proven(task.best, task.searches, task.settings, p, task.island, PROOF_BY_SEARCH)
                    end = task.searches.end_seed[p, task.island]
                elif kept != 0 and task.starts == 1 and task.settings[BRANCHES] == 1:
                    set_branches(task.searches, p, task.island, SEEDS_BEFORE_SEARCH, kept)
                    task.searches.end_seed[p, task.island] = end
                    end = SEEDS_BEFORE_SEARCH + kept + SEEDS_AFTER_SEARCH
                    limit_search(task.searches, task.settings, p, task.island, end)
                    end = task.searches.end_seed[p, task.island]
            task.searches.end_seed[p, task.island] = end

    return begin, prove_rest


@typing.no_type_check
def _search(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource, Inputs: Any, Found: Any
) -> Any:
    """Return the function (inputs, packet, found, lane, task, problem): a proof in all intervals of the last joint.

    The intervals are a tree: FIRST ones, each split in SPLIT, LEVELS deep, searched in depth. All lanes work on one
    problem. The least refused branch of an interval of the last level without a proof becomes a start, and the rest of
    its interval of level START_LEVEL is left out; the number of these starts is returned, or PROVEN.
    """
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    InputsRef: Any = reference_to(Inputs)
    FoundRef: Any = reference_to(Found)
    LAST = LIMITS + 2 * JOINTS
    Stack: Any = wp.types.vector(FIRST + SPLIT * W * LEVELS, int)
    Nodes: Any = wp.types.vector(W, int)
    at, of_found = number_at(Inputs), number_at(Found)
    STARTS, NARROWEST = BRANCH_NUMBERS // JOINTS, FIRST << (SPLIT_BITS * (LEVELS - 1))

    @wp.func_native(source.branches_text())
    def branches(inputs: InputsRef, found: FoundRef, tolerates: int) -> int: ...

    @wp.func
    def keep_start(packet: InputsRef, found: FoundRef, m: int, task: TaskRef, p: int, kept: int, middle: float):
        """Keep the least refused branch of the interval in a lane as a start."""
        j = int(0)
        while j < JOINTS - 1:
            place = kept * JOINTS + task.place[j]
            task.searches.branch_joint_q[p, task.island, place] = of_found(found, (FIRST_ANGLE + j) * W + m)
            j += 1
        task.searches.branch_joint_q[p, task.island, kept * JOINTS + task.place[JOINTS - 1]] = middle

    @wp.func
    def search(inputs: InputsRef, packet: InputsRef, found: FoundRef, lane: int, task: TaskRef, p: int):
        for k in range(LAST):
            for m in range(W):
                packet[k * W + m] = at(inputs, k * W + lane)
        lower = at(inputs, (LIMITS + JOINTS - 1) * W + lane)
        upper = at(inputs, (LIMITS + 2 * JOINTS - 1) * W + lane)
        if not (upper - lower < 2.0 * wp.PI):
            lower = -wp.PI
            upper = wp.PI
        stack = Stack()
        nodes = Nodes()
        waiting = int(FIRST)
        for k in range(FIRST):
            stack[k] = k
        tried = int(0)
        kept = int(0)
        while waiting > 0 and tried < INTERVALS_MAX:
            taken = wp.min(waiting, W)
            for m in range(W):
                node = stack[waiting - 1 - wp.min(m, taken - 1)]
                half = 0.5 * (upper - lower) / float(FIRST << (SPLIT_BITS * (node >> LEVEL_SHIFT)))
                middle = lower + float(2 * (node & INDEX_MASK) + 1) * half
                packet[LAST * W + m] = wp.cos(middle)
                packet[(LAST + 1) * W + m] = wp.sin(middle)
                packet[(LAST + 2) * W + m] = half * 1.0001 + 1.0e-6
            proven = branches(packet, found, 1)
            waiting -= taken
            tried += taken
            left = int(0)
            around = int(-1)  # the interval of START_LEVEL with the newest start
            for m in range(taken):
                node = stack[waiting + taken - 1 - m]
                level = node >> LEVEL_SHIFT
                above = (node & INDEX_MASK) >> (SPLIT_BITS * wp.max(level - START_LEVEL, 0))
                if (proven >> m) & 1 == 0 and not (level >= START_LEVEL and above == around):
                    if level + 1 == LEVELS:
                        middle = lower + (upper - lower) * (float(node & INDEX_MASK) + 0.5) / float(NARROWEST)
                        keep_start(packet, found, m, task, p, kept, middle)
                        kept += 1
                        around = above
                        if kept == STARTS:
                            return kept
                    else:
                        nodes[left] = node
                        left += 1
            while around >= 0 and waiting > 0 and is_inside_interval(stack[wp.max(waiting - 1, 0)], around):
                waiting -= 1
            for m in range(left):
                node = nodes[left - 1 - m]
                if not is_inside_interval(node, around):
                    for k in range(SPLIT):
                        stack[waiting] = (((node >> LEVEL_SHIFT) + 1) << LEVEL_SHIFT) | (
                            (node & INDEX_MASK) * SPLIT + k
                        )
                        waiting += 1
        if waiting == 0 and kept == 0:
            return PROVEN
        return kept

    return search


@wp.func
@typing.no_type_check
def is_inside_interval(node: int, around: int):
    """Return whether an interval is within one of START_LEVEL."""
    level = node >> LEVEL_SHIFT
    return level >= START_LEVEL and ((node & INDEX_MASK) >> (SPLIT_BITS * wp.max(level - START_LEVEL, 0))) == around

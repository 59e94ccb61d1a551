"""Phases of proofs for arms with a searched last joint.

    phase 0    the shell; other targets get their first drawn seeds
    phase 1    all intervals of the last joint; an interval without a proof gives a further start
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.compiled.branch_starts import one_branch
from ik_service.solver.compiled.proof_task import LIMITS, WAITS, TaskRef, number_at
from ik_service.solver.lm.codes import BRANCHES, KEEP_ALL, PROOF_BY_SEARCH, PROOF_BY_SHELL, SEEDS, TRIES_ALL
from ik_service.solver.lm.ranking import FAILED

SEEDS_BEFORE_SEARCH = 15  # most targets within reach need fewer; no number at which a round of seeds ends
FURTHER_SEEDS = 8  # after a start from an interval
# Intervals of the last joint in a search.
FIRST, SPLIT_BITS, LEVELS = 8, 2, 5
SPLIT = 1 << SPLIT_BITS
INTERVALS_MAX = 768  # tried for a problem at most
LEVEL_SHIFT, INDEX_MASK = 16, (1 << 16) - 1  # an interval is its level and its index there
PROVEN, NO_INTERVAL = wp.constant(-1), wp.constant(-2)  # outcomes of a search without an interval
FIRST_ANGLE = 3  # place of the angles in the numbers of a branch


@typing.no_type_check
def phases_with_search(source: ProofSource, Inputs: Any) -> tuple[Any, Any]:
    """Return the functions (inputs, problems, their number, task) of both phases."""
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    InputsRef: Any = reference_to(Inputs)
    Problems: Any = wp.types.vector(W, int)
    ProblemsRef: Any = reference_to(Problems)
    Found: Any = wp.types.vector(source.outputs * W, wp.float32)
    IS_WHOLE, LAST = W == 1, LIMITS + 2 * JOINTS  # IS_WHOLE: on a GPU
    search, of_problem, of_found, of_inputs = _search(source, Inputs, Found), *map(number_at, (Problems, Found, Inputs))

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
                seeds = int(1)
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
            left = search(inputs, packet, found, lane)
            end = int(task.settings[SEEDS])
            if left == PROVEN and task.rank[p, task.island] >= FAILED:
                task.searches.proof[p, task.island] = PROOF_BY_SEARCH
                end = task.searches.end_seed[p, task.island]
            elif left >= 0 and task.starts == 1 and task.settings[BRANCHES] == 1:
                one_branch(task.searches, p, task.island, SEEDS_BEFORE_SEARCH)
                j = int(0)
                while j < JOINTS - 1:
                    angle = of_found(found, (FIRST_ANGLE + j) * W + left)
                    task.searches.branch_joint_q[p, task.island, task.place[j]] = angle
                    j += 1
                angle = wp.atan2(of_inputs(packet, (LAST + 1) * W + left), of_inputs(packet, LAST * W + left))
                lower = of_inputs(inputs, (LIMITS + JOINTS - 1) * W + lane)
                angle = wp.where(angle < lower, angle + 2.0 * wp.PI, angle)
                task.searches.branch_joint_q[p, task.island, task.place[JOINTS - 1]] = angle
                if task.settings[TRIES_ALL] == 0:
                    end = wp.min(end, SEEDS_BEFORE_SEARCH + 1 + FURTHER_SEEDS)
            task.searches.end_seed[p, task.island] = end

    return begin, prove_rest


@typing.no_type_check
def _search(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource, Inputs: Any, Found: Any
) -> Any:
    """Return the function (inputs, packet, found, lane): a proof in all intervals of the last joint for a problem.

    The intervals are a tree: FIRST ones, each split in SPLIT, LEVELS deep, searched in depth. All lanes work on one
    problem. An interval of the last level without a proof ends the search: its lane is returned, `packet` and `found`
    hold it and its least refused branch. Otherwise PROVEN, or NO_INTERVAL after too many intervals.
    """
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    InputsRef: Any = reference_to(Inputs)
    FoundRef: Any = reference_to(Found)
    LAST = LIMITS + 2 * JOINTS
    Stack: Any = wp.types.vector(FIRST + SPLIT * W * LEVELS, int)
    Nodes: Any = wp.types.vector(W, int)
    at = number_at(Inputs)

    @wp.func_native(source.branches_text())
    def branches(inputs: InputsRef, found: FoundRef) -> int: ...

    @wp.func
    def search(inputs: InputsRef, packet: InputsRef, found: FoundRef, lane: int):
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
        while waiting > 0 and tried < INTERVALS_MAX:
            taken = wp.min(waiting, W)
            for m in range(W):
                node = stack[waiting - 1 - wp.min(m, taken - 1)]
                half = 0.5 * (upper - lower) / float(FIRST << (SPLIT_BITS * (node >> LEVEL_SHIFT)))
                middle = lower + float(2 * (node & INDEX_MASK) + 1) * half
                packet[LAST * W + m] = wp.cos(middle)
                packet[(LAST + 1) * W + m] = wp.sin(middle)
                packet[(LAST + 2) * W + m] = half * 1.0001 + 1.0e-6
            proven = branches(packet, found)
            waiting -= taken
            tried += taken
            left = int(0)
            for m in range(taken):
                if (proven >> m) & 1 == 0:
                    nodes[left] = stack[waiting + taken - 1 - m]
                    if (nodes[left] >> LEVEL_SHIFT) + 1 == LEVELS:
                        return m
                    left += 1
            for m in range(left):
                node = nodes[left - 1 - m]
                for k in range(SPLIT):
                    stack[waiting] = (((node >> LEVEL_SHIFT) + 1) << LEVEL_SHIFT) | ((node & INDEX_MASK) * SPLIT + k)
                    waiting += 1
        return wp.where(waiting == 0, PROVEN, NO_INTERVAL)

    return search

"""The kernel that proves a set of solutions complete, for arms of six joints whose last joint is searched.

Intervals of the last joint -> for each branch of an interval the other joints, as intervals. A branch is done if it has
no solution within the limits, or if all its configurations are within `spacing` of a solution of the set; otherwise the
interval is split. The set is complete if all branches are done.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.compiled.last_joint_search import FIRST, SPLIT_BITS
from ik_service.solver.compiled.proof_task import (
    FIRST_ANGLE,
    RADIUS,
    TOLERANCES,
    ProofTask,
    TaskRef,
    number_at,
    range_of_last,
    reading_of,
)
from ik_service.solver.compiled.solution_ranking import wrapped
from ik_service.solver.lm.codes import SEEDS, STOP

SPLITS_MAX = 5  # of an interval
NODES = FIRST << (SPLIT_BITS * SPLITS_MAX)  # an interval is its number of splits times this, plus its place
TRIED_MAX = 128  # packets of intervals tried for a problem


@typing.no_type_check
def complete_sets_kernel(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource,
) -> wp.Kernel:
    """Return the kernel; its arguments are those of the kernel of proofs, and the phase is not used."""
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    BRANCHES, OUTPUTS, LAST = source.branches_at_last_joint, source.outputs, len(source.inputs) - 3
    Inputs: Any = wp.types.vector(len(source.inputs) * W, wp.float32)
    Found: Any = wp.types.vector(BRANCHES * OUTPUTS * W, wp.float32)
    Bits: Any = wp.types.vector(BRANCHES, int)
    Stack: Any = wp.types.vector(FIRST + (W << SPLIT_BITS) * (SPLITS_MAX + 1), int)
    Nodes: Any = wp.types.vector(W, int)
    InputsRef: Any = reference_to(Inputs)
    FoundRef: Any = reference_to(Found)
    BitsRef: Any = reference_to(Bits)
    of_found = number_at(Found)
    read_target, read_rest = reading_of(Inputs, W, JOINTS)
    range_of = range_of_last(Inputs, W, JOINTS)

    @wp.func_native(source.every_branch_text())
    def every_branch(inputs: InputsRef, found: FoundRef, bits: BitsRef) -> int: ...

    @wp.func
    def is_near_solution(found: FoundRef, lane: int, b: int, middle: float, half: float, task: TaskRef, p: int):
        """Return whether all configurations of a branch, in an interval, are within `spacing` of a solution."""
        most = task.spacing[0] - of_found(found, (b * OUTPUTS + RADIUS) * W + lane)
        k = int(0)
        is_near = bool(False)
        while k < task.solution_count[p] and not is_near:
            row = p * task.settings[SEEDS] + task.chosen[p, 0, k]
            gap = wp.abs(wrapped(task.attempt_joint_q[row, task.column[JOINTS - 1]] - middle))
            is_near = gap + half <= task.spacing[0]
            j = int(0)
            while j < JOINTS - 1 and is_near:
                centre = of_found(found, (b * OUTPUTS + FIRST_ANGLE + j) * W + lane)
                is_near = wp.abs(wrapped(task.attempt_joint_q[row, task.column[j]] - centre)) <= most
                j += 1
            k += 1
        return is_near

    @wp.func
    def is_complete(inputs: InputsRef, task: TaskRef, p: int):
        """Return whether each exact solution within the limits is within `spacing` of one of the set."""
        found = Found()
        bits = Bits()
        stack = Stack()
        nodes = Nodes()
        angles = range_of(inputs)
        waiting = int(FIRST)
        for k in range(FIRST):
            stack[k] = k
        packets = int(0)
        while waiting > 0 and packets < TRIED_MAX:
            packets += 1
            taken = wp.min(waiting, W)
            waiting -= taken
            for m in range(W):
                node = stack[waiting + wp.min(m, taken - 1)]
                nodes[m] = node
                half = 0.5 * angles[1] / float(FIRST << (SPLIT_BITS * (node / NODES)))
                middle = angles[0] + float(2 * (node % NODES) + 1) * half
                inputs[LAST * W + m] = wp.cos(middle)
                inputs[(LAST + 1) * W + m] = wp.sin(middle)
                inputs[(LAST + 2) * W + m] = half * 1.0001 + 1.0e-6
            every_branch(inputs, found, bits)
            m = int(0)
            while m < taken:
                level = nodes[m] / NODES
                half = 0.5 * angles[1] / float(FIRST << (SPLIT_BITS * level))
                middle = angles[0] + float(2 * (nodes[m] % NODES) + 1) * half
                done = bool(True)
                b = int(0)
                while b < BRANCHES and done:
                    if (bits[b] >> m) & 1 == 0:
                        done = is_near_solution(found, m, b, middle, half * 1.0001 + 1.0e-6, task, p)
                    b += 1
                if not done and level == SPLITS_MAX:
                    return False
                if not done:
                    for k in range(1 << SPLIT_BITS):
                        stack[waiting] = (level + 1) * NODES + (nodes[m] % NODES) * (1 << SPLIT_BITS) + k
                        waiting += 1
                m += 1
        return waiting == 0

    @wp.kernel(module="unique", enable_backward=False, module_options=cpu_options())
    def prove_complete(task: ProofTask, phase: int, part: int, parts: int):
        place = first_place(task.settings, task.count, task.problem, part, parts)
        end = first_place(task.settings, task.count, task.problem, part + 1, parts)
        inputs = Inputs()
        while place < end and task.settings[STOP] == 0:
            p = task.problem[place]
            place += 1
            if task.fault[part] == 0 and task.searches.row_starts[p, task.island] > 0 and task.solution_count[p] > 0:
                for lane in range(W):
                    read_target(inputs, lane, task, p)
                    read_rest(inputs, lane, task, p)
                    inputs[TOLERANCES * W + lane] = 0.0
                    inputs[(TOLERANCES + 1) * W + lane] = 0.0
                if is_complete(inputs, task, p):
                    task.complete[p] = 1

    return prove_complete

"""Data of the kernel of proofs, and what its parts have in common."""

import typing
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches

WAITS = -1  # proof of a target that is left to phase 1
# Places of the packet's memory, in the order of `ProofSource.inputs`
TOOL, TOLERANCES, LIMITS = 7, 14, 16
# Places of the numbers of a branch, in the order of `BranchNumbers`
REFUSED, RADIUS, MARGIN, FIRST_ANGLE = range(4)


@wp.struct
class ProofTask:
    """Data of the kernel; int32 unless said."""

    fault: wp.array[wp.int32]  # [parts]: 1 if the part must not be solved
    count: wp.array[wp.int32]  # number of problems, in entry 0
    problem: wp.array[wp.int32]  # [count]: problems in ascending order
    island: int  # the island's number in each
    settings: wp.array[wp.int32]
    tolerances: wp.array[wp.float64]  # [2]: of the verdict
    positions: wp.array2d[wp.float32]  # [problems, 3]: target
    orientations_xyzw: wp.array2d[wp.float32]  # [problems, 4]
    tool: wp.array[wp.transformd]  # [1 or problems]: T_link_tool
    dof: wp.array[wp.int32]  # active DOF of each joint of the arm
    limit_lower: wp.array2d[wp.float64]  # [1 or problems, active_dof_count]
    limit_upper: wp.array2d[wp.float64]
    searches: Searches
    best: BestAttempts  # of each problem so far
    place: wp.array[wp.int32]  # place of each joint of the arm among the DOFs of the island
    column: wp.array[wp.int32]  # column in joint_q of each joint of the arm
    start_joint_q: wp.array2d[wp.float32]  # [problems, joint_coord_count]
    starts: int  # 1 if branches are starts
    held: wp.array[wp.int32]  # columns in joint_q of locked joints on the way
    held_q: wp.array[wp.float32]  # their values in the closed form; a start may lock them elsewhere
    # of `reach`
    chain: wp.array[wp.float64]  # [4]: point of the first joint in the world, and length from there to the link [m]
    in_threads: int  # 1 with a thread for each problem
    # of `searched_branches`
    attempt_joint_q: wp.array2d[wp.float32]  # [problems x seeds, joint_coord_count]: starts of attempts
    spacing: wp.array[wp.float32]  # [1]: least difference of two solutions [rad]
    # of `complete_sets`
    chosen: wp.array3d[wp.int32]  # [problems, trees, solutions]: seeds of the solutions
    solution_count: wp.array[wp.int32]  # [problems]
    complete: wp.array[wp.int32]  # [problems]: 1 if there are no other solutions
    # of `self_motion`, whose samples are in `attempt_joint_q`
    sample_count: wp.array[wp.int32]  # [problems]
    sample_value: wp.array2d[wp.float32]  # [problems x samples, 3]: margin without the last joint, volume, last joint


TaskRef: Any = reference_to(ProofTask)


@dataclass(frozen=True)
class FirstPhase:
    """A kernel with the arguments of the kernel of an arm's proofs, of phase 0 alone."""

    kernel: wp.Kernel
    has_rest: bool = False  # whether phase 1 proves more


@typing.no_type_check
def number_at(Numbers: Any) -> Any:
    """Return the function (numbers, place) -> number; an index on a reference would first copy all numbers."""
    NumbersRef: Any = reference_to(Numbers)
    Number: Any = Numbers._wp_scalar_type_

    @wp.func_native("return numbers.c[place];")
    def at(numbers: NumbersRef, place: int) -> Number: ...

    return at


@typing.no_type_check
def reading_of(Inputs: Any, W: int, JOINTS: int) -> tuple[Any, Any]:
    """Return the functions (inputs, lane, task, problem) that give a lane the target, and all else but the target."""
    InputsRef: Any = reference_to(Inputs)

    @wp.func
    def read_target(inputs: InputsRef, lane: int, task: TaskRef, p: int):
        for k in range(3):
            inputs[k * W + lane] = task.positions[p, k]
        for k in range(4):
            inputs[(3 + k) * W + lane] = task.orientations_xyzw[p, k]

    @wp.func
    def read_rest(inputs: InputsRef, lane: int, task: TaskRef, p: int):
        tool = task.tool[wp.min(p, task.tool.shape[0] - 1)]
        for k in range(7):
            inputs[(TOOL + k) * W + lane] = float(tool[k])
        for k in range(2):
            inputs[(TOLERANCES + k) * W + lane] = float(task.tolerances[k])
        line = wp.min(p, task.limit_lower.shape[0] - 1)
        for k in range(JOINTS):
            inputs[(LIMITS + k) * W + lane] = float(task.limit_lower[line, task.dof[k]])
            inputs[(LIMITS + JOINTS + k) * W + lane] = float(task.limit_upper[line, task.dof[k]])

    return read_target, read_rest


@wp.func
@typing.no_type_check
def is_as_locked(task: TaskRef, p: int):
    """Return whether the locked joints of a problem have the values of the closed form."""
    same = bool(True)
    for k in range(task.held.shape[0]):
        same = same and task.start_joint_q[p, task.held[k]] == task.held_q[k]
    return same


@typing.no_type_check
def range_of_last(Inputs: Any, W: int, JOINTS: int) -> Any:
    """Return the function (inputs) -> lower end and width of the last joint's range, the middle turn of a wider one."""
    InputsRef: Any = reference_to(Inputs)
    at = number_at(Inputs)

    @wp.func
    def range_of(inputs: InputsRef):
        lower = at(inputs, (LIMITS + JOINTS - 1) * W)
        upper = at(inputs, (LIMITS + 2 * JOINTS - 1) * W)
        if not (upper - lower < 2.0 * wp.PI):
            middle = 0.5 * (lower + upper)
            lower = wp.where(wp.isfinite(middle), middle, 0.0) - wp.PI
            upper = lower + 2.0 * wp.PI
        return wp.vec2(lower, upper - lower)

    return range_of

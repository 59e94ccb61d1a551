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

"""Verdict on all solutions of an arm from branches: a packet has solutions of one problem, in float64."""

import typing

import warp as wp

from ik_service.kernels import typed_warp
from ik_service.solver.arrays.limit_arrays import Turns, turn_towards_start
from ik_service.solver.arrays.parts import SOLVE_BRANCHES, first_problem
from ik_service.solver.compiled.solution_ranking import AttemptArrays
from ik_service.solver.given.targets import FRAMES
from ik_service.solver.lm.codes import SEEDS
from ik_service.solver.verdict.composition import misses
from ik_service.solver.verdict.float64_kinematics import TWO_PACKETS, Kinematics, KinematicsRef, packet_function

SOLUTION_ERRORS = packet_function(
    "target_errors", line="p * solutions + 1 + own", lanes=TWO_PACKETS, frames=", ".join(map(str.upper, FRAMES))
)


@typed_warp.func_native(SOLUTION_ERRORS)
def write_solution_errors(
    p: int,
    place: int,
    left: int,
    robot: KinematicsRef,
    joint_q: wp.array2d[wp.float32],
    solutions: int,
    target: int,
    targets: int,
    tool: wp.array[wp.transformd],
    has_reference: int,
    positions: wp.array3d[wp.float64],
    orientations_xyzw: wp.array3d[wp.float64],
    row_weights: wp.array2d[float],
    frame: int,
    deadband: wp.array2d[float],
    position_error_out: wp.array2d[wp.float64],
    orientation_error_out: wp.array2d[wp.float64],
) -> None:
    """Write the errors of a target for solutions of a problem, from number `place + 1` on."""


@wp.kernel(module=SOLVE_BRANCHES, enable_backward=False)
@typing.no_type_check
def keep_branches(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # solutions of one arm
    turns: Turns,
    attempts: AttemptArrays,
    solution_count: wp.array[wp.int32],  # [problems]
    branch: wp.array2d[wp.int32],  # [problems, solutions]
    # verdict of the first one
    success: wp.array[wp.bool],  # [problems]
    joint_q: wp.array2d[float],  # [problems, joint_coord_count]
    # their one target, see `verification`
    tolerances: wp.array[wp.float64],  # [2]
    robot: Kinematics,
    target: int,
    targets: int,
    tool: wp.array[wp.transformd],
    has_reference: int,
    positions: wp.array3d[wp.float64],
    orientations_xyzw: wp.array3d[wp.float64],
    row_weights: wp.array2d[float],
    frame: int,
    deadband: wp.array2d[float],
    # out
    position_error: wp.array2d[wp.float64],  # [problems x solutions, 1]
    orientation_error: wp.array2d[wp.float64],  # [problems x solutions, 1]
    kept: wp.array[wp.int32],  # as of `keep_verified`
    answer: wp.array[wp.int32],
    kept_branch: wp.array2d[wp.int32],
    kept_joint_q: wp.array2d[float],  # [problems x solutions, joint_coord_count]
):
    """Judge all solutions of each problem, and keep the successful ones."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    count = solution_count[p]
    solutions = wp.max(kept_branch.shape[1], 0)
    k = int(0)
    while k < wp.max(count, 1):
        row = wp.max(p * settings[SEEDS] + attempts.chosen[p, 0, k], 0)
        c = int(0)
        while c < joint_q.shape[1]:
            q = joint_q[p, c]
            if k > 0:
                q = attempts.answers.joint_q[row, c]
            kept_joint_q[p * solutions + k, c] = q
            c += 1
        if k > 0:
            turn_towards_start(turns, settings, attempts.start_joint_q, p, kept_joint_q, p * solutions + k)
        k += 1
    k = int(1)
    while k < count:
        write_solution_errors(
            p,
            k - 1,
            count - k,
            robot,
            kept_joint_q,
            solutions,
            target,
            targets,
            tool,
            has_reference,
            positions,
            orientations_xyzw,
            row_weights,
            frame,
            deadband,
            position_error,
            orientation_error,
        )
        k += 1
    place = int(0)
    answer[p] = 0
    k = int(0)
    while k < wp.max(count, 1):
        line = p * solutions + k
        passes = bool(success[p])
        if k > 0:
            missed = misses(position_error[line, 0], tolerances[0]) or misses(orientation_error[line, 0], tolerances[1])
            passes = not missed
        if passes:
            if place == 0:
                answer[p] = k
            kept_branch[p, place] = branch[p, k]
            c = int(0)
            while place < k and c < joint_q.shape[1]:
                kept_joint_q[p * solutions + place, c] = kept_joint_q[line, c]
                c += 1
            place += 1
        k += 1
    kept[p] = place
    while place < solutions:
        kept_branch[p, place] = -1
        c = int(0)
        while c < joint_q.shape[1]:
            kept_joint_q[p * solutions + place, c] = wp.nan
            c += 1
        place += 1

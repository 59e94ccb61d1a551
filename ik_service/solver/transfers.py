"""Kernels for transfers between arrays of a caller and arrays of a solver, on one device.

Numbers refused by `solve` become NaN here, because the host never reads them: such a problem ends as `INVALID`.
"""

import math
import typing
from typing import Any

import warp as wp

from ik_service.solver.arrays.input_kernels import LARGEST, SHORTEST, SLACK, InputArrays
from ik_service.solver.arrays.parts import SOLVE_ON_DEVICE
from ik_service.solver.lm.coordinates import StartCoordinates

NAN = wp.constant(wp.float64(math.nan))


@wp.kernel(module=SOLVE_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _stage_positions(
    given: wp.array2d[Any],  # [problems, 3]
    target: int,
    # out
    staged_out: wp.array3d[wp.float64],  # [problem_capacity, targets, 3]
):
    p = wp.tid()
    for k in range(3):
        x = wp.float64(given[p, k])
        if not (wp.abs(x) <= LARGEST):
            x = NAN
        staged_out[p, target, k] = x


@wp.kernel(module=SOLVE_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _stage_orientations(
    given: wp.array2d[Any],  # [problems, 4]
    target: int,
    first: int,  # column of x: 0, or 1 in quaternions wxyz
    # out
    staged_out: wp.array3d[wp.float64],  # [problem_capacity, targets, 4]
):
    p = wp.tid()
    length2 = wp.float64(0.0)
    for k in range(4):
        x = wp.float64(given[p, (k + first) % 4])
        length2 += x * x
        staged_out[p, target, k] = x
    if not (wp.abs(wp.sqrt(length2) - wp.float64(1.0)) <= SLACK):
        staged_out[p, target, 0] = NAN


@wp.kernel(module=SOLVE_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _stage_starts(
    given: wp.array2d[Any],  # [1 or problems, the caller's coordinates]
    coordinate: wp.array[wp.int32],  # [the caller's coordinates]: the robot's coordinate of each
    robot: StartCoordinates,
    has: wp.array[wp.int32],  # [1 + 2 x targets]: see `InputArrays`
    # out
    staged_out: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    positions_out: wp.array3d[wp.float64],  # [problem_capacity, targets, 3]: NaN where the start is faulty
    orientations_xyzw_out: wp.array3d[wp.float64],  # [problem_capacity, targets, 4]
):
    p = wp.tid()
    line = wp.min(p, given.shape[0] - 1)
    for c in range(staged_out.shape[1]):
        staged_out[p, c] = wp.float64(robot.mid_joint_q[c])
    is_sound = bool(True)
    for k in range(coordinate.shape[0]):
        x = wp.float64(given[line, k])
        is_sound = is_sound and wp.abs(x) <= LARGEST
        staged_out[p, coordinate[k]] = x
    for k in range(robot.quaternion.shape[0]):
        length2 = wp.float64(0.0)
        for m in range(4):
            x = staged_out[p, robot.quaternion[k] + m]
            length2 += x * x
        is_sound = is_sound and wp.sqrt(length2) >= SHORTEST
    if not is_sound:
        for c in range(staged_out.shape[1]):
            staged_out[p, c] = wp.float64(robot.mid_joint_q[c])
        for target in range((has.shape[0] - 1) / 2):
            if has[1 + 2 * target] == 1:
                positions_out[p, target, 0] = NAN
            if has[2 + 2 * target] == 1:
                orientations_xyzw_out[p, target, 0] = NAN


@wp.kernel(module=SOLVE_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _take_columns(
    values: wp.array2d[Any],  # [problem_capacity, the robot's columns]
    column: wp.array[wp.int32],  # [the caller's columns]
    # out
    taken_out: wp.array2d[Any],  # [problems, the caller's columns]
):
    p = wp.tid()
    for k in range(column.shape[0]):
        taken_out[p, k] = values[p, column[k]]


for dtype in (wp.float32, wp.float64):
    numbers: Any = wp.array2d(dtype=dtype)
    wp.overload(_stage_positions, {"given": numbers})
    wp.overload(_stage_orientations, {"given": numbers})
    wp.overload(_stage_starts, {"given": numbers})
    wp.overload(_take_columns, {"values": numbers, "taken_out": numbers})
wp.overload(_take_columns, {"values": wp.array2d(dtype=wp.bool), "taken_out": wp.array2d(dtype=wp.bool)})


def stage_target(
    inputs: InputArrays,
    target: int,
    positions: "wp.array[Any] | None",  # [n, 3] or None
    orientations: "wp.array[Any] | None",  # [n, 4] or None
    *,
    first: int,  # column of x in the orientations
) -> None:
    """Launch the copy of a target into the staging arrays."""
    if positions is not None:
        given: list[Any] = [positions, target, inputs.positions.device]
        wp.launch(_stage_positions, len(positions), given, device=positions.device)
    if orientations is not None:
        given = [orientations, target, first, inputs.orientations_xyzw.device]
        wp.launch(_stage_orientations, len(orientations), given, device=orientations.device)


def stage_starts(inputs: InputArrays, starts: wp.array[Any], count: int, coordinate: wp.array[Any]) -> None:
    """Launch the copy of the starts [1 or n, the caller's coordinates], after the targets."""
    # `coordinate`: the robot's coordinate of each column
    given = [starts, coordinate, inputs.start_coordinates, inputs.given.device, inputs.starts.device]
    given += [inputs.positions.device, inputs.orientations_xyzw.device]
    wp.launch(_stage_starts, count, given, device=starts.device)


def take_column(values: wp.array[Any], taken: wp.array[Any], column: "wp.array[Any] | None") -> None:
    """Launch the copy of a column of the answers into `taken` [problems, ...]."""
    # `column`: the robot's coordinates or DOFs to take; None for all
    if column is None:
        wp.copy(taken, values, count=taken.size)
    else:
        wp.launch(_take_columns, len(taken), [values, column, taken], device=taken.device)

"""Arrays of a caller on the device of the solver: checks of device, type and shape, and kernels for transfers.

The host never reads the numbers: numbers refused by `solve` become NaN here, and such a problem ends as `INVALID`.
"""

import math
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from ik_service.solver.arrays.input_kernels import LARGEST, SHORTEST, SLACK, InputArrays
from ik_service.solver.arrays.parts import SOLVE_ON_DEVICE
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.coordinates import StartCoordinates
from objectives import InputError

FLOAT_TYPES = (wp.float32, wp.float64)


def device_array(name: str, value: Any, device: wp.Device) -> wp.array[Any]:
    """Return a view of an array of numbers on a device: a Warp array, or anything with `__dlpack__`."""
    # Raises InputError for no array, another device, or another type than float32 and float64
    array: Any = value
    if not isinstance(value, wp.array) or value.dtype not in FLOAT_TYPES:  # vectors are viewed as lines of numbers
        try:
            array = wp.from_dlpack(value)
        except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as error:
            raise InputError(f"{name} is not an array on a device: {error}") from error
    if array.device != device:
        raise InputError(f"{name} is on {array.device}. Allowed: {device}, where the solver is.")
    if array.dtype not in FLOAT_TYPES:
        raise InputError(f"{name} is of {array.dtype.__name__}. Allowed: float32 and float64.")
    found: wp.array[Any] = array
    return found


def device_columns(
    name: str, value: Any, target_count: int, width: int, device: wp.Device
) -> "list[wp.array[Any] | None]":
    """Split an array by target: [n, width] or None for each."""
    # `value` is [n, width] for one target, [n, targets, width] for several, or a list with one array [n, width] or None
    # per target, or None. Raises InputError for another device, or a bad type or shape.
    if value is None:
        return [None] * target_count
    if type(value) in (list, tuple):
        if len(value) != target_count:
            raise InputError(
                f"{name} has {len(value)} arrays. Allowed: one or None for each of {target_count} targets."
            )
        named = [(f"{name}[{k}]", one) for k, one in enumerate(value)]
        return [None if one is None else _shaped(own, device_array(own, one, device), width) for own, one in named]
    array = device_array(name, value, device)
    if target_count == 1 and array.ndim == 2:
        return [_shaped(name, array, width)]
    if array.ndim != 3 or array.shape[1:] != (target_count, width):
        raise InputError(f"{name} have shape {list(array.shape)}. Allowed: [n, {target_count}, {width}].")
    return [array[:, k] for k in range(target_count)]


def problem_count(targets: Sequence[Target], columns: "Sequence[wp.array[Any] | None]") -> int:
    """Return the number of problems; InputError for none, arrays of different lengths, or targets without values."""
    counts = {int(array.shape[0]) for array in columns if array is not None}
    if not targets or not counts:
        raise InputError("No target has positions or orientations_xyzw. Give values for at least one.")
    if len(counts) > 1:
        raise InputError(f"The arrays of one solve hold {sorted(counts)} problems. They must agree.")
    if 0 in counts:
        raise InputError("The batch is empty. Give at least one problem.")
    return counts.pop()


def device_starts(value: Any, count: int, width: int, device: wp.Device) -> wp.array[Any]:
    """Return configurations of seed 0, [1 or n, width]; InputError for another device, type or shape."""
    array = device_array("initial_joint_q", value, device)
    if array.shape not in ((width,), (count, width)):
        allowed = f"[{width}] or [{count}, {width}]"
        raise InputError(f"initial_joint_q has shape {list(array.shape)}. Allowed: {allowed}.")
    return array.reshape((1, width)) if array.ndim == 1 else array


def check_outputs(
    out: "Mapping[str, wp.array[Any]]", wanted: "Mapping[str, tuple[tuple[int, ...], Any]]", device: wp.Device
) -> None:
    """Check a caller's output arrays against the required shape and type of each column."""
    # Raises InputError for a missing array, one of another shape, type or device, or one not contiguous
    for name, (shape, dtype) in wanted.items():
        array = out.get(name)
        if array is None:
            raise InputError(f"out lacks '{name}'. Give what an earlier solve has returned.")
        found = (array.shape, array.dtype, array.device, array.is_contiguous)
        if found != (shape, dtype, device, True):
            raise InputError(
                f"out['{name}'] is {array.dtype.__name__} {list(array.shape)} on {array.device}. "
                f"Allowed: contiguous {dtype.__name__} {list(shape)} on {device}."
            )


def _shaped(name: str, array: wp.array[Any], width: int) -> wp.array[Any]:
    if array.ndim != 2 or array.shape[1] != width:
        raise InputError(f"{name} have shape {list(array.shape)}. Allowed: [n, {width}].")
    return array


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

"""Arrays of a caller on the solver's device: checks of device, type and shape. Their numbers stay unread."""

from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from ik_service.solver.given.targets import Target
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

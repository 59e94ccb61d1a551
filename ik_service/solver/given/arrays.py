"""A caller's arrays on the host: of NumPy, Warp or another library, whole or by target; shapes and numbers checked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.device_lock import DEVICE_LOCK, device_work
from objectives import InputError
from objectives.data_field import UNIT_TOLERANCE

NUMBER_MAX = 1e9  # squares and sums of larger numbers overflow float32 or mean nothing
CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost: memory that the host reads


def as_numpy(name: str, value: Any) -> Any:
    """Return a NumPy view of a Warp array or of anything with `__dlpack__`, and everything else as it is."""
    # Memory of another device is copied to the host; the view may be read-only. Lists and tuples are converted entry by
    # entry. Raises InputError where the library refuses access to its memory.
    if type(value) is np.ndarray or value is None:
        return value
    if type(value) in (list, tuple):
        return [as_numpy(f"{name}[{k}]", v) for k, v in enumerate(value)] if any(map(_is_foreign, value)) else value
    if not _is_foreign(value):
        return value
    try:
        if isinstance(value, wp.array):
            with device_work(value.device):
                return value.numpy()
        if int(value.__dlpack_device__()[0]) in CPU_DEVICES:
            return np.from_dlpack(value)
        with DEVICE_LOCK:
            shared: Any = wp.from_dlpack(value)
            return shared.numpy()
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error


def _is_foreign(value: Any) -> bool:
    return isinstance(value, wp.array) or (not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"))


def plain_targets(value: object, target_count: int, width: int) -> tuple[NDArray[Any] | None, ...] | None:
    """Split a plain array by target, its numbers unchecked; None for an array that needs `by_target`."""
    if value is None:
        return (None,) * target_count
    if type(value) is np.ndarray and value.dtype.kind == "f":
        if target_count == 1 and value.ndim == 2 and value.shape[1] == width:
            return (value,)
        if value.ndim == 3 and value.shape[1:] == (target_count, width):
            return tuple(value[:, k] for k in range(target_count))
    if type(value) is list and len(value) == target_count and all(_is_plain(array, width) for array in value):
        return tuple(value)
    return None


def _is_plain(array: object, width: int) -> bool:
    if array is None:
        return True
    return type(array) is np.ndarray and array.dtype.kind == "f" and array.ndim == 2 and array.shape[1] == width


def host_array(name: str, value: object, *, may_be_infinite: bool = False) -> NDArray[np.float64]:
    """Return any array as float64 on the host: NumPy, Warp, DLPack or nested sequences."""
    # Raises InputError for no numbers, or numbers that are not finite; the message gives the first one's index
    try:
        array = np.asarray(as_numpy(name, value))
        if array.dtype.kind not in "fiu":
            raise TypeError(f"dtype {array.dtype}")
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise ValueError("some of its numbers are masked; leave their problems out")
        array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    bad = ~(np.abs(array) <= NUMBER_MAX)
    if may_be_infinite:
        bad &= array != np.inf
    if bad.any():
        index = tuple(int(k) for k in np.argwhere(bad)[0])
        allowed = f"finite numbers up to {NUMBER_MAX:g} in size"
        raise InputError(f"{name}{list(index)} is {array[index]}. Allowed: {allowed}.")
    return array


def by_target(name: str, value: object, target_count: int, width: int) -> tuple[NDArray[np.float64] | None, ...]:
    """Split an array by target, its numbers unchecked: [n, width] or None for each; InputError for bad shapes."""
    if value is None:
        return (None,) * target_count
    if target_count == 0:
        raise InputError(f"{name} are given, but the solver has no targets. Give IKSolver targets=[...].")
    if isinstance(value, list | tuple) and _is_per_target(value, target_count):
        return tuple(
            None if entry is None else _shaped(f"{name}[{k}]", host_array(f"{name}[{k}]", entry), width)
            for k, entry in enumerate(value)
        )
    array = host_array(name, value)
    if target_count == 1 and array.shape == (width,):  # one problem
        array = array[None]
    if target_count == 1 and array.ndim == 2:
        return (_shaped(name, array, width),)
    if array.ndim != 3 or array.shape[1:] != (target_count, width):
        allowed = f"[n, {target_count}, {width}]" + (f", [n, {width}] or [{width}]" if target_count == 1 else "")
        raise InputError(f"{name} have shape {list(array.shape)}. Allowed: {allowed}.")
    return tuple(array[:, k] for k in range(target_count))


def _is_per_target(value: Sequence[Any], target_count: int) -> bool:
    """A list of one array or None per target, not a nested list of numbers."""
    return len(value) == target_count and all(
        entry is None or isinstance(entry, wp.array) or (hasattr(entry, "ndim") and entry.ndim == 2) for entry in value
    )


def _shaped(name: str, array: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    if array.ndim != 2 or array.shape[1] != width:
        raise InputError(f"{name} have shape {list(array.shape)}. Allowed: [n, {width}].")
    return array


def unit_quaternions(name: str, quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return quaternions [n, 4] at exactly unit length; InputError where one is off by more than UNIT_TOLERANCE."""
    length = np.linalg.norm(quaternions, axis=1)
    bad = np.flatnonzero(np.abs(length - 1.0) > UNIT_TOLERANCE)
    if bad.size:
        raise InputError(
            f"{name}: the quaternion of line {bad[0]} is {quaternions[bad[0]].tolist()}, of length "
            f"{length[bad[0]]:.6g}. Allowed: unit quaternions, off by {UNIT_TOLERANCE} at most."
        )
    return np.asarray(quaternions / length[:, None])


def consecutive(indices: NDArray[Any]) -> NDArray[Any] | slice:
    """Return ascending indices as a slice if each is one more than the last: columns are then read without a copy."""
    if len(indices) and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices

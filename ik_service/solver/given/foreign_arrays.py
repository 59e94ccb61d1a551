"""Arrays of other libraries as NumPy arrays: without a copy where the host can read their memory."""

from typing import Any

import numpy as np
import warp as wp

from ik_service.kernels.device_lock import DEVICE_LOCK, turn_on
from objectives import InputError

CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost: memory that the host reads


def as_numpy(name: str, value: Any) -> Any:
    """Return a NumPy view of a Warp array or of anything with `__dlpack__`, and everything else as it is."""
    # Memory of another device is copied to the host; the view may be read-only. Of a list or tuple every entry is seen
    # so. Raises InputError where the library does not give its memory away.
    if type(value) is np.ndarray or value is None:
        return value
    if type(value) in (list, tuple):
        return [as_numpy(f"{name}[{k}]", v) for k, v in enumerate(value)] if any(map(_is_foreign, value)) else value
    if not _is_foreign(value):
        return value
    try:
        if isinstance(value, wp.array):
            with turn_on(value.device):
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

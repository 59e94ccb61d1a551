"""A device array and its view or copy on the host, made once: wrapping arrays again would cost more than a solve.

Copies use page-locked memory and the device's stream, so they can be recorded with the launches; a reader on the host
waits once for all of them. A copy of a few numbers takes as long as a copy of thousands: small arrays copied at the
same time share a block.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 18
ARRAY_ALIGNMENT = 16  # bytes


def has_host_copy(device: wp.Device) -> bool:
    """Return whether the memory of a device is hidden from the host."""
    return bool(device.is_cuda)


@cache
def side_stream(device: str) -> wp.Stream | None:
    """Return a second stream of a named device, for copies, made with the device locked; None for a CPU."""
    found = wp.get_device(device)
    return wp.Stream(found) if found.is_cuda else None


class HostDeviceArray:
    """An array visible to host and device.

    If the host sees the memory of the device, both are the same array, and nothing is copied.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: wp.Device,
        *,
        per_problem: bool = True,  # whether there is a line for every problem; otherwise the array is copied as a whole
        block: "HostDeviceBlock | None" = None,  # block to share with other arrays, if there is room
    ) -> None:
        self._per_problem = per_problem
        self.has_host_copy = has_host_copy(device)  # whether host and device have separate memory
        taken = None if block is None else block.take(shape, dtype)
        self.block = None if taken is None else block  # None for an array with its own memory
        self.device: wp.array[Any]
        self._copied: wp.array[Any] | None = None
        if taken is not None:
            self.device, self._copied = taken
        else:
            self.device = wp.zeros(shape, dtype=dtype, device=device)
            if self.has_host_copy:
                self._copied = wp.zeros(shape, dtype=dtype, device="cpu", pinned=device.is_cuda)
        self.host: NDArray[Any] = (self._copied if self._copied is not None else self.device).numpy()

    def push(self, count: int) -> None:
        """Copy the numbers of `count` problems from the host to the device."""
        if self._copied is not None:
            wp.copy(self.device, self._copied, count=self._numbers(count))

    def push_now(self, place: int) -> None:
        """Copy one number from the host to the device at once, in any state of the device's stream; from any thread.

        Twice, because a copy of its old value may be running, among the numbers of a solve.
        """
        if self._copied is None:
            return
        stream = side_stream(str(self.device.device))
        for _ in range(2):
            wp.copy(self.device, self._copied, dest_offset=place, src_offset=place, count=1, stream=stream)
            if stream is not None:
                wp.synchronize_stream(stream)

    def fetch(self, count: int) -> None:
        """Copy the numbers of `count` problems from the device to the host."""
        if self._copied is not None:
            wp.copy(self._copied, self.device, count=self._numbers(count))

    def read(self, count: int) -> NDArray[Any]:
        """Return a copy of the lines of `count` problems; fetches must have been waited for."""
        return np.array(self.host[:count])

    def _numbers(self, count: int) -> int:
        return count * (self.device.size // self.device.shape[0]) if self._per_problem else self.device.size


class HostDeviceBlock(HostDeviceArray):
    """Memory for arrays copied together, all lines at once, on a device separate from the host."""

    def __init__(self, device: wp.Device) -> None:
        super().__init__((BLOCK_BYTES,), wp.uint8, device, per_problem=False)
        self._taken = 0

    def take(self, shape: tuple[int, ...], dtype: Any) -> list[Any] | None:
        """Return an array on the device and its copy on the host, or None without room."""
        size = math.prod(shape) * int(wp.types.type_size_in_bytes(dtype))
        first = -(-self._taken // ARRAY_ALIGNMENT) * ARRAY_ALIGNMENT
        if size == 0 or first + size > BLOCK_BYTES:
            return None
        self._taken = first + size
        memories: list[Any] = [self.device, self._copied]
        pair: list[Any] = []
        for memory in memories:
            pair.append(wp.array(ptr=memory.ptr + first, dtype=dtype, shape=shape, device=memory.device))
            pair[-1].memory = memory  # as long as the array is held
        return pair

    def _numbers(self, count: int) -> int:
        return self._taken


def block_on(device: wp.Device) -> HostDeviceBlock | None:
    """Return a block for arrays on a device; None if the host sees its memory."""
    return HostDeviceBlock(device) if has_host_copy(device) else None


def copied_together(arrays: Sequence[HostDeviceArray]) -> list[HostDeviceArray]:
    """Return the copies needed for arrays: arrays with their own memory, and each shared block once."""
    return list(dict.fromkeys(array if array.block is None else array.block for array in arrays))


class HostColumns:
    """Arrays by name, read together, line by line of problems."""

    def __init__(self, arrays: Mapping[str, HostDeviceArray]) -> None:
        self._arrays = {name: array.host for name, array in arrays.items()}
        self._count, self._lines = -1, tuple[tuple[str, NDArray[Any]], ...]()

    def read(self, count: int) -> dict[str, Any]:
        """Return copies of the lines of `count` problems by name; fetches must have been waited for."""
        if count != self._count:  # equal counts reuse the slices
            self._lines = tuple((name, array[:count]) for name, array in self._arrays.items())
            self._count = count
        return {name: lines.copy() for name, lines in self._lines}


def wait(device: wp.Device) -> None:
    """Wait until a device has finished all launches and copies."""
    if device.is_cuda:
        wp.synchronize_stream(device.stream)

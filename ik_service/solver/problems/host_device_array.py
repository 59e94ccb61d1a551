"""A device array and its view or copy on the host, made once: wrapping arrays anew would cost more than a solve.

Copies go through page-locked memory and take their turn among the launches of the device, so they can be recorded with
them; whoever reads on the host waits once for all of them.
"""

from collections.abc import Mapping
from typing import Any

import warp as wp
from numpy.typing import NDArray


def has_host_copy(device: wp.Device) -> bool:
    """Return whether the host does not see the memory of a device."""
    return bool(device.is_cuda)


class HostDeviceArray:
    """An array that host and device both see.

    Where the host sees the memory of the device both are the same, and nothing is copied.

    Args:
        shape: Its shape.
        dtype: Warp type of the elements.
        device: Where it lives.
        per_problem: Whether it has a line for every problem; otherwise it is copied as a whole.

    Attributes:
        per_problem: As given.
        device: The Warp array.
        host: The NumPy array.
        has_host_copy: Whether they are two, between which numbers are copied.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: wp.Device, *, per_problem: bool = True) -> None:
        self.per_problem = per_problem
        self.device: wp.array[Any] = wp.zeros(shape, dtype=dtype, device=device)
        self._copied: wp.array[Any] | None = None
        self.has_host_copy = has_host_copy(device)
        if self.has_host_copy:
            self._copied = wp.zeros(shape, dtype=dtype, device="cpu", pinned=device.is_cuda)
        self.host: NDArray[Any] = (self._copied if self._copied is not None else self.device).numpy()

    def push(self, count: int) -> None:
        """Have what `count` problems need copied from the host to the device."""
        if self._copied is not None:
            wp.copy(self.device, self._copied, count=self._numbers(count))

    def fetch(self, count: int) -> None:
        """Have what `count` problems need copied from the device to the host."""
        if self._copied is not None:
            wp.copy(self._copied, self.device, count=self._numbers(count))

    def read(self, count: int) -> NDArray[Any]:
        """Return a copy of the lines of `count` problems, once what was fetched has been waited for."""
        copied: NDArray[Any] = self.host[:count].copy()
        return copied

    def _numbers(self, count: int) -> int:
        return count * (self.device.size // self.device.shape[0]) if self.per_problem else self.device.size


class HostColumns:
    """Arrays that are read together, line by line of problems.

    Args:
        arrays: The arrays by name.
    """

    def __init__(self, arrays: Mapping[str, HostDeviceArray]) -> None:
        self._arrays = {name: array.host for name, array in arrays.items()}
        self._count, self._lines = -1, tuple[tuple[str, NDArray[Any]], ...]()

    def read(self, count: int) -> dict[str, Any]:
        """Return copies of the lines of `count` problems by name, once what was fetched has been waited for."""
        if count != self._count:  # solves of as many problems as the last slice nothing
            self._lines = tuple((name, array[:count]) for name, array in self._arrays.items())
            self._count = count
        return {name: lines.copy() for name, lines in self._lines}


def wait(device: wp.Device) -> None:
    """Wait until a device has finished all launches and copies."""
    if device.is_cuda:
        wp.synchronize_stream(device.stream)

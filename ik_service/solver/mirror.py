"""A device array and its view or copy on the host, made once: wrapping arrays anew would cost more than a solve."""

from typing import Any

import warp as wp
from numpy.typing import NDArray


class Mirror:
    """An array that host and device both see.

    On a CPU both are the same memory; else `push` and `pull` copy.

    Args:
        shape: Its shape.
        dtype: Warp type of the elements.
        device: Where it lives.

    Attributes:
        device: The Warp array.
        host: The NumPy array.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: wp.Device) -> None:
        self.device: wp.array[Any] = wp.zeros(shape, dtype=dtype, device=device)
        self._copied: wp.array[Any] | None = None
        if device.is_cuda:
            self._copied = wp.zeros(shape, dtype=dtype, device="cpu", pinned=True)
        self.host: NDArray[Any] = (self._copied if self._copied is not None else self.device).numpy()

    def push(self, lines: int | None = None) -> None:
        """Bring the first lines, or all, from the host to the device."""
        if self._copied is not None:
            wp.copy(self.device, self._copied, count=self._count(lines))

    def pull(self, lines: int) -> NDArray[Any]:
        """Return a copy of the first lines on the host."""
        if self._copied is not None:
            wp.copy(self._copied, self.device, count=self._count(lines))
            wp.synchronize_device(self.device.device)
        copied: NDArray[Any] = self.host[:lines].copy()
        return copied

    def _count(self, lines: int | None) -> int:
        return self.device.size if lines is None else lines * (self.device.size // self.device.shape[0])

"""Locks of a device: the lock held to launch, copy or record, and the exclusion of CPU launches from recordings.

Warp records one graph and one tape at a time per process. While Warp records, launches and copies of other threads
would become part of the recording. So everything takes turns by `DEVICE_LOCK`, except the kernels of the compiled
engine on a CPU: they run side by side. These launches are not recorded, yet write to Warp's state of the recording. So
a recording waits until none of them is running, and none begins before the recording ends.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import warp as wp

DEVICE_LOCK = threading.RLock()
WAIT_S = 2e-3
"""How long a recording waits for launches that are under way; after that it is left for another time."""
POLL_S = 1e-4


class SideBySide:
    """A block that may run beside others in other threads, but not beside a recording."""

    def __init__(self) -> None:
        self._under_way = list[None]()  # an entry for each block; appending and removing one is atomic
        self._append, self._pop = self._under_way.append, self._under_way.pop
        self._is_recording, self._recorded = False, threading.Event()

    def __enter__(self) -> None:
        """Begin a block, after any recording has ended."""
        self._append(None)  # a recording sets its flag, then reads this list: one of the two sees the other
        while self._is_recording:
            self._pop()
            self._recorded.wait()
            self._append(None)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pop()

    @contextmanager
    def recording(self) -> Iterator[bool]:
        """Hold off blocks of other threads, with the device lock held; yield whether none is running."""
        self._recorded.clear()
        self._is_recording = True
        try:
            until = time.monotonic() + WAIT_S
            while self._under_way and time.monotonic() < until:
                time.sleep(POLL_S)
            yield not self._under_way
        finally:
            self._is_recording = False
            self._recorded.set()


_ON_CPU = SideBySide()


def device_work(device: wp.Device | None) -> AbstractContextManager[object]:
    """Return the context to hold while a device works: exclusive on a GPU, beside other threads on a CPU."""
    return DEVICE_LOCK if device is not None and device.is_cuda else _ON_CPU


def recording() -> AbstractContextManager[bool]:
    """Return the context to hold while Warp records, beside the device lock; yields whether launches ended in time."""
    return _ON_CPU.recording()


def is_lost(device: wp.Device) -> bool:
    """Return whether a GPU is lost: an error has ended its context, or the GPU is gone."""
    try:
        if device.is_cuda and not device.is_capturing:  # nobody may wait during a recording
            with DEVICE_LOCK:
                wp.synchronize_device(device)
    except RuntimeError:
        return True
    return False

"""The lock that is held to launch, copy or record on a device."""

import threading
from contextlib import AbstractContextManager, nullcontext

import warp as wp

# Warp records one graph and one tape at a time per process, and while it records, launches and copies of other threads
# are taken for part of the recording. So everything takes turns but the kernels of the compiled engine on a CPU, and
# ticks there.
DEVICE_LOCK = threading.RLock()


def turn_on(device: wp.Device | None) -> AbstractContextManager[object]:
    """Return what to hold while a GPU works, which records graphs; nothing for a CPU."""
    return DEVICE_LOCK if device is not None and device.is_cuda else nullcontext()

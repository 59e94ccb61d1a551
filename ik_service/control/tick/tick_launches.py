"""Launches of a tick, their arguments packed once: with so many iterations, or with iterations until a deadline."""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import warp as wp

from ik_service.control.tick.arrays import TickArrays
from ik_service.control.tick.task import ANSWERING, BEGIN, CLEARS, CUT, FINISH, ITERATIONS_NOW, PROPOSING
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.host_device_array import wait

TICK_ITERATIONS_MAX = 100  # of a tick that has a deadline
# Steps of a tick however late it is. A first step that limits of speed cut may lead away from the target; the second
# holds the joints that are at limits. With one alone, a controller that is always late may stay where it is for good.
STEPS_MIN = 2


def packed_launch(kernel: wp.Kernel, dim: int, inputs: Sequence[Any], device: wp.Device) -> Callable[[], None]:
    """Return a function that launches a kernel on these arguments again and again."""
    # It holds the arrays by address: the caller keeps them. On a CPU it neither allocates nor locks, and has ended when
    # it returns; on a GPU it takes its turn on the device's stream.
    recorded = wp.launch(kernel, dim, inputs, device=device, record_cmd=True)
    if device.is_cuda:
        on_stream: Callable[[], None] = recorded.launch
        return on_stream
    # What Warp does in every launch on a CPU, but for packing the arguments anew.
    bounds, *values = recorded.params
    names = [argument.label for argument in kernel.adj.args]
    fields = [(name, type(value)) for name, value in zip(names, values, strict=True)]
    packed = type("Arguments", (ctypes.Structure,), {"_fields_": fields})(*values)
    at_bounds, at_packed, forward = ctypes.byref(bounds), ctypes.byref(packed), recorded.hooks.forward

    def launch(_kept: object = (recorded, bounds, packed)) -> None:  # `forward` has only addresses of these
        forward(at_bounds, at_packed)

    return launch


class ClearanceLaunches(Protocol):
    """Launches of a limit of clearance in a tick, see `ik_service.control.clearance.limit.ClearanceLimit`."""

    keep: Callable[[], None]


class TickLaunches:
    """Launches the kernels of all islands."""

    def __init__(
        self,
        arrays: TickArrays,  # what they work on
        launches: Sequence[Callable[[], None]],  # one for each island
        device: wp.Device,
        clearance: ClearanceLaunches | None = None,  # what keeps a tick clear; None where clearance is no limit
    ) -> None:
        self.launches, self._clearance = tuple(launches), clearance
        self._arrays, self._device, self._settings = arrays, device, arrays.settings.host
        self._iterations_ns = self._answers_ns = (0, 0)  # what the last two took before a deadline

    def run(self, begin: int, finish: int, iterations: int, cut: int = 0) -> None:
        """Launch all islands and wait for them: nothing is under way when it returns, so all arrays may be written."""
        settings = self._settings
        settings[BEGIN], settings[FINISH], settings[ITERATIONS_NOW], settings[CUT] = begin, finish, iterations, cut
        if self._clearance is None:
            self._launch(self.launches)
            return
        self._run_clear(self._clearance)

    def _run_clear(self, clearance: ClearanceLaunches) -> None:
        """The same within a limit of clearance: islands propose where to go, and answer for what becomes of it."""
        settings = self._settings
        settings[CLEARS] = PROPOSING
        self._launch(self.launches)
        if settings[FINISH]:
            settings[BEGIN], settings[ITERATIONS_NOW], settings[CLEARS] = 0, 0, ANSWERING
            self._launch((clearance.keep, *self.launches))

    def _launch(self, launches: Sequence[Callable[[], None]]) -> None:
        if not self._arrays.are_apart:
            for launch in launches:
                launch()
            return
        with DEVICE_LOCK:  # the host does not see the memory of the device
            self._arrays.push()
            for launch in launches:
                launch()
            self._arrays.fetch()
            wait(self._device)

    def run_until(self, deadline_ns: int) -> None:
        """Iterate until a time, or until nothing more can be gained; `STEPS_MIN` steps are always tried."""
        # It stops while there is time for another iteration and the answer, as long as those took before: the shorter
        # of the last two, for now and then the machine does something else
        running, cut = self._arrays.running.host, 0
        self.run(1, 0, STEPS_MIN + 1)
        now = time.monotonic_ns()
        for _ in range(TICK_ITERATIONS_MAX):
            if not running.any():
                break
            if now + min(self._iterations_ns) + min(self._answers_ns) >= deadline_ns:
                cut = 1
                break
            self.run(0, 0, 1)
            before, now = now, time.monotonic_ns()
            self._iterations_ns = self._iterations_ns[1], now - before
        self.run(0, 1, 0, cut)
        self._answers_ns = self._answers_ns[1], time.monotonic_ns() - now

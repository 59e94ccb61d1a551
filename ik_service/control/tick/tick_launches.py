"""Launches of a tick, arguments packed once: with a fixed number of iterations, or until a deadline."""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import warp as wp

from ik_service.control.tick.arrays import TickArrays
from ik_service.control.tick.task import ANSWERING, BEGIN, CLEARS, CUT, FINISH, ITERATIONS_NOW, PROPOSING
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.host_device_array import wait

TICK_ITERATIONS_MAX = 100  # of a tick with a deadline
# Steps of even the latest tick. A first step cut by speed limits may lead away from the target; the second step holds
# the joints at limits. With a single step, a controller that is always late may never move.
STEPS_MIN = 2


_Launch: TypeAlias = Callable[[], None]


def packed_launch(kernel: wp.Kernel, dim: int, inputs: Sequence[Any], device: wp.Device) -> _Launch:
    """Return a function that launches a kernel on these arguments repeatedly.

    The function stores addresses of the arrays: the caller keeps the arrays alive. On a CPU the launch neither
    allocates
    nor locks, and has ended on return; on a GPU the launch is queued in the device's stream.
    """
    recorded = wp.launch(kernel, dim, inputs, device=device, record_cmd=True)
    if device.is_cuda:
        on_stream: _Launch = recorded.launch
        return on_stream
    # The steps of a Warp launch on a CPU, except packing the arguments.
    bounds, *values = recorded.params
    names = [argument.label for argument in kernel.adj.args]
    fields = [(name, type(value)) for name, value in zip(names, values, strict=True)]
    packed = type("Arguments", (ctypes.Structure,), {"_fields_": fields})(*values)
    at_bounds, at_packed, forward = ctypes.byref(bounds), ctypes.byref(packed), recorded.hooks.forward

    def launch(_kept: object = (recorded, bounds, packed)) -> None:  # keeps them alive: `forward` has only addresses
        forward(at_bounds, at_packed)

    return launch


class ClearanceLaunches(Protocol):
    """Launches of a clearance limit in a tick, see `ik_service.control.clearance.limit.ClearanceLimit`."""

    keep: _Launch


class TickLaunches:
    """Launches of the kernels of all islands, and of a clearance limit."""

    def __init__(
        self, arrays: TickArrays, launches: Sequence[_Launch], device: wp.Device, clearance: ClearanceLaunches | None
    ) -> None:
        self.launches, self._clearance = tuple(launches), clearance
        self._arrays, self._device, self._settings = arrays, device, arrays.settings.host
        self._iterations_ns = self._answers_ns = (0, 0)  # durations of the last two before a deadline

    def run(self, begin: int, finish: int, iterations: int, cut: int = 0) -> None:
        """Launch all islands and wait: after the return, all arrays may be written."""
        settings = self._settings
        settings[BEGIN], settings[FINISH], settings[ITERATIONS_NOW], settings[CUT] = begin, finish, iterations, cut
        if self._clearance is None:
            self._launch(self.launches)
            return
        settings[CLEARS] = PROPOSING  # islands propose a configuration, which is made free of contact, and answer
        self._launch(self.launches)
        if finish:
            settings[BEGIN], settings[ITERATIONS_NOW], settings[CLEARS] = 0, 0, ANSWERING
            self._launch((self._clearance.keep, *self.launches))

    def _launch(self, launches: Sequence[_Launch]) -> None:
        if not self._arrays.are_apart:
            for launch in launches:
                launch()
            return
        with DEVICE_LOCK:
            self._arrays.push()
            for launch in launches:
                launch()
            self._arrays.fetch()
            wait(self._device)

    def run_until(self, deadline_ns: int) -> None:
        """Iterate until a time, or until no robot can improve, with at least `STEPS_MIN` steps.

        Iterations stop if the time left is too short for another iteration and the answer. Their durations are
        predicted by the shorter of the last two, because other processes sometimes interrupt.
        """
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

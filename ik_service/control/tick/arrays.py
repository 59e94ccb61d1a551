"""All arrays of a controller, made once: settings, start of a tick, answers; and launches, arguments packed once."""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.control.tick.task import (
    ANSWERING,
    BEGIN,
    CLEARS,
    CUT,
    FINISH,
    ITERATIONS_NOW,
    NUMBERS_COUNT,
    PROPOSING,
    TICK_COLUMNS,
    TICK_SETTINGS_COUNT,
    device_array,
)
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.host_device_array import HostDeviceArray, wait
from ik_service.robots import DeviceModel

POSE = 7  # numbers of a target: position and quaternion xyzw


class TickArrays:
    """The arrays of a controller; `limits` are those of the active DOFs, by their names in `TickTask`."""

    def __init__(
        self, model: DeviceModel, robots: int, targets: int, limits: Mapping[str, NDArray[np.float64]], *, clears: bool
    ) -> None:
        self.clears = clears
        device, dofs, islands = model.device, model.joint_dof_count, max(model.robot.trees.ntree, 1)

        def numbers(*shape: int) -> HostDeviceArray:
            return HostDeviceArray(shape, wp.float64, device, per_problem=False)

        def integers(*shape: int) -> HostDeviceArray:
            return HostDeviceArray(shape, wp.int32, device, per_problem=False)

        self.settings, self.numbers = integers(TICK_SETTINGS_COUNT), numbers(NUMBERS_COUNT)
        # host and device memory are separate, so arrays have to be copied
        self.are_apart = self.settings.has_host_copy
        self.targets = numbers(robots, max(targets, 1), POSE)  # poses, float64 [robots, targets, 7]
        # joint_q: start configurations of a tick, float64 [robots, joint_coord_count]
        # joint_qd: speeds of the last tick, float64 [robots, joint_dof_count]
        self.joint_q, self.joint_qd = numbers(robots, model.joint_coord_count), numbers(robots, dofs)
        self.clearance = numbers(robots)  # of the command [m], infinite without a limit, float64 [robots]
        self.clearance.host[:] = np.inf
        # 1 if more iterations may help, int32 [>= packets, trees]; there are at most as many islands as trees
        self.running = integers(robots, islands)
        extents = {"coordinates": model.joint_coord_count, "dofs": dofs, "islands": islands, "targets": targets}
        # answers of a tick, by their names in `TickTask`
        self.answers = {
            name: (integers if column.dtype == "int32" else numbers)(robots, *(extents[axis] for axis in column.axes))
            for name, column in TICK_COLUMNS.items()
        }
        self._own = {
            "faulty": wp.zeros((robots, islands), dtype=wp.int32, device=device),
            "approach": wp.zeros((robots, islands), dtype=wp.float64, device=device),
            "slowest": wp.zeros((robots, islands), dtype=wp.int32, device=device),
            "at_bound": wp.zeros((robots, dofs), dtype=wp.int32, device=device),
            "reference_before": wp.zeros((robots, model.joint_coord_count), dtype=wp.float64, device=device),
        }
        if clears:
            coordinates = model.joint_coord_count
            for name, columns in (("proposal", coordinates), ("gradient", coordinates), ("hessian", coordinates**2)):
                self._own[name] = wp.zeros((robots, columns), dtype=wp.float64, device=device)
            self._own["near_contact"] = wp.zeros((robots, dofs), dtype=wp.int32, device=device)
        self.has_accelerations = bool(np.isfinite(limits["acceleration"]).any())
        self._limits = {name: device_array(values, wp.float64, device) for name, values in limits.items()}
        for name, column in TICK_COLUMNS.items():
            if column.null:
                self.answers[name].host[:] = np.nan
                self.answers[name].push(robots)

    def kept(self) -> Callable[[], None]:
        """Save all arrays written by ticks; return a function that restores them."""
        hosts = [array.host for array in (*self.answers.values(), self.targets, self.joint_q, self.joint_qd)]
        hosts += [self.numbers.host, self.clearance.host]
        before, own = [host.copy() for host in hosts], {name: wp.clone(array) for name, array in self._own.items()}

        def put_back() -> None:
            for host, values in zip(hosts, before, strict=True):
                host[...] = values
            for name, array in own.items():
                wp.copy(self._own[name], array)

        return put_back

    def of_task(self) -> dict[str, Any]:
        """Return the device arrays shared by all islands, by their names in `TickTask`."""
        given = {"settings": self.settings, "numbers": self.numbers, "joint_q": self.joint_q, "joint_qd": self.joint_qd}
        arrays = given | {"running": self.running} | self.answers
        if self.clears:
            arrays["clearance"] = self.clearance
        return {name: array.device for name, array in arrays.items()} | self._limits | self._own

    def push(self) -> None:
        """Copy inputs of a launch to the device, with the last commands, from which idle and lost joints continue."""
        last = self.answers["joint_q_out"], self.answers["joint_qd_out"]
        for array in (self.settings, self.numbers, self.targets, self.joint_q, self.joint_qd, *last):
            array.push(0)

    def fetch(self) -> None:
        """Copy outputs of a launch to the host: answers, and whether more iterations may help."""
        further = (self.clearance,) if self.clears else ()
        for array in (self.running, *further, *self.answers.values()):
            array.fetch(0)


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

"""All arrays of a controller, made once: settings, start of a tick, answers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.control.tick.task import NUMBERS_COUNT, TICK_COLUMNS, TICK_SETTINGS_COUNT, device_array
from ik_service.kernels.host_device_array import HostDeviceArray
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

"""Verdict on collision: the clearance of the answers, in float64, and its effect on success and status.

The code shares no arithmetic with the check of attempts. Problems run side by side, in the lanes of a SIMD packet.
"""

import typing
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.arrays import CollisionWorlds, ObjectKind, world_bits
from ik_service.collision.body_spheres import BodySpheres
from ik_service.collision.collision_data import CollisionData
from ik_service.collision.world import MAX_ATTACHED
from ik_service.compiler import Lanes, cpu_target
from ik_service.kernels import typed_warp
from ik_service.kernels.host_device_array import HostColumns, HostDeviceArray, wait
from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.parts import SOLVE_IO, first_problem
from ik_service.solver.given.worlds import CheckedWorlds
from ik_service.solver.lm.codes import BLOCKED_BY_COLLISION, PROBLEM_COUNT, SETTINGS_COUNT
from ik_service.solver.verdict.float64_kinematics import (
    Kinematics,
    KinematicsRef,
    float64_kinematics,
    packet_function,
    problems_left,
)

LEAST_ROOM = 16
"""Least number of bodies and links in the generated code; larger numbers are rounded up to powers of two."""


@wp.struct
class ExactSpheres:
    """The spheres of a robot on its bodies; int32 and float64."""

    link_start: wp.array[wp.int32]  # [links + 1]: first sphere of each link
    link_body: wp.array[wp.int32]  # [links], -1 for the world
    bound: wp.array2d[wp.float64]  # [links, 4]: a bounding sphere of each link, centre and radius
    sphere: wp.array2d[wp.float64]  # [spheres, 4]
    pair: wp.array2d[wp.int32]  # [pairs, 2]: links
    bit: wp.array[wp.int32]  # [links], from `world_bits`


@cache
@typing.no_type_check
def clearance_kernel(bodies: int, links: int) -> wp.Kernel:
    """Return the kernel of clearances for robots with at most `bodies` bodies and `links` links with spheres."""
    named = (ObjectKind.CYLINDER, ObjectKind.HALF_SPACE, ObjectKind.GRID)
    kinds = {kind.name.lower(): kind.value for kind in named}
    Spheres: Any = typed_warp.reference_to(ExactSpheres)
    Worlds: Any = typed_warp.reference_to(CollisionWorlds)

    @typed_warp.func_native(packet_function("clearance", bodies=bodies, links=links, **kinds))
    def write_clearance(
        p: int,
        place: int,
        left: int,
        robot: KinematicsRef,
        joint_q: wp.array2d[wp.float64],
        joint_parent: wp.array[wp.int32],
        spheres: Spheres,
        worlds: Worlds,
        margin: wp.array[wp.float64],
        clearance_out: wp.array[wp.float64],
        world_out: wp.array[wp.float64],
        closest_out: wp.array2d[wp.int32],
    ): ...

    @wp.kernel(module="unique", enable_backward=False, module_options={"cpu_compiler_flags": cpu_target().flags})
    def write_clearances(
        settings: wp.array[wp.int32],
        part: int,
        parts: int,
        robot: Kinematics,
        joint_q: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
        joint_parent: wp.array[wp.int32],  # [joint_count]
        spheres: ExactSpheres,
        worlds: CollisionWorlds,
        margin: wp.array[wp.float64],  # [2]: see `CollisionData`
        # out
        clearance_out: wp.array[wp.float64],  # [problem_capacity]
        world_out: wp.array[wp.float64],  # [problem_capacity]
        closest_out: wp.array2d[wp.int32],  # [problem_capacity, 2]
    ):
        k = wp.tid()
        p = first_problem(settings, part, parts) + k
        left = problems_left(settings, part, parts, p)
        write_clearance(
            p, k, left, robot, joint_q, joint_parent, spheres, worlds, margin, clearance_out, world_out, closest_out
        )

    return write_clearances


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _judge_clearance(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    margin: wp.array[wp.float64],  # [2]
    clearance: wp.array[wp.float64],  # [problem_capacity]
    # in and out
    success: wp.array[wp.bool],  # [problem_capacity]
    status: wp.array[wp.int8],  # [problem_capacity]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    if success[p] and (clearance[p] < margin[0] or clearance[p] <= wp.float64(0.0)):
        success[p] = False
        status[p] = wp.int8(BLOCKED_BY_COLLISION)


class CollisionVerdict:
    """Launches to compute clearances and judge them."""

    def __init__(self, model: DeviceModel, data: CollisionData, capacity: int) -> None:
        self._model, self._data, device = model, data, model.device
        self._robot = float64_kinematics(model, ())
        self._of = data.body_spheres
        self._spheres = _exact_spheres(self._of, device)
        links = len(model.robot.body_spheres.links) + MAX_ATTACHED
        self._kernel = clearance_kernel(_room(model.body_count), _room(links))
        self.clearance = HostDeviceArray((capacity,), wp.float64, device)  # [m], [capacity]
        self.world_clearance = HostDeviceArray((capacity,), wp.float64, device)  # of objects alone [m], [capacity]
        # the closest pair: places of links with spheres, then of attached objects, then of objects; -1 for none,
        # [capacity, 2]
        closest = HostDeviceArray((capacity, 2), wp.int32, device)
        self.columns = HostColumns({"clearance": self.clearance, "closest": closest})
        # the columns of `result_schema` written here, by name
        self.written = {"clearance": self.clearance, "world_clearance": self.world_clearance, "closest": closest}

    @property
    def arrays(self) -> tuple[object, object]:
        """The objects with the arrays of worlds and spheres."""
        return self._data.worlds, self._data.body_spheres

    def kernels(self) -> list[wp.Kernel]:
        """Return the kernel generated for the size of the robot."""
        return [self._kernel]

    def steps(
        self, which: Sequence[Any], judged_q: wp.array[Any], success: wp.array[Any], status: wp.array[Any]
    ) -> list[tuple[wp.Kernel, list[Any]]]:
        """Return kernels and arguments, for settings, part and parts, to judge configurations in float64."""
        # Success is withdrawn if clearance is too small
        judge = [*which, self._data.margin, self.clearance.device, success, status]
        return [*self.clearance_steps(which, judged_q), (_judge_clearance, judge)]

    def clearance_steps(self, which: Sequence[Any], judged_q: wp.array[Any]) -> list[tuple[wp.Kernel, list[Any]]]:
        """Return the kernel and arguments, for settings, part and parts, of the clearances of configurations."""
        load_kernels_alone(self._kernel.module, self._model.device)
        if self._of is not self._data.body_spheres:
            self._of = self._data.body_spheres
            self._spheres = _exact_spheres(self._of, self._model.device)
        check = [*which, self._robot, judged_q, self._model.joint_parent, self._spheres, self._data.worlds]
        check += [self._data.margin, *(array.device for array in self.written.values())]
        return [(self._kernel, check)]


class ClearanceCheck:
    """Clearances of any configurations, among worlds that are given before."""

    def __init__(self, model: DeviceModel) -> None:
        self._model, self._data, self._capacity = model, CollisionData(model, Lanes(1)), 0
        self._recorded: tuple[Any, ...] | None = None  # version of the data, with the launch and its inputs

    def use(self, around: CheckedWorlds) -> None:
        """Set the worlds and attached objects; those of a line are for the configuration of this number."""
        self._data.use(*around, 0.0)

    def check(self, joint_q: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Return clearances [m] and closest pairs of configurations, [n, joint_coord_count].

        A launch is recorded once per exchange of arrays: its arguments cost more than a configuration.
        """
        device, count = self._model.device, len(joint_q)
        if count > self._capacity or self._recorded is None or self._recorded[0] != self._data.version:
            self._capacity = max(self._capacity, 1 << max(count - 1, 0).bit_length())
            given = HostDeviceArray((self._capacity, self._model.joint_coord_count), wp.float64, device)
            sizes = HostDeviceArray((SETTINGS_COUNT,), wp.int32, device, per_problem=False)
            verdict = CollisionVerdict(self._model, self._data, self._capacity)
            ((kernel, inputs),) = verdict.clearance_steps([sizes.device, 0, 1], given.device)
            launch = wp.launch(kernel, 1, inputs, device=device, record_cmd=True)
            self._recorded = self._data.version, verdict, sizes, given, launch
        _, verdict, sizes, given, launch = self._recorded
        given.host[:count], sizes.host[PROBLEM_COUNT] = joint_q, count
        for array in (sizes, given):
            array.push(count)
        launch.set_dim(count)
        launch.launch()
        for array in verdict.written.values():
            array.fetch(count)
        wait(device)
        found: dict[str, NDArray[Any]] = verdict.columns.read(count)
        return found


def _room(count: int) -> int:
    return max(LEAST_ROOM, 1 << (count - 1).bit_length())


def _exact_spheres(spheres: BodySpheres, device: wp.Device) -> Any:
    found: Any = ExactSpheres()
    found.link_start = wp.array(spheres.link_start, dtype=wp.int32, device=device)
    found.link_body = wp.array(spheres.link_body, dtype=wp.int32, device=device)
    found.bound = wp.array(spheres.bounds, dtype=wp.float64, device=device)
    found.sphere = wp.array(np.column_stack([spheres.centers, spheres.radii]), dtype=wp.float64, device=device)
    found.pair = wp.array(spheres.pairs, dtype=wp.int32, device=device)
    found.bit = wp.array(world_bits(spheres), dtype=wp.int32, device=device)
    return found

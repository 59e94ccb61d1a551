"""Arrays of the collision check of a solve, on the device: spheres by islands, worlds, and the required clearance.

Arrays of worlds grow on demand and are filled for each solve; recorded launches keep their arrays until arrays grow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.arrays import (
    CollisionWorlds,
    SphereArrays,
    WorldLines,
    rigid_spheres,
    world_bits,
    world_lines,
)
from ik_service.collision.body_spheres import with_attached
from ik_service.collision.clearance import ClearanceSize
from ik_service.collision.world import MAX_ATTACHED, MAX_ATTACHED_SPHERES, AttachedObject, World
from ik_service.compiler import Lanes
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.device_model import DeviceModel
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.trees import reach

VERDICT_ROUNDING = 1e-5  # extra clearance in float32 beyond the verdict's [m]
WIDEST = 1.0  # clearance above which a larger clearance is not preferred [m]

SPARE_VALUES, SPARE_TIMES = 1 << 20, 4  # unused room kept for grids: a count, or a multiple of the needed count


class Room(NamedTuple):
    """Lengths of the arrays of worlds."""

    worlds: int
    objects: int
    values: int
    world_lines: int
    enabled_lines: int
    most: int

    def takes(self, other: "Room") -> bool:
        """Return whether `other` fits without keeping a large grid's unused room; one line serves all problems."""
        one_line = (self.world_lines > 1, self.enabled_lines > 1) == (other.world_lines > 1, other.enabled_lines > 1)
        is_tight = self.values <= max(SPARE_VALUES, SPARE_TIMES * other.values)
        return one_line and is_tight and all(have >= want for have, want in zip(self, other, strict=True))

    def grown(self) -> "Room":
        """Round lengths up to powers of two."""
        return Room(*(1 << max(count - 1, 0).bit_length() for count in self))


class CollisionData:
    """Collision arrays of one solver, for a robot with a collision model."""

    def __init__(self, model: DeviceModel, lanes: Lanes) -> None:
        self._model = model
        self._spheres: dict[tuple[int, ...], Any] = {}
        self._rigid: dict[int, tuple[Any, float]] = {}
        self.body_spheres = model.robot.body_spheres  # checked spheres: of links, and of attached objects
        self.sphere_arrays = self._checked = SphereArrays(model, self.body_spheres, lanes.width)
        self._attached: Mapping[str, AttachedObject] = {}
        blocks = int(self.spheres(range(model.robot.trees.ntree)).sphere.shape[0])
        blocks += MAX_ATTACHED + MAX_ATTACHED_SPHERES // lanes.width  # the last block of each object may be half full
        links = len(self.body_spheres.links) + MAX_ATTACHED
        self.size = ClearanceSize(model.joint_coord_count, model.body_count, links, blocks, lanes)
        self._clearance = HostDeviceArray((2,), wp.float32, model.device, per_problem=False)
        self._margin = HostDeviceArray((2,), wp.float64, model.device, per_problem=False)
        # clearance: required clearance in float32 with room for rounding, and the clearance above which a larger
        # clearance is not preferred, or 0 [m]; margin: required clearance in float64, without room for rounding [m],
        # and 1 where the clearance from objects alone is wanted, or 0
        self.clearance, self.margin = self._clearance.device, self._margin.device
        self.version = 0  # changes when arrays are exchanged
        self._used: tuple[object, ...] | None = None  # key of the content of the arrays
        self._worlds, self._lines = tuple[World, ...](), world_lines(())
        self.has_objects = False  # in the worlds
        self._make_room(Room(1, 1, 1, 1, 1, 1))

    def spheres(self, trees: Sequence[int]) -> Any:
        """Return the `CollisionSpheres` of an island with these trees."""
        key = tuple(map(int, trees))
        if key not in self._spheres:
            self._spheres[key] = self._checked.of_trees(key)
        return self._spheres[key]

    def rigid(self, body: int) -> tuple[Any, float]:
        """Return the spheres rigid to a body, as `rigid_spheres`."""
        if body not in self._rigid:
            width = self.size.lanes.width
            self._rigid[body] = rigid_spheres(self._model, self.body_spheres, body, width)
        return self._rigid[body]

    @property
    def reach(self) -> float:
        """Bound of the distance between a sphere and the joints before, infinite without limits of travel [m]."""
        robot, lever = self._model.robot, np.linalg.norm(self.body_spheres.centers, axis=1).max(initial=0.0)
        slides = robot.joint_qd_start[np.flatnonzero(robot.joint_type == JointType.PRISMATIC)]
        travel = np.maximum(np.abs(robot.joint_limit_lower[slides]), np.abs(robot.joint_limit_upper[slides]))
        return reach(robot) + float(travel.sum() + lever)

    def use(
        self,
        worlds: Sequence[World],  # possibly none
        world_index: NDArray[np.int32],  # world of each problem, [1 or problems]
        # mask of present objects, [1 or problems, most objects of a world]; None for all
        enabled: NDArray[np.bool_] | None,
        attached: Mapping[str, AttachedObject],  # objects carried by links, by name
        margin: float,  # required clearance [m]
        *,
        widest: bool = False,  # prefer the largest clearance
        of_world: bool = False,  # measure the clearance from objects alone, too
    ) -> None:
        """Fill the arrays for a solve."""
        if attached != self._attached:
            self._attached, self._used = dict(attached), None
            own = self._model.robot.body_spheres
            self.body_spheres = with_attached(self._model.robot, own, attached) if attached else own
            self._checked = self.sphere_arrays.with_spheres(self.body_spheres) if attached else self.sphere_arrays
            self._spheres.clear()
            self._rigid.clear()
            self.version += 1
        key = (tuple(worlds), world_index.tobytes(), margin, widest, of_world)  # equality of worlds is identity
        if enabled is None and key == self._used:
            return
        self._used = None
        lines = self.lines_of(tuple(worlds))
        given = np.ones((1, max(lines.most, 1)), dtype=bool) if enabled is None else enabled
        values = np.concatenate([np.empty(0, np.float32), *lines.values])
        wanted = Room(len(worlds), len(lines.kind), len(values), len(world_index), *given.shape)
        if not self._room.takes(wanted):
            self._make_room(wanted.grown())
        arrays = self._arrays
        arrays["start"].host[:] = len(lines.kind)
        numbers: dict[str, NDArray[Any]] = {
            "start": lines.start,
            "kind": lines.kind,
            "passes": self._passes_of(lines.names),
            "shape": lines.shape,
            "exact_shape": lines.shape,
            "grid": lines.grid,
            "value": values,
            "world": world_index,
        }
        for name, own in numbers.items():
            arrays[name].host[: len(own)] = own
        arrays["enabled"].host[: len(given), : given.shape[1]] = given
        self._clearance.host[:] = margin + VERDICT_ROUNDING, max(WIDEST, margin) if widest else 0.0
        self._margin.host[:] = margin, of_world
        for array in (*arrays.values(), self._clearance, self._margin):
            array.push(0)
        self._used = key if enabled is None else None

    def lines_of(self, worlds: tuple[World, ...]) -> WorldLines:
        """Give the objects of worlds as numbers; cached, because checks between islands ask again."""
        if worlds != self._worlds:
            self._worlds, self._lines = worlds, world_lines(worlds)
            self.has_objects = len(self._lines.kind) > 0
        return self._lines

    def _passes_of(self, names: Sequence[str]) -> NDArray[np.int32]:
        touches = self.body_spheres.touches
        if not touches:
            return np.zeros(len(names), np.int32)
        bits = world_bits(self.body_spheres)[len(self.body_spheres.links) - len(touches) :]
        found = [[int(bit) for bit, own in zip(bits, touches, strict=True) if name in own] for name in names]
        return np.array([sum(own) for own in found], dtype=np.int32)

    def _make_room(self, room: Room) -> None:
        def array(*shape: int, dtype: Any) -> HostDeviceArray:
            return HostDeviceArray(shape, dtype, self._model.device, per_problem=False)

        self._room = room
        self._arrays = {
            "start": array(room.worlds + 1, dtype=wp.int32),
            "kind": array(room.objects, dtype=wp.int32),
            "passes": array(room.objects, dtype=wp.int32),
            "shape": array(room.objects, 16, dtype=wp.float32),
            "exact_shape": array(room.objects, 16, dtype=wp.float64),
            "grid": array(room.objects, 4, dtype=wp.int32),
            "value": array(room.values, dtype=wp.float32),
            "world": array(room.world_lines, dtype=wp.int32),
            "enabled": array(room.enabled_lines, room.most, dtype=wp.uint8),
        }
        self.worlds: Any = CollisionWorlds()
        for name, own in self._arrays.items():
            setattr(self.worlds, name, own.device)
        self.version += 1

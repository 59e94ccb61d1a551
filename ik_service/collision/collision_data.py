"""Arrays of the collision check of a solve, on the device: spheres by islands, worlds, and the clearance asked for.

Arrays of worlds grow and are filled anew for each solve; launches that are recorded hold them until they grow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.body_spheres import with_attached
from ik_service.collision.clearance import ClearanceSize
from ik_service.collision.sphere_arrays import SphereArrays, world_bits
from ik_service.collision.world import MAX_ATTACHED, MAX_ATTACHED_SPHERES, AttachedObject, World
from ik_service.collision.world_arrays import CollisionWorlds, WorldLines, world_lines
from ik_service.compiler import Lanes
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.device_model import DeviceModel

VERDICT_ROUNDING = 1e-5
"""By how much more clearance is asked for in float32 than in the verdict [m]."""
WIDEST = 1.0
"""Clearance above which more of it wins nothing [m]."""

SPARE_VALUES, SPARE_TIMES = 1 << 20, 4
"""Room for distances of grids that is kept though nothing needs it: so many, or so many times as there are."""


class Room(NamedTuple):
    """Lengths of the arrays of worlds."""

    worlds: int
    objects: int
    values: int
    world_lines: int
    enabled_lines: int
    most: int

    def takes(self, other: "Room") -> bool:
        """Return whether another one fits, and leaves no large grid's room; what all problems share has one line."""
        one_line = (self.world_lines > 1, self.enabled_lines > 1) == (other.world_lines > 1, other.enabled_lines > 1)
        is_tight = self.values <= max(SPARE_VALUES, SPARE_TIMES * other.values)
        return one_line and is_tight and all(have >= want for have, want in zip(self, other, strict=True))

    def grown(self) -> "Room":
        """Return lengths that are powers of two."""
        return Room(*(1 << max(count - 1, 0).bit_length() for count in self))


class CollisionData:
    """Arrays of one solver.

    Args:
        model: The robot on the device; it has a collision model.
        lanes: Packets of the solver's kernels.

    Attributes:
        size: What the code of a check is made for.
        body_spheres: What is checked: spheres of links, and of what is attached to them.
        sphere_arrays: Arrays of the spheres of links.
        worlds: The `CollisionWorlds`.
        clearance: What a success has at least [m], on the device, in float32 with room for rounding; and up to where
            more of it wins, or 0.
        margin: The same in float64, as asked for.
        version: Changes when arrays have been exchanged.
    """

    def __init__(self, model: DeviceModel, lanes: Lanes) -> None:
        self._model = model
        self._spheres: dict[tuple[int, ...], Any] = {}
        self.body_spheres = model.robot.body_spheres
        self.sphere_arrays = self._checked = SphereArrays(model, self.body_spheres, lanes.width)
        self._attached: Mapping[str, AttachedObject] = {}
        blocks = int(self.spheres(range(model.robot.trees.ntree)).sphere.shape[0])
        blocks += MAX_ATTACHED + MAX_ATTACHED_SPHERES // lanes.width  # the last one of each may be half full
        links = len(self.body_spheres.links) + MAX_ATTACHED
        self.size = ClearanceSize(model.joint_coord_count, model.body_count, links, blocks, lanes)
        self._clearance = HostDeviceArray((2,), wp.float32, model.device, per_problem=False)
        self._margin = HostDeviceArray((1,), wp.float64, model.device, per_problem=False)
        self.clearance, self.margin = self._clearance.device, self._margin.device
        self.version = 0
        self._used: tuple[object, ...] | None = None  # what stands in the arrays
        self._worlds, self._lines = tuple[World, ...](), world_lines(())
        self._make_room(Room(1, 1, 1, 1, 1, 1))

    def spheres(self, trees: Sequence[int]) -> Any:
        """Return the `CollisionSpheres` of an island that has these trees."""
        key = tuple(map(int, trees))
        if key not in self._spheres:
            self._spheres[key] = self._checked.of_trees(key)
        return self._spheres[key]

    def use(
        self,
        worlds: Sequence[World],
        world_index: NDArray[np.int32],
        enabled: NDArray[np.bool_] | None,
        attached: Mapping[str, AttachedObject],
        margin: float,
        *,
        widest: bool = False,
    ) -> None:
        """Take the worlds of a solve, and what is attached to links.

        Args:
            worlds: The worlds; there may be none.
            world_index: Which of them each problem has, [1 or problems].
            enabled: Which of its objects are there, [1 or problems, most objects of a world]; None for all.
            attached: Objects that links carry, by name.
            margin: What a success has at least [m].
            widest: Whether the largest clearance wins.
        """
        if attached != self._attached:
            self._attached, self._used = dict(attached), None
            own = self._model.robot.body_spheres
            self.body_spheres = with_attached(self._model.robot, own, attached) if attached else own
            self._checked = self.sphere_arrays.with_spheres(self.body_spheres) if attached else self.sphere_arrays
            self._spheres.clear()
            self.version += 1
        key = (tuple(worlds), world_index.tobytes(), margin, widest)  # worlds are equal where they are the same object
        if enabled is None and key == self._used:
            return
        self._used = None
        lines = self.lines_of(tuple(worlds))
        given = np.ones((1, max(lines.most, 1)), dtype=bool) if enabled is None else enabled
        values = np.concatenate([np.empty(0, np.float32), *lines.values])
        wanted = Room(len(worlds), len(lines.kind), len(values), len(world_index), *given.shape)
        if not self._room.takes(wanted):
            self._make_room(wanted.grown())
        self._start.host[:] = len(lines.kind)
        self._start.host[: len(worlds) + 1] = lines.start
        numbers: dict[HostDeviceArray, NDArray[Any]] = {
            self._kind: lines.kind,
            self._passes: self._passes_of(lines.names),
            self._shape: lines.shape,
            self._exact: lines.shape,
            self._grid: lines.grid,
            self._value: values,
        }
        for array, own in numbers.items():
            array.host[: len(own)] = own
        self._index.host[: len(world_index)] = world_index
        self._enabled.host[: len(given), : given.shape[1]] = given
        self._clearance.host[:] = margin + VERDICT_ROUNDING, max(WIDEST, margin) if widest else 0.0
        self._margin.host[0] = margin
        for array in (*self._arrays, self._clearance, self._margin):
            array.push(0)
        self._used = key if enabled is None else None

    def lines_of(self, worlds: tuple[World, ...]) -> WorldLines:
        """Give the objects of worlds as numbers; a solve asks again where islands touch each other."""
        if worlds != self._worlds:
            self._worlds, self._lines = worlds, world_lines(worlds)
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
        self._start = array(room.worlds + 1, dtype=wp.int32)
        self._kind, self._passes = (array(room.objects, dtype=wp.int32) for _ in range(2))
        self._shape = array(room.objects, 16, dtype=wp.float32)
        self._exact = array(room.objects, 16, dtype=wp.float64)
        self._grid = array(room.objects, 4, dtype=wp.int32)
        self._value = array(room.values, dtype=wp.float32)
        self._index = array(room.world_lines, dtype=wp.int32)
        self._enabled = array(room.enabled_lines, room.most, dtype=wp.uint8)
        named = {
            "start": self._start,
            "kind": self._kind,
            "passes": self._passes,
            "shape": self._shape,
            "exact_shape": self._exact,
            "grid": self._grid,
            "value": self._value,
            "world": self._index,
            "enabled": self._enabled,
        }
        self._arrays = tuple(named.values())
        self.worlds: Any = CollisionWorlds()
        for name, own in named.items():
            setattr(self.worlds, name, own.device)
        self.version += 1

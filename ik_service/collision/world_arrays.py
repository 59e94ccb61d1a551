"""Worlds as arrays for the check of one configuration.

Spheres and capsules are rounded boxes without width in some directions; so there are four kinds of objects.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.distance_grid import DistanceGrid
from ik_service.collision.shapes import Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.collision.world import Obstacle, World
from ik_service.mechanism.transforms import Float64Array, quaternion_conjugate, quaternion_rotate

_KNOWN_LINES: "WeakKeyDictionary[World, tuple[_Line, ...]]" = WeakKeyDictionary()


class ObjectKind(IntEnum):
    """Rule for the distance from an object."""

    ROUNDED_BOX = 0
    CYLINDER = 1
    HALF_SPACE = 2
    GRID = 3


@wp.struct
class CollisionWorlds:
    """The objects of several worlds, one world after another; int32 and float32 unless said."""

    start: wp.array[wp.int32]  # [worlds + 1]: first object of each world
    world: wp.array[wp.int32]  # [1 or problems]: world of each problem
    enabled: wp.array2d[wp.uint8]  # [1 or problems, most objects of a world]: 1 if an object is present
    kind: wp.array[wp.int32]  # [objects]: `ObjectKind`
    passes: wp.array[wp.int32]  # [objects]: bits of the attached objects that may touch each object
    shape: wp.array2d[wp.float32]  # [objects, 16]: rotation from the world by rows, position, four lengths
    exact_shape: wp.array2d[wp.float64]  # the same numbers
    grid: wp.array2d[wp.int32]  # [objects, 4]: first value of a grid, and nodes along x, y and z
    value: wp.array[wp.float32]  # distances at the nodes of all grids


class WorldLines(NamedTuple):
    """The objects of several worlds, one world after another."""

    start: NDArray[np.int64]  # first object of each world; the last entry is the object count, [worlds + 1]
    kind: NDArray[np.int64]  # `ObjectKind`, [objects]
    names: tuple[str, ...]  # names of the objects
    # rotation from the world by rows, position of the frame [m], and four numbers: half lengths and rounding [m],
    # or for a grid spacing [m], steepness, and radius of its bounding sphere [m]; a half-space has only the last
    # row of its rotation, the normal, [objects, 16]
    shape: Float64Array
    grid: NDArray[np.int64]  # first value of a grid, and nodes along x, y and z, [objects, 4]
    values: tuple[NDArray[np.float32], ...]  # distances at the nodes of the grids [m], one grid after another
    most: int  # most objects of a world


def world_lines(worlds: Sequence[World]) -> WorldLines:
    """Return the objects of some worlds as numbers."""
    counts = [len(world.objects) for world in worlds]
    lines = [line for world in worlds for line in _lines(world)]
    values = [line.values for line in lines]
    first = np.cumsum([0, *map(len, values)])[: len(lines)]
    grid = np.array([(start, *line.nodes) for start, line in zip(first.tolist(), lines, strict=True)], dtype=np.int64)
    return WorldLines(
        np.cumsum([0, *counts]),
        np.array([line.kind for line in lines], dtype=np.int64),
        tuple(name for world in worlds for name in world.names),
        np.array([line.numbers for line in lines]).reshape(-1, 16),
        grid.reshape(-1, 4),
        tuple(own for own in values if len(own)),
        max([0, *counts]),
    )


class _Line(NamedTuple):
    """One object."""

    kind: ObjectKind  # rule for the distance
    numbers: Float64Array  # a row of ``WorldLines.shape``, [16]
    nodes: tuple[int, ...] = (0, 0, 0)  # nodes of a grid along x, y and z
    values: NDArray[np.float32] = np.empty(0, np.float32)  # distances at the nodes [m]


def _lines(world: World) -> tuple[_Line, ...]:
    """Give the objects of a world, cached for the lifetime of the world, which is immutable."""
    found = _KNOWN_LINES.get(world)
    if found is None:
        found = _KNOWN_LINES[world] = tuple(map(_line, world.objects.values()))
    return found


def _line(shape: Obstacle) -> _Line:
    if isinstance(shape, HalfSpace):
        normal = np.array(shape.normal)
        return _Line(ObjectKind.HALF_SPACE, np.concatenate([np.zeros(6), normal, shape.offset * normal, np.zeros(4)]))
    pose = np.array(shape.pose)
    center, turn = pose[:3], pose[3:]
    if isinstance(shape, DistanceGrid):
        half = 0.5 * shape.spacing * (np.array(shape.values.shape) - 1)
        lengths = np.array([shape.spacing, shape.steepness, np.linalg.norm(half) + shape.depth, 0.0])
        return _Line(ObjectKind.GRID, _numbers(turn, center, lengths), shape.values.shape, shape.values.ravel())
    kind = ObjectKind.CYLINDER if isinstance(shape, Cylinder) else ObjectKind.ROUNDED_BOX
    return _Line(kind, _numbers(turn, center, _lengths(shape)))


def _numbers(turn: Float64Array, position: Float64Array, lengths: Float64Array) -> Float64Array:
    rotation = quaternion_rotate(quaternion_conjugate(turn), np.eye(3)).T
    return np.concatenate([rotation.ravel(), position, lengths])


def _lengths(shape: Sphere | Capsule | Cylinder | Box) -> Float64Array:
    """Give half lengths along x, y, z and the rounding radius [m], shape [4]."""
    if isinstance(shape, Sphere):
        return np.array([0.0, 0.0, 0.0, shape.radius])
    if isinstance(shape, Capsule):
        return np.array([0.0, 0.0, 0.5 * shape.length, shape.radius])
    if isinstance(shape, Cylinder):
        return np.array([shape.radius, shape.radius, 0.5 * shape.length, 0.0])
    return np.array([*(0.5 * np.array(shape.size)), 0.0])

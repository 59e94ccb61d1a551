"""Worlds as arrays that a check of one configuration reads.

A ball and a capsule are boxes of no width in some directions, rounded; so there are three kinds of objects.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots.collision.shapes import Box, Capsule, Cylinder, HalfSpace, Shape, Sphere
from ik_service.robots.collision.world import World
from ik_service.robots.transforms import Float64Array, quaternion_between, quaternion_conjugate, quaternion_rotate

WORLDS_KEPT = 64
"""Worlds whose numbers are kept for their next solve."""
EVERYWHERE = 1.0e9
"""Radius of the ball around a half-space [m]."""
_Z_AXIS = np.array([0.0, 0.0, 1.0])


class ObjectKind(IntEnum):
    """How the distance from an object is computed."""

    ROUNDED_BOX = 0
    CYLINDER = 1
    HALF_SPACE = 2


@wp.struct
class CollisionWorlds:
    """The objects of some worlds, one world after another; int32 and float32 unless said."""

    start: wp.array[wp.int32]  # [worlds + 1]: first object of each
    world: wp.array[wp.int32]  # [1 or problems]: world of each problem
    enabled: wp.array2d[wp.uint8]  # [1 or problems, most objects of a world]: 1 where an object is there
    kind: wp.array[wp.int32]  # [objects]: `ObjectKind`
    bound: wp.array2d[wp.float32]  # [objects, 4]: a ball around each, centre and radius
    shape: wp.array2d[wp.float32]  # [objects, 16]: rotation from the world by rows, centre, half lengths, rounding
    exact_shape: wp.array2d[wp.float64]  # the same


class WorldLines(NamedTuple):
    """The objects of some worlds, one world after another.

    Attributes:
        start: First object of each world and, last, their number, [worlds + 1].
        kind: `ObjectKind`, [objects].
        bound: A ball around each, centre and radius [m], [objects, 4].
        shape: Rotation from the world by rows, centre, half lengths and rounding [m], [objects, 16].
        most: Most objects of a world.
    """

    start: NDArray[np.int64]
    kind: NDArray[np.int64]
    bound: Float64Array
    shape: Float64Array
    most: int


def world_lines(worlds: Sequence[World]) -> WorldLines:
    """Return the objects of some worlds as numbers."""
    counts = [len(world.objects) for world in worlds]
    kinds, balls, lines = zip(*map(_lines, worlds), strict=True) if worlds else ((), (), ())
    return WorldLines(
        np.cumsum([0, *counts]),
        np.concatenate([np.empty(0, np.int64), *kinds]),
        np.concatenate([np.empty((0, 4)), *balls]),
        np.concatenate([np.empty((0, 16)), *lines]),
        max([0, *counts]),
    )


@lru_cache(maxsize=WORLDS_KEPT)
def _lines(world: World) -> tuple[NDArray[np.int64], Float64Array, Float64Array]:
    """Give kinds, balls and numbers of the objects of a world, which cannot change: [objects], [.., 4] and [.., 16]."""
    lines = [_line(shape) for shape in world.objects.values()]
    return (
        np.array([kind for kind, _, _ in lines], dtype=np.int64),
        np.array([ball for _, ball, _ in lines]).reshape(-1, 4),
        np.array([line for _, _, line in lines]).reshape(-1, 16),
    )


def _line(shape: Shape) -> tuple[ObjectKind, Float64Array, Float64Array]:
    """Give the kind of an object, a ball around it, and its numbers."""
    if isinstance(shape, HalfSpace):
        normal = np.array(shape.normal)
        turn, center = quaternion_between(_Z_AXIS, normal), shape.offset * normal
        ball, lengths = np.append(center, EVERYWHERE), np.zeros(4)
        kind = ObjectKind.HALF_SPACE
    else:
        pose = np.array(shape.pose)
        center, turn = pose[:3], pose[3:]
        lengths = _lengths(shape)
        kind = ObjectKind.CYLINDER if isinstance(shape, Cylinder) else ObjectKind.ROUNDED_BOX
        reach = np.hypot(*lengths[[0, 2]]) if isinstance(shape, Cylinder) else np.linalg.norm(lengths[:3]) + lengths[3]
        ball = np.append(center, reach)
    rotation = quaternion_rotate(quaternion_conjugate(turn), np.eye(3)).T
    return kind, ball, np.concatenate([rotation.ravel(), center, lengths])


def _lengths(shape: Sphere | Capsule | Cylinder | Box) -> Float64Array:
    """Give half lengths along x, y, z and by how much the shape is rounded [m], shape [4]."""
    if isinstance(shape, Sphere):
        return np.array([0.0, 0.0, 0.0, shape.radius])
    if isinstance(shape, Capsule):
        return np.array([0.0, 0.0, 0.5 * shape.length, shape.radius])
    if isinstance(shape, Cylinder):
        return np.array([shape.radius, shape.radius, 0.5 * shape.length, 0.0])
    return np.array([*(0.5 * np.array(shape.size)), 0.0])

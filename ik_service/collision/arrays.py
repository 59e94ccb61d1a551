"""Spheres of a robot, its kinematics, and worlds as arrays for the check of one configuration.

The frame of each body is rotated so that the axis of its joint is z. Spheres of a link are stored in blocks as wide as
a SIMD packet, padded with spheres far from everything. Spheres and capsules of a world are rounded boxes without width
in some directions; so there are four kinds of objects.
"""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.body_spheres import BodySpheres
from ik_service.collision.distance_grid import DistanceGrid
from ik_service.collision.shapes import Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.collision.world import Obstacle, World
from ik_service.mechanism.device_model import DeviceModel
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import (
    Float64Array,
    identity_transform,
    quaternion_between,
    quaternion_conjugate,
    quaternion_rotate,
    transform_inverse,
    transform_multiply,
)

ABSENT_RADIUS = -1.0e6  # radius of padding spheres [m]: far from everything
_Z_AXIS = np.array([0.0, 0.0, 1.0])


@wp.struct
class CollisionSpheres:
    """The bodies of a robot, the spheres of its links, and the checked pairs; int32 and float32."""

    joint_kind: wp.array[wp.int32]  # [bodies]
    joint_parent: wp.array[wp.int32]  # [bodies]
    joint_q_start: wp.array[wp.int32]  # [bodies + 1]
    frame: wp.array2d[wp.float32]  # [bodies, 12]: in the parent's frame at zero, rotation by rows, then position
    link_body: wp.array[wp.int32]  # [links], -1 for the world
    link_count: wp.array[wp.int32]  # [links]: spheres
    link_block: wp.array[wp.int32]  # [links + 1]: first block of each link
    bound: wp.array2d[wp.float32]  # [links, 4]: bounding sphere of each link, centre and radius
    sphere: wp.array3d[wp.float32]  # [blocks, 4, width]: centres and radii
    pair: wp.array2d[wp.int32]  # [pairs, 2]: links
    in_world: wp.array[wp.int32]  # [links]: bit of each link checked against the world, from `world_bits`


class SphereArrays:
    """Arrays for the check of one configuration, independent of the checked trees, with blocks of `width` spheres."""

    def __init__(self, model: DeviceModel, spheres: BodySpheres, width: int) -> None:
        self._model, self._width = model, width
        self._turns = _axis_turns(model.robot)
        frames = _frames(model.robot, self._turns)
        self._frame: wp.array[Any] = wp.array(frames, dtype=wp.float32, device=model.device)
        self._take(spheres)

    def with_spheres(self, spheres: BodySpheres) -> "SphereArrays":
        """Give the arrays of other spheres, or other pairs, of the same robot."""
        found = copy(self)
        found._take(spheres)
        return found

    def of_trees(self, trees: Collection[int]) -> Any:
        """Return the `CollisionSpheres` of links moved by trees; all results share arrays, except pairs and bits."""
        robot, spheres = self._model.robot, self._spheres
        tree = np.where(spheres.link_body >= 0, robot.trees.body_treeid[spheres.link_body], -1)
        moved = np.isin(tree, list(trees)) & (spheres.link_body >= 0)
        known = moved | (tree < 0)
        a, b = spheres.pairs.T
        found: Any = CollisionSpheres()
        for name, own in self._shared.items():
            setattr(found, name, own)
        found.pair = self._integers(spheres.pairs[(moved[a] | moved[b]) & known[a] & known[b]])
        found.in_world = self._integers(np.where(moved, world_bits(spheres), 0))
        return found

    def _take(self, spheres: BodySpheres) -> None:
        model, self._spheres = self._model, spheres
        joints = {name: getattr(model, name) for name in ("joint_kind", "joint_parent", "joint_q_start")}
        self._shared = joints | {"frame": self._frame} | _link_arrays(spheres, self._turns, self._width, model.device)

    def _integers(self, values: Any) -> "wp.array[Any]":
        return wp.array(values, dtype=wp.int32, device=self._model.device)


def _link_arrays(
    spheres: BodySpheres, turns: Float64Array, width: int, device: wp.Device
) -> dict[str, "wp.array[Any]"]:
    """Return the arrays of links and their spheres, by name; `turns` of the bodies as of `_axis_turns`."""
    counts = np.diff(spheres.link_start)
    blocks = np.cumsum([0, *-(-counts // width)])
    integers = {"link_body": spheres.link_body, "link_count": counts, "link_block": blocks}
    bound = _turned(turns, spheres.bounds, spheres.link_body)
    floats = {"bound": bound, "sphere": _blocks(turns, spheres, blocks, width)}
    found: dict[str, wp.array[Any]] = {
        name: wp.array(own, dtype=wp.int32, device=device) for name, own in integers.items()
    }
    return found | {name: wp.array(own, dtype=wp.float32, device=device) for name, own in floats.items()}


def rigid_spheres(model: DeviceModel, spheres: BodySpheres, body: int, width: int) -> tuple[Any, float]:
    """Return the spheres rigid to a body as `CollisionSpheres` of one floating body, without pairs; and their reach.

    The reach is the largest distance of a point of a sphere from the body's origin [m].
    """
    T_body = _rigid_bodies(model.robot, body)
    chosen = [k for k, own in enumerate(spheres.link_body.tolist()) if own in T_body]
    parts = [spheres.of_link(k) for k in chosen]
    counts = [own.stop - own.start for own in parts]
    poses = [T_body[int(spheres.link_body[k])] for k in chosen]

    def placed(points: list[Float64Array]) -> Float64Array:
        own = [quaternion_rotate(T[3:], one) + T[:3] for T, one in zip(poses, points, strict=True)]
        return np.concatenate([np.zeros((0, 3)), *own])

    own = replace(
        spheres,
        links=tuple(spheres.links[k] for k in chosen),
        link_start=np.cumsum([0, *counts]).astype(np.int32),
        link_body=np.zeros(len(chosen), np.int32),
        centers=placed([spheres.centers[part] for part in parts]),
        radii=np.concatenate([np.zeros(0), *(spheres.radii[part] for part in parts)]),
        bounds=np.column_stack([placed([spheres.bounds[k : k + 1, :3] for k in chosen]), spheres.bounds[chosen, 3]]),
        pairs=np.zeros((0, 2), np.int32),
    )
    joint = {"joint_kind": [JointType.FLOATING], "joint_parent": [-1], "joint_q_start": [0, 7]}
    found, device = CollisionSpheres(), model.device
    for name, values in (joint | {"in_world": world_bits(spheres)[chosen], "pair": own.pairs}).items():
        setattr(found, name, wp.array(np.asarray(values, np.int32), dtype=wp.int32, device=device))
    frame = np.concatenate([np.eye(3).ravel(), np.zeros(3)])[None]
    frames: wp.array[Any] = wp.array(frame, dtype=wp.float32, device=device)
    for name, array in {"frame": frames, **_link_arrays(own, identity_transform()[None], width, device)}.items():
        setattr(found, name, array)
    reach = np.linalg.norm(own.centers, axis=1) + own.radii
    return found, float(reach.max(initial=0.0))


def _rigid_bodies(robot: KinematicRobot, body: int) -> dict[int, Float64Array]:
    """Return the bodies joined to a body by fixed joints alone, with their poses in its frame."""
    fixed = [joint for joint, kind in enumerate(robot.joint_type) if JointType(kind) is JointType.FIXED]
    found, grown = {body: identity_transform()}, True
    while grown:
        grown = False
        for joint in fixed:
            parent = int(robot.joint_parent[joint])
            if parent in found and joint not in found:
                found[joint] = transform_multiply(found[parent], robot.joint_X_p[joint])
                grown = True
            elif joint in found and parent >= 0 and parent not in found:
                found[parent] = transform_multiply(found[joint], transform_inverse(robot.joint_X_p[joint]))
                grown = True
    return found


def world_bits(spheres: BodySpheres) -> NDArray[np.int32]:
    """Return a bit per link: the first bit for links of the robot, a bit of its own for each attached object."""
    own = len(spheres.links) - len(spheres.touches)
    return np.array([*[1] * own, *(2 << k for k in range(len(spheres.touches)))], dtype=np.int32)


def _axis_turns(robot: KinematicRobot) -> Float64Array:
    """Give the rotation from each joint-parent frame to a frame with z along the joint axis, shape [joints, 7]."""
    turns = np.tile(identity_transform(), (robot.joint_count, 1))
    for joint in np.flatnonzero(~np.isin(robot.joint_type, (JointType.FLOATING, JointType.BALL))):
        turns[joint, 3:] = quaternion_between(_Z_AXIS, robot.joint_axis[robot.joint_qd_start[joint + 1] - 1])
    return turns


def _frames(robot: KinematicRobot, turns: Float64Array) -> Float64Array:
    """Give the frame of each body in its parent's frame at zero, rotation by rows, then position, [bodies, 12]."""
    above = np.vstack([transform_inverse(turns), identity_transform()])[robot.joint_parent]  # the last is the world's
    T = transform_multiply(transform_multiply(above, robot.joint_X_p), turns)
    columns = quaternion_rotate(T[:, np.newaxis, 3:], np.eye(3))
    return np.concatenate([columns.swapaxes(1, 2).reshape(-1, 9), T[:, :3]], axis=1)


def _turned(turns: Float64Array, spheres: Float64Array, body: NDArray[np.int32]) -> Float64Array:
    """Give spheres in the rotated frames of their bodies, [spheres, 4]; spheres of the world are unchanged."""
    found = np.array(spheres)
    moved = body >= 0
    found[moved, :3] = quaternion_rotate(transform_inverse(turns[body[moved]])[:, 3:], spheres[moved, :3])
    return found


def _blocks(turns: Float64Array, spheres: BodySpheres, link_block: NDArray[Any], width: int) -> Float64Array:
    """Give the spheres in blocks of their links, padded, shape [blocks, 4, width]."""
    counts = np.diff(spheres.link_start)
    own = np.column_stack([spheres.centers, spheres.radii])
    own = _turned(turns, own, np.repeat(spheres.link_body, counts))
    filled = np.repeat(own[spheres.link_start[:-1]], np.diff(link_block) * width, axis=0)
    filled[:, 3] = ABSENT_RADIUS
    first = np.repeat(link_block[:-1] * width - spheres.link_start[:-1], counts)
    filled[first + np.arange(len(own))] = own
    return filled.reshape(-1, width, 4).transpose(0, 2, 1)


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

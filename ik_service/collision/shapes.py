"""Shapes of links and obstacles: signed distances, and shapes named by robot files.

A shape is placed in the frame of its owner: the link, or the world. Distances are negative inside.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ik_service.mechanism.transforms import (
    MAX_POSITION,
    Float64Array,
    checked_transform,
    quaternion_conjugate,
    quaternion_rotate,
)
from objectives.errors import InputError

Numbers: TypeAlias = tuple[float, ...]
IDENTITY_POSE: Numbers = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
UNIT_LENGTH_TOLERANCE = 1e-3  # largest deviation of a half-space's normal from length 1; the normal is normalised


@dataclass(frozen=True)
class Sphere:
    """A sphere.

    Attributes:
        radius: Radius [m].
        position: Centre [m].
    """

    radius: float
    position: Numbers = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _check_lengths(self, "radius")
        object.__setattr__(self, "position", _numbers(self, "position", 3))

    @property
    def pose(self) -> Numbers:
        """Frame of the sphere in the owner's frame: position [m] and quaternion xyzw."""
        return (*self.position, *IDENTITY_POSE[3:])

    def signed_distance(self, points: Float64Array) -> Float64Array:
        """Give the distance of points in the owner's frame from the surface [m], shape [...]."""
        return np.asarray(np.linalg.norm(points - np.array(self.position), axis=-1) - self.radius)


@dataclass(frozen=True)
class RoundShape:
    """A shape of revolution about z.

    Attributes:
        radius: Radius [m].
        length: Length of the axis [m].
        pose: Position [m] and quaternion xyzw of the centre.
    """

    radius: float
    length: float
    pose: Numbers = IDENTITY_POSE

    def __post_init__(self) -> None:
        _check_lengths(self, "radius", "length")
        object.__setattr__(self, "pose", _pose(self))


class Capsule(RoundShape):
    """A cylinder along z with hemispherical ends; its length is the distance between the hemispheres' centres."""

    def signed_distance(self, points: Float64Array) -> Float64Array:
        """Give the distance of points in the owner's frame from the surface [m], shape [...]."""
        x, y, z = np.moveaxis(local_points(self.pose, points), -1, 0)
        beyond = np.maximum(np.abs(z) - 0.5 * self.length, 0.0)
        return np.asarray(np.sqrt(x * x + y * y + beyond * beyond) - self.radius)


class Cylinder(RoundShape):
    """A cylinder along z."""

    def signed_distance(self, points: Float64Array) -> Float64Array:
        """Give the distance of points in the owner's frame from the surface [m], shape [...]."""
        x, y, z = np.moveaxis(local_points(self.pose, points), -1, 0)
        return _outside_and_inside(np.stack([np.hypot(x, y) - self.radius, np.abs(z) - 0.5 * self.length]))


@dataclass(frozen=True)
class Box:
    """A box.

    Attributes:
        size: Lengths of the edges along x, y and z [m].
        pose: Position [m] and quaternion xyzw of the centre.
    """

    size: Numbers
    pose: Numbers = IDENTITY_POSE

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _numbers(self, "size", 3))
        if min(self.size) < 0.0:
            raise InputError(f"Edges of a box must not be negative, got {self.size}.")
        object.__setattr__(self, "pose", _pose(self))

    def signed_distance(self, points: Float64Array) -> Float64Array:
        """Give the distance of points in the owner's frame from the surface [m], shape [...]."""
        local = np.moveaxis(local_points(self.pose, points), -1, 0)
        half = 0.5 * np.array(self.size).reshape(3, *[1] * (local.ndim - 1))
        return _outside_and_inside(np.abs(local) - half)


@dataclass(frozen=True)
class HalfSpace:
    """The space below a plane: ``normal . point <= offset``.

    Attributes:
        normal: Outward direction, of unit length to 1e-3.
        offset: Distance of the plane from the origin along the normal [m].
    """

    normal: Numbers
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Normalise the normal; InputError if its length is not 1, or a number is too large."""
        normal = np.array(_numbers(self, "normal", 3))
        length = float(np.linalg.norm(normal))
        if abs(length - 1.0) > UNIT_LENGTH_TOLERANCE:
            raise InputError(f"The normal of a half-space must have length 1, got {length:g}.")
        object.__setattr__(self, "normal", tuple((normal / length).tolist()))
        object.__setattr__(self, "offset", _number(self, "offset"))

    def signed_distance(self, points: Float64Array) -> Float64Array:
        """Give the distance of points in the owner's frame from the plane [m], shape [...]."""
        x, y, z = self.normal
        # No matrix product: its rounding depends on the number of points.
        return np.asarray(points[..., 0] * x + points[..., 1] * y + points[..., 2] * z - self.offset)


BoundedShape: TypeAlias = Sphere | Capsule | Cylinder | Box
Shape: TypeAlias = BoundedShape | HalfSpace
AnyShape: TypeAlias = Shape | RoundShape


def local_points(pose: Numbers, points: Float64Array) -> Float64Array:
    """Give points in the frame of a shape with a pose: position [m] and quaternion xyzw, shape [..., 3]."""
    frame = np.array(pose)
    return quaternion_rotate(quaternion_conjugate(frame[3:]), points - frame[:3])


def _outside_and_inside(beyond: Float64Array) -> Float64Array:
    """Give the signed distance from the excess of a point beyond each pair of faces, first axis."""
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=0)
    return np.asarray(outside + np.minimum(beyond.max(axis=0), 0.0))


def _check_lengths(shape: Sphere | RoundShape, *names: str) -> None:
    """Convert lengths to floats; InputError for a length that is no number, negative or too large."""
    for name in names:
        value = _number(shape, name)
        if value < 0.0:
            raise InputError(f"The {name} of a {_kind(shape)} must not be negative, got {value:g}.")
        object.__setattr__(shape, name, value)


def _number(shape: AnyShape, name: str) -> float:
    return _checked(shape, name, [getattr(shape, name)])[0]


def _numbers(shape: AnyShape, name: str, count: int) -> Numbers:
    values = getattr(shape, name)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"The {name} of a {_kind(shape)} must be {count} numbers, got {values!r}.")
    found = _checked(shape, name, [*values])
    if len(found) != count:
        raise InputError(f"The {name} of a {_kind(shape)} must be {count} numbers, got {len(found)}.")
    return found


def _checked(shape: AnyShape, name: str, values: list[float]) -> Numbers:
    try:
        found = tuple(map(float, values))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"The {name} of a {_kind(shape)} must be numbers, got {values!r}.") from None
    if not all(abs(value) <= MAX_POSITION for value in found):
        raise InputError(f"The {name} of a {_kind(shape)} must not exceed {MAX_POSITION:g}, got {values!r}.")
    return found


def _pose(shape: RoundShape | Box) -> Numbers:
    return tuple(checked_transform(shape.pose, f"The pose of a {_kind(shape)}").tolist())


def _kind(shape: AnyShape) -> str:
    return "half-space" if isinstance(shape, HalfSpace) else type(shape).__name__.lower()


class MeshReference(NamedTuple):
    """A mesh named by a robot file, not opened."""

    filename: str  # address as written
    scale: Numbers  # scale along x, y and z of the mesh
    pose: Numbers  # position [m] and quaternion xyzw in the link's frame


class LinkShapes(NamedTuple):
    """Collision shapes of a link."""

    shapes: tuple[BoundedShape, ...] = ()  # spheres, capsules, cylinders and boxes, in the link's frame
    unread: tuple[str, ...] = ()  # kinds of all other shapes, mostly meshes
    meshes: tuple[MeshReference, ...] = ()  # unread meshes with a file


NO_SHAPES = LinkShapes()

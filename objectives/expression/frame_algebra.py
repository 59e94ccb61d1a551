"""Vectors, quaternions and frames over scalar expressions, for statements of rows.

Vectors are tuples of three scalars, quaternions tuples of four in the order xyzw. All quaternions have unit length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from objectives.expression import Scalar, maximum, sign, sqrt

Vector: TypeAlias = tuple[Scalar, Scalar, Scalar]
QuaternionXYZW: TypeAlias = tuple[Scalar, Scalar, Scalar, Scalar]


@dataclass(frozen=True)
class Frame:
    """A frame in the world: position of the origin [m] and orientation."""

    position: Vector
    orientation_xyzw: QuaternionXYZW

    def relative_to(self, reference: "Frame") -> "Frame":
        """Give this frame in the frame `reference`: T_reference_self."""
        back = conjugate(reference.orientation_xyzw)
        return Frame(
            rotate(back, subtract(self.position, reference.position)), quaternion_product(back, self.orientation_xyzw)
        )


def vector(values: Sequence[Scalar]) -> Vector:
    """Give three scalars as a vector."""
    x, y, z = values
    return x, y, z


def quaternion(values: Sequence[Scalar]) -> QuaternionXYZW:
    """Give four scalars as a quaternion xyzw."""
    x, y, z, w = values
    return x, y, z, w


def add(a: Vector, b: Vector) -> Vector:
    """Add two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def subtract(a: Vector, b: Vector) -> Vector:
    """Subtract two vectors."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scale(factor: Scalar, a: Vector) -> Vector:
    """Multiply a vector by a number."""
    return factor * a[0], factor * a[1], factor * a[2]


def dot(a: Vector, b: Vector) -> Scalar:
    """Give the inner product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """Give the cross product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def direction(a: Vector, floor: float) -> Vector:
    """Give the unit vector along `a`; for `a` shorter than `floor` (> 0) a shorter vector, never NaN."""
    return scale(1.0 / sqrt(maximum(dot(a, a), floor * floor)), a)


def perpendiculars(direction: Vector) -> tuple[Vector, Vector]:
    """Give two unit vectors that form a right-handed frame with a unit vector (the third axis) [Duff2017 (5)]."""
    x, y, z = direction
    upwards = sign(z)
    a = -1.0 / (upwards + z)  # |upwards + z| >= 1
    b = x * y * a
    return (1.0 + upwards * x * x * a, upwards * b, -upwards * x), (b, upwards + y * y * a, -y)


def conjugate(q: QuaternionXYZW) -> QuaternionXYZW:
    """Give the inverse of a unit quaternion."""
    return -q[0], -q[1], -q[2], q[3]


def quaternion_product(p: QuaternionXYZW, q: QuaternionXYZW) -> QuaternionXYZW:
    """Give the quaternion of the rotation `q` followed by `p`."""
    px, py, pz, pw = p
    qx, qy, qz, qw = q
    return (
        pw * qx + px * qw + (py * qz - pz * qy),
        pw * qy + py * qw + (pz * qx - px * qz),
        pw * qz + pz * qw + (px * qy - py * qx),
        pw * qw - (px * qx + py * qy + pz * qz),
    )


def rotate(q: QuaternionXYZW, a: Vector) -> Vector:
    """Rotate a vector by a unit quaternion."""
    axis = vector(q[:3])
    turn = scale(2.0, cross(axis, a))
    return add(add(a, scale(q[3], turn)), cross(axis, turn))


def rotation_difference(q: QuaternionXYZW, target: QuaternionXYZW) -> Vector:
    """Give 2 sign(w) vec(q target^-1): to first order the shortest rotation vector [rad] from `target` to `q`.

    The vector is in the common frame of both orientations; its norm is 2 sin(angle / 2).
    """
    x, y, z, w = quaternion_product(q, conjugate(target))
    return scale(2.0 * sign(w), (x, y, z))

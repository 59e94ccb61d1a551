"""Rows on how a frame moves against another: of its velocity, and of its motion from where it started."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from objectives.expression import Scalar, sqrt, where
from objectives.frame_algebra import (
    Frame,
    QuaternionXYZW,
    Vector,
    add,
    conjugate,
    cross,
    direction,
    dot,
    quaternion_product,
    rotate,
    rotation_vector,
    scale,
    subtract,
)

UPWARDS: Vector = (0.0, 0.0, 1.0)
LYING = 1e-9
"""A wheel whose axle is this near [rad] to the ground's normal has no way."""
OPPOSITE_TURNS = 1e-12
"""Squared length of the sum of two quaternions below which they have no middle: a turn by a whole turn."""


class FrameMotion(NamedTuple):
    """Two frames, the velocity of the first against the second, at the world origin and of turning, and a number."""

    frame: Frame
    reference: Frame
    linear: Vector
    turn: Vector
    size: Scalar

    @classmethod
    def between(cls, start: Frame, end: Frame, size: Scalar) -> "FrameMotion":
        """Take a motion from one pose to another in unit time, seen from the reference, at its middle.

        What is said of the velocity holds for it up to the third power of the turn.
        """
        turn = rotation_vector(quaternion_product(end.orientation_xyzw, conjugate(start.orientation_xyzw)))
        middle = scale(0.5, add(start.position, end.position))
        linear = subtract(subtract(end.position, start.position), cross(turn, middle))
        orientation = _middle(start.orientation_xyzw, end.orientation_xyzw)
        return cls(Frame(middle, orientation), Frame((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)), linear, turn, size)

    def wheel(self) -> tuple[Vector, Vector, Vector]:
        """Give the way of a wheel, the direction across it, and the velocity of the lowest point."""
        axle, normal = (rotate(frame.orientation_xyzw, UPWARDS) for frame in (self.frame, self.reference))
        way = direction(cross(axle, normal), LYING)
        lowest = subtract(self.frame.position, scale(self.size, cross(way, axle)))
        return way, cross(normal, way), add(self.linear, cross(self.turn, lowest))


def _middle(a: QuaternionXYZW, b: QuaternionXYZW) -> QuaternionXYZW:
    """The orientation halfway between two, on the short way."""
    cosine = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
    x, y, z, w = (p + where(cosine < 0.0, -q, q) for p, q in zip(a, b, strict=True))
    length2 = x * x + y * y + z * z + w * w
    inverse = 1.0 / sqrt(where(length2 > OPPOSITE_TURNS, length2, 1.0))
    return inverse * x, inverse * y, inverse * z, inverse * w


def _rolling(motion: FrameMotion) -> Scalar:
    way, _, slip = motion.wheel()
    return dot(way, slip)


def _no_sideslip(motion: FrameMotion) -> Scalar:
    _, across, slip = motion.wheel()
    return dot(across, slip)


def _constant_velocity(motion: FrameMotion) -> Scalar:
    axes = (rotate(frame.orientation_xyzw, UPWARDS) for frame in (motion.frame, motion.reference))
    return 0.5 * dot(add(*axes), motion.turn)


def _turn(motion: FrameMotion) -> Scalar:
    return motion.size * dot(rotate(motion.frame.orientation_xyzw, UPWARDS), motion.turn)


VELOCITY_ROWS: Mapping[str, Callable[[FrameMotion], Scalar]] = {
    "rolling": _rolling,
    "no_sideslip": _no_sideslip,
    "constant_velocity": _constant_velocity,
    "turn": _turn,
}
"""By kind: a speed, linear in the velocity; those of the parts of a constraint add up to 0."""


@dataclass(frozen=True)
class MovingPair:
    """A part of a constraint on velocities: a frame that moves against another.

    Attributes:
        kind: One of `VELOCITY_ROWS`.
        link: Link that carries the frame.
        reference_link: Link that carries the reference frame; None for the world.
        offset: T_link_frame, position [m] and quaternion xyzw.
        reference_offset: The same of the reference frame.
        size: Radius of a wheel [m], factor of a turn; 1 for others.
    """

    kind: str
    link: str
    reference_link: str | None
    offset: tuple[float, ...]
    reference_offset: tuple[float, ...]
    size: float = 1.0

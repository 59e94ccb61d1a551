"""Rows on how a frame moves against another: of its velocity, and of its motion from where it started."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from objectives.expression import Scalar, atan2, maximum, sign, sqrt, where
from objectives.expression.frame_algebra import (
    Frame,
    Vector,
    add,
    conjugate,
    cross,
    direction,
    dot,
    quaternion_product,
    rotate,
    scale,
    subtract,
)

UPWARDS: Vector = (0.0, 0.0, 1.0)
LYING = 1e-9
"""A wheel whose axle is this near [rad] to the ground's normal has no way."""
NO_SWING = 1e-24
"""Squared sine of an angle below which it is the same as its sine."""


class FrameMotion(NamedTuple):
    """A frame that moves against a reference frame: its z axis and origin, and its velocity.

    Attributes:
        axis: z axis of the frame.
        normal: z axis of the reference frame.
        position: Origin of the frame.
        linear: Velocity against the reference frame, of the point at the world origin.
        turn: The same of turning.
        size: A number of the constraint.
    """

    axis: Vector
    normal: Vector
    position: Vector
    linear: Vector
    turn: Vector
    size: Scalar

    @classmethod
    def of_twist(cls, frame: Frame, reference: Frame, linear: Vector, turn: Vector, size: Scalar) -> "FrameMotion":
        """Take the motion of a moment."""
        axis, normal = (rotate(one.orientation_xyzw, UPWARDS) for one in (frame, reference))
        return cls(axis, normal, frame.position, linear, turn, size)

    @classmethod
    def between(cls, start: Frame, end: Frame, size: Scalar) -> "FrameMotion":
        """Take a motion from one pose to another in unit time, seen from the reference, at its middle.

        The frame's axis swings by the least angle, and the frame spins about it. What is said of the velocity holds to
        the third power of the swing; to any power where a wheel that stands upright goes along an arc.
        """
        first, last = (rotate(one.orientation_xyzw, UPWARDS) for one in (start, end))
        across, cosine = cross(first, last), dot(first, last)
        sine2 = dot(across, across)
        swings = sine2 > NO_SWING
        sine = sqrt(where(swings, sine2, 1.0))
        swing_over_sine = where(swings, atan2(sine, cosine) / sine, 1.0)
        both = add(first, last)
        arc = 0.5 * swing_over_sine * sqrt(maximum(dot(both, both), LYING * LYING))  # its length over that of its chord
        axis = direction(both, LYING)
        turn = add(scale(swing_over_sine, across), scale(_spin(start, end), axis))
        linear = subtract(scale(arc, subtract(end.position, start.position)), cross(turn, end.position))
        return cls(axis, UPWARDS, end.position, linear, turn, size)

    def wheel(self) -> tuple[Vector, Vector, Vector]:
        """Give the way of a wheel, the direction across it, and the velocity of the lowest point."""
        way = direction(cross(self.axis, self.normal), LYING)
        lowest = subtract(self.position, scale(self.size, cross(way, self.axis)))
        return way, cross(self.normal, way), add(self.linear, cross(self.turn, lowest))


def _spin(start: Frame, end: Frame) -> Scalar:
    """The angle about the z axis that is left of a turn once this axis has swung the least way, up to a half turn."""
    _, _, z, w = quaternion_product(conjugate(start.orientation_xyzw), end.orientation_xyzw)
    toward = sign(w)
    return 2.0 * atan2(toward * z, toward * w)


def _rolling(motion: FrameMotion) -> Scalar:
    way, _, slip = motion.wheel()
    return dot(way, slip)


def _no_sideslip(motion: FrameMotion) -> Scalar:
    _, across, slip = motion.wheel()
    return dot(across, slip)


def _constant_velocity(motion: FrameMotion) -> Scalar:
    return 0.5 * dot(add(motion.axis, motion.normal), motion.turn)


def _turn(motion: FrameMotion) -> Scalar:
    return motion.size * dot(motion.axis, motion.turn)


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

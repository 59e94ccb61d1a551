"""Objective for a velocity constraint: rows on the motion of a frame relative to another frame."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from objectives.data_field import DataField
from objectives.expression import Scalar, atan2, maximum, sign, sqrt, where
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ConstraintObjective
from objectives.expression.frame_algebra import (
    Frame,
    Vector,
    add,
    conjugate,
    cross,
    direction,
    dot,
    quaternion,
    quaternion_product,
    rotate,
    scale,
    subtract,
    vector,
)
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IDENTITY, IKModel, RobotIndices
from objectives.tasks.closing_joint import FRAME, REFERENCE_FRAME, SIZE
from objectives.tasks.frame_objective import body_frame

UPWARDS: Vector = (0.0, 0.0, 1.0)
LYING = 1e-9  # a wheel with an angle between axle and ground normal below this [rad] has no rolling direction
NO_SWING = 1e-24  # squared sine below which an angle equals its sine


class FrameMotion(NamedTuple):
    """Motion of a frame relative to a reference frame."""

    axis: Vector  # z axis of the frame
    normal: Vector  # z axis of the reference frame
    position: Vector  # origin of the frame
    linear: Vector  # linear part of the relative twist, at the world origin
    turn: Vector  # angular part of the relative twist
    size: Scalar  # number of the constraint, such as a radius

    @classmethod
    def of_twist(cls, frame: Frame, reference: Frame, linear: Vector, turn: Vector, size: Scalar) -> "FrameMotion":
        """Take a motion from two frames and a relative twist."""
        axis, normal = (rotate(one.orientation_xyzw, UPWARDS) for one in (frame, reference))
        return cls(axis, normal, frame.position, linear, turn, size)

    @classmethod
    def between(cls, start: Frame, end: Frame, size: Scalar) -> "FrameMotion":
        """Take a motion between two poses in unit time, in the reference frame, at the middle of the motion.

        The frame's axis swings by the smallest angle, and the frame spins about the axis. The velocity has an error of
        third order in the swing; no error for an upright wheel along an arc.
        """
        first, last = (rotate(one.orientation_xyzw, UPWARDS) for one in (start, end))
        across, cosine = cross(first, last), dot(first, last)
        sine2 = dot(across, across)
        swings = sine2 > NO_SWING
        sine = sqrt(where(swings, sine2, 1.0))
        swing_over_sine = where(swings, atan2(sine, cosine) / sine, 1.0)
        both = add(first, last)
        arc = 0.5 * swing_over_sine * sqrt(maximum(dot(both, both), LYING * LYING))  # length of arc over chord
        axis = direction(both, LYING)
        turn = add(scale(swing_over_sine, across), scale(_spin(start, end), axis))
        linear = subtract(scale(arc, subtract(end.position, start.position)), cross(turn, end.position))
        return cls(axis, UPWARDS, end.position, linear, turn, size)

    def wheel(self) -> tuple[Vector, Vector, Vector]:
        """Give the rolling direction of a wheel, the lateral direction, and the velocity of the lowest point."""
        way = direction(cross(self.axis, self.normal), LYING)
        lowest = subtract(self.position, scale(self.size, cross(way, self.axis)))
        return way, cross(self.normal, way), add(self.linear, cross(self.turn, lowest))


def _spin(start: Frame, end: Frame) -> Scalar:
    """State the angle about z of a rotation, after the smallest swing of the z axis, up to half a turn."""
    _, _, z, w = quaternion_product(conjugate(start.orientation_xyzw), end.orientation_xyzw)
    toward = sign(w)
    return 2.0 * atan2(toward * z, toward * w)


def _rolling(motion: FrameMotion) -> Scalar:
    way, _, slip = motion.wheel()
    return dot(way, slip)


def _no_sideslip(motion: FrameMotion) -> Scalar:
    _, across, slip = motion.wheel()
    return dot(across, slip)


VELOCITY_ROWS: Mapping[str, Callable[[FrameMotion], Scalar]] = {
    "rolling": _rolling,
    "no_sideslip": _no_sideslip,
    "constant_velocity": lambda motion: 0.5 * dot(add(motion.axis, motion.normal), motion.turn),
    "turn": lambda motion: motion.size * dot(motion.axis, motion.turn),
}
"""Speed by kind, linear in the twist; a velocity constraint holds the sum of its parts' speeds at 0."""


@dataclass(frozen=True)
class MovingPair:
    """A part of a velocity constraint: a frame and a reference frame."""

    kind: str  # a key of `VELOCITY_ROWS`
    link: str  # link that carries the frame
    reference_link: str | None  # link that carries the reference frame; None for the world
    offset: tuple[float, ...]  # T_link_frame, position [m] and quaternion xyzw
    reference_offset: tuple[float, ...]  # T_reference_link_frame, position [m] and quaternion xyzw
    size: float = 1.0  # radius of a wheel [m], factor of a rotation; 1 for other kinds


START = "start"
POSE = 7  # numbers of a pose


@functools.cache
def velocity_group(kind: str) -> RowGroup:
    """Make the row group of a kind of parts; rows of parts add up."""

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        numbers = inputs.data[START]
        start = Frame(vector(numbers[:3]), quaternion(numbers[3:]))
        end = inputs.frames[FRAME].relative_to(inputs.frames[REFERENCE_FRAME])
        return [VELOCITY_ROWS[kind](FrameMotion.between(start, end, inputs.constants[SIZE]))]

    return RowGroup(
        f"velocity_{kind}",
        1,
        state,
        frames=(FRAME, REFERENCE_FRAME),
        constants=(SIZE,),
        summed=True,
        data=((START, POSE),),
        starts=((START, FRAME, REFERENCE_FRAME),),
    )


TWIST = "twist"


@functools.cache
def speed_group(kind: str) -> RowGroup:
    """Make the row group of the speeds of a kind of parts, over the twist of the frame relative to the reference."""

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        frame, reference, twist = inputs.frames[FRAME], inputs.frames[REFERENCE_FRAME], inputs.data[TWIST]
        motion = FrameMotion.of_twist(frame, reference, vector(twist[:3]), vector(twist[3:]), inputs.constants[SIZE])
        return [VELOCITY_ROWS[kind](motion)]

    return replace(velocity_group(kind), name=f"speed_{kind}", state=state, data=((TWIST, 6),), starts=(), twist=TWIST)


class VelocityObjective(ConstraintObjective):
    """Move according to a velocity constraint: wheels roll, shafts and gears rotate together.

    residual = weight row_weights s, one row: s is the constrained speed, over a motion in unit time from the start
    poses of the frames in their reference frames to the current poses: the sliding distance of the lowest point of a
    wheel [m], or the relative angle of shafts or gears [rad]. s is exact for upright wheels along arcs; elsewhere the
    error is of third order in the angle by which an axis swings. A spin about the axis counts up to half a turn.

    In a controller the motion starts at the start of the tick, and `start` is ignored. Robots bring these rows with
    their constraints; solvers have no motion, and no such rows.

    Args:
        parts: Pairs of frames of one kind, at least one; their speeds add up.
        start: Pose of each frame in its reference frame at the start of the motion, position [m] and quaternion xyzw,
            shape [7 parts] or [problem_count, 7 parts]; None for identity. A Warp array is used in place.
        row_weights: Weight of the row, shape [1] or [problem_count, 1]; 0 disables the row.
        weight: Factor of the row [1/m or 1/rad].
    """

    def __init__(
        self, parts: Sequence[MovingPair], *, start: Any = None, row_weights: Any = None, weight: float = 1.0
    ) -> None:
        self._parts = tuple(parts)
        columns = range(0, POSE * len(self._parts), POSE)
        start = np.tile(IDENTITY, len(columns)) if start is None else start
        turns = tuple(first + 3 for first in columns)
        field = DataField(type(self).__name__, START, POSE * len(columns), start, quaternion_columns=turns)
        super().__init__([field], row_count=1, row_weights=row_weights, weight=weight)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the row."""
        robot, elements = RobotIndices(model), []
        for k, part in enumerate(self._parts):
            places = (part.link, part.offset), (part.reference_link, part.reference_offset)
            frames = tuple(body_frame(robot, link, np.array(offset)) for link, offset in places)
            elements.append(Element(frames, data_columns=(POSE * k,), constants=(part.size,)))
        return [(velocity_group(self._parts[0].kind), elements)]

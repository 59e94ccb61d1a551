"""An objective on a motion: what a constraint on velocities allows of the way from where a motion started."""

import functools
from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.element_table import Element
from objectives.errors import InputError
from objectives.expression import Scalar
from objectives.expression_objective import ExpressionObjective
from objectives.frame_algebra import Frame, quaternion, vector
from objectives.model import IKModel
from objectives.robot_indices import IDENTITY, RobotIndices
from objectives.statement.rows import RowGroup, RowInputs
from objectives.tasks.frames.closing_joint import FRAME, REFERENCE_FRAME, SIZE
from objectives.tasks.frames.fixed_offset import body_frame, checked_offset
from objectives.tasks.frames.velocity_rows import VELOCITY_ROWS, FrameMotion

START = "start"


@functools.cache
def velocity_group(kind: str) -> RowGroup:
    """Return the row group of a kind of constraint on velocities."""

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
        data=((START, 7),),
        starts=((START, FRAME, REFERENCE_FRAME),),
    )


class VelocityObjective(ExpressionObjective):
    """Move as a constraint on velocities allows: a wheel that rolls, one that does not slip, shafts that turn alike.

    residual = weight row_weights s, one row: s is what the constraint holds at 0 of the velocity, over a motion in unit
    time from where the frame stood in the reference frame to where it stands: the way that the lowest point of a wheel
    slides [m], or the angle by which shafts turn apart [rad], 0 to the third order of the motion where it rolls or
    turns alike. Take small motions: from tick to tick.

    | kind | s |
    |---|---|
    | rolling | slip of the lowest point of a wheel along its way |
    | no_sideslip | the same across its way |
    | constant_velocity | relative turn about the line halfway between both axes |

    The frame of a wheel stands at its centre with z along its axle, that of the ground with z upwards; axes of shafts
    are the z axes of both frames. In a controller the motion starts where a tick begins, whatever `start` says; robots
    bring these rows with their constraints, solvers have no motion that they could be about.

    Attributes:
        is_constraint: Whether all other rows yield to this one.
        label: What reports call it; None for the class's name.
    """

    is_constraint = False
    label: str | None = None

    def __init__(
        self,
        link: str,
        reference_link: str | None,
        kind: str,
        *,
        start: Any = None,
        offset: Any = None,
        reference_offset: Any = None,
        radius: float | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        """State which frames move, and how.

        Args:
            link: Name of the link that carries the frame: the wheel, or a shaft.
            reference_link: Name of the link that carries the reference frame: the ground, or the other shaft; None for
                the world.
            kind: One of the table above.
            start: T_reference_frame where the motion starts, position [m] and quaternion xyzw, shape [7] or
                [problem_count, 7]; None for the same frame. A Warp array is used in place.
            offset: T_link_frame, alike, shape [7]; None for the link's own frame.
            reference_offset: The same of the reference frame.
            radius: Radius of a wheel [m].
            row_weights: Weight of the row, shape [1] or [problem_count, 1]; 0 switches it off.
            weight: Factor of the row [1/m or 1/rad].

        Raises:
            InputError: There is no such kind, a value has a wrong shape or is not finite, or a quaternion is not of
                unit length.
        """
        if kind not in VELOCITY_ROWS:
            raise InputError(f"VelocityObjective: kind is {kind!r}. Allowed: {', '.join(map(repr, VELOCITY_ROWS))}.")
        self._kind, self._radius, self._links = kind, 1.0 if radius is None else float(radius), (link, reference_link)
        owner = type(self).__name__
        self._offsets = (
            checked_offset(owner, "offset", offset),
            checked_offset(owner, "reference_offset", reference_offset),
        )
        field = DataField(owner, START, 7, IDENTITY if start is None else start, quaternion_columns=(3,))
        super().__init__([field], row_count=1, row_weights=row_weights, weight=weight)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the row."""
        robot = RobotIndices(model)
        frames = tuple(body_frame(robot, link, offset) for link, offset in zip(self._links, self._offsets, strict=True))
        return [(velocity_group(self._kind), [Element(frames, data_columns=(0,), constants=(self._radius,))])]

"""An objective on a motion: what a constraint on velocities allows of the way from where a motion started."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ConstraintObjective
from objectives.expression.frame_algebra import Frame, quaternion, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel
from objectives.robot_indices import IDENTITY, RobotIndices
from objectives.tasks.closing_joint import FRAME, REFERENCE_FRAME, SIZE
from objectives.tasks.frame_objective import body_frame
from objectives.tasks.velocity_rows import VELOCITY_ROWS, FrameMotion, MovingPair

START = "start"
POSE = 7
"""Numbers of a pose."""


@functools.cache
def velocity_group(kind: str) -> RowGroup:
    """Return the row group of a kind of parts; their rows add up."""

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


class VelocityObjective(ConstraintObjective):
    """Move as a constraint on velocities allows: wheels roll, shafts and gears turn together.

    residual = weight row_weights s, one row: s is what the constraint holds at 0 of the velocity, over a motion in unit
    time from where the frames stood in their reference frames to where they stand: the way that the lowest point of a
    wheel slides [m], or the angle by which shafts or gears turn apart [rad]. It is exact where upright wheels go along
    arcs, and to the third power of the angle by which an axis swings elsewhere. A frame that spins by half a turn or
    more about its axis is taken for one that spins by less.

    In a controller the motion starts where a tick begins, whatever `start` says. Robots bring these rows with their
    constraints; solvers have no motion that they could be about.
    """

    def __init__(
        self, parts: Sequence[MovingPair], *, start: Any = None, row_weights: Any = None, weight: float = 1.0
    ) -> None:
        """State which frames move, and how.

        Args:
            parts: One or more, of one kind, whose speeds add up.
            start: Where each frame stands in its reference frame where the motion starts, position [m] and quaternion
                xyzw, shape [7 parts] or [problem_count, 7 parts]; None for the same frame. A Warp array is used in
                place.
            row_weights: Weight of the row, shape [1] or [problem_count, 1]; 0 switches it off.
            weight: Factor of the row [1/m or 1/rad].

        Raises:
            InputError: A value has a wrong shape or is not finite, or a quaternion is not of unit length.
        """
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

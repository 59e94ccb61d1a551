"""Objective for a velocity constraint, over a motion from a start."""

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

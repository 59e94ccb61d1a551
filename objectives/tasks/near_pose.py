"""Objective for a frame near a target pose: within tolerances along and about the axes of a chosen frame."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from objectives.data_field import DataField
from objectives.errors import InputError
from objectives.expression import Scalar, maximum, sqrt
from objectives.expression.frame_algebra import (
    Vector,
    conjugate,
    dot,
    quaternion,
    rotate,
    rotation_difference,
    scale,
    subtract,
    vector,
)
from objectives.expression.rows import RowGroup, RowInputs
from objectives.tasks.frame_objective import REFERENCE_FRAME, FrameObjective, seen_frame
from objectives.tasks.pose import ORIENTATION, POSITION

ToleranceFrame = Literal["reference", "target", "tool", "world"]

DEADBAND = "deadband"
DEADBAND_WIDTH = 7
SHORTEST2 = 1e-10  # squared: lower bound of a residual's length as a divisor


def _beyond(gap: Vector, half_width: Vector) -> Vector:
    """State the signed distance of each component beyond an interval about 0."""
    x, y, z = (maximum(g - w, 0.0) - maximum(-g - w, 0.0) for g, w in zip(gap, half_width, strict=True))
    return x, y, z


def _rows(inputs: RowInputs, frame: ToleranceFrame) -> Sequence[Scalar]:
    seen, target, deadband = seen_frame(inputs), quaternion(inputs.data[ORIENTATION]), inputs.data[DEADBAND]
    shift = subtract(seen.position, vector(inputs.data[POSITION]))
    turn = rotation_difference(seen.orientation_xyzw, target)
    if frame in ("target", "tool"):  # the axis of a rotation is the same in both
        turn = rotate(conjugate(target), turn)
        shift = rotate(conjugate(target if frame == "target" else seen.orientation_xyzw), shift)
    elif frame == "world" and REFERENCE_FRAME in inputs.frames:
        reference = inputs.frames[REFERENCE_FRAME].orientation_xyzw
        turn, shift = rotate(reference, turn), rotate(reference, shift)
    turn = _beyond(turn, vector(deadband[3:6]))
    length = sqrt(maximum(dot(turn, turn), SHORTEST2))
    turn = scale(maximum(1.0 - deadband[6] / length, 0.0), turn)
    return [*_beyond(shift, vector(deadband[:3])), *turn]


_ROWS: dict[ToleranceFrame, RowGroup] = {
    frame: RowGroup(f"near_pose_{frame}", 6, partial(_rows, frame=frame))
    for frame in ("reference", "target", "tool", "world")
}


class IKObjectiveNearPose(FrameObjective):
    """Bring a frame near a target pose: within tolerances along and about the axes of a chosen frame.

    residual = weight row_weights (s, t), 6 rows. s is p - p_target outside the deadband, component by component. t is
    2 sign(w) vec(e), e = q q_target^-1, outside the deadband: component by component, then outside a ball. All rows are
    expressed in the frame `frame`. `weight` is in 1/m for the first three rows and in 1/rad for the other rows. A free
    row of an axis together with a ball gives a cone: the tilt a of the axis has 2 sin(a / 2) up to the ball's radius,
    with any rotation about the axis.

    Args:
        frame: Frame of the rows: the controlled frame ("tool"), the target frame ("target"), the frame of the reference
            link ("reference"), or the world ("world").
        deadband: Tolerated errors, shape [7] or [problem_count, 7], 0 and above: half widths of the three position
            rows [m], half widths of the three rotation rows, 2 sin(angle / 2), then the radius of a ball of the
            rotation rows. None for no deadband.
        weight: Factor of all rows; `IKObjectivePose` describes the other arguments.
    """

    def __init__(
        self,
        link: str | int,
        target_positions: Any,
        target_orientations_xyzw: Any,
        *,
        frame: ToleranceFrame = "tool",
        deadband: Any = None,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        if frame not in _ROWS:
            raise InputError(f"{type(self).__name__}: frame is {frame!r}; allowed: {', '.join(_ROWS)}.")
        self._rows = _ROWS[frame]
        owner, width = type(self).__name__, DEADBAND_WIDTH
        fields = [
            DataField(owner, POSITION, 3, target_positions),
            DataField(owner, ORIENTATION, 4, target_orientations_xyzw, quaternion_columns=(0,)),
            DataField(owner, DEADBAND, width, [0.0] * width if deadband is None else deadband, non_negative=True),
        ]
        super().__init__(link, reference_link, fields, offset=offset, row_weights=row_weights, weight=weight)

"""Objective that brings a frame near a target pose: within tolerances along and about the axes of a chosen frame."""

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
from objectives.expression.rows import RowInputs
from objectives.tasks.frame_objective import REFERENCE_FRAME, FrameObjective, FrameRows, seen_frame
from objectives.tasks.pose import ORIENTATION, POSITION

ToleranceFrame = Literal["reference", "target", "tool", "world"]

DEADBAND = "deadband"
DEADBAND_WIDTH = 7
SHORTEST2 = 1e-10  # squared: a shorter residual is taken as if it had this length where it is divided by it


def _beyond(gap: Vector, half_width: Vector) -> Vector:
    """Give by how much each component is outside of an interval about 0, with its sign."""
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


_ROWS: dict[ToleranceFrame, FrameRows] = {
    frame: FrameRows(f"near_pose_{frame}", 6, partial(_rows, frame=frame))
    for frame in ("reference", "target", "tool", "world")
}


class IKObjectiveNearPose(FrameObjective):
    """Bring a frame near a target pose: within tolerances along and about the axes of a chosen frame.

    residual = weight row_weights (s, t), 6 rows. s is p - p_target less what its deadband allows, each component for
    itself. t is 2 sign(w) vec(e), e = q q_target^-1, less what its deadband allows: each component for itself, then
    all three by the radius of a ball. All are expressed in the frame `frame`. `weight` stands for 1/m in the first
    three rows and for 1/rad in the others. With the row of an axis free and a ball beside it, that axis of the frame is
    anywhere in a cone: its tilt a has 2 sin(a / 2) up to the radius, whatever the rotation about it.
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
        """State where a frame should be, and how near.

        Args:
            link: Name of the link; an int is a body index.
            target_positions: Target positions [m], shape [3] or [problem_count, 3]; Warp arrays are used as they are.
            target_orientations_xyzw: Target quaternions, shape [4] or [problem_count, 4]; as the positions.
            frame: Frame in which the rows are expressed: the controlled frame ("tool"), the one where it should be
                ("target"), that of the reference link, or the world.
            deadband: What counts as no error, shape [7] or [problem_count, 7], 0 and above: half widths of the three
                position rows [m], half widths of the three rotation rows, 2 sin(angle / 2), then the radius of a ball
                of the rotation rows. None is 0: no error counts as none.
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            reference_link: Link in whose frame the targets are given; None for the world.
            row_weights: Weights of the rows, shape [6] or [problem_count, 6]; 0 switches a row off.
            weight: Factor of all rows.

        Raises:
            InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
        """
        if frame not in _ROWS:
            raise InputError(f"{type(self).__name__}: frame is {frame!r}; allowed: {', '.join(_ROWS)}.")
        self._rows = _ROWS[frame]
        owner, width = type(self).__name__, DEADBAND_WIDTH
        fields = [
            DataField(owner, POSITION, 3, target_positions),
            DataField(owner, ORIENTATION, 4, target_orientations_xyzw, quaternion_columns=(0,)),
            DataField(owner, DEADBAND, width, [0.0] * width if deadband is None else deadband, non_negative=True),
        ]
        super().__init__(
            link, fields, offset=offset, reference_link=reference_link, row_weights=row_weights, weight=weight
        )

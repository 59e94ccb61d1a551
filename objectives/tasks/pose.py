"""Objectives for a frame on a link at, or near, a target position, a target orientation, or both."""

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

POSITION, ORIENTATION = "target_positions", "target_orientations_xyzw"


def _position_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return subtract(seen_frame(inputs).position, vector(inputs.data[POSITION]))


def _rotation_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return rotation_difference(seen_frame(inputs).orientation_xyzw, quaternion(inputs.data[ORIENTATION]))


def _pose_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return [*_position_rows(inputs), *_rotation_rows(inputs)]


class IKObjectivePosition(FrameObjective):
    """Bring the origin of a frame to a target position.

    residual = weight row_weights (p - p_target), 3 rows [m times weight]; p is the origin of the frame T_link_tcp,
    expressed in the world frame, or in the frame of the reference link. The arguments are those of `IKObjectivePose`;
    `row_weights` have 3 columns, `weight` is in 1/m.
    """

    _rows = RowGroup("position", 3, _position_rows)

    def __init__(
        self,
        link: str | int,
        target_positions: Any,
        *,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        targets = [DataField(type(self).__name__, POSITION, 3, target_positions)]
        super().__init__(link, reference_link, targets, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, target_positions: Any) -> None:
        """Replace the target positions [m], shape [3] or [problem_count, 3]; see `set_data` for errors."""
        self.set_data(POSITION, target_positions)


class IKObjectiveRotation(FrameObjective):
    """Bring a frame to a target orientation.

    residual = weight row_weights 2 sign(w) vec(e), e = q q_target^-1, w = e.w, 3 rows [rad times weight near the
    target]; expressed in the world frame, or in the frame of the reference link. The norm is 2 sin(angle / 2). The
    arguments are those of `IKObjectivePose`; `row_weights` have 3 columns, `weight` is in 1/rad.
    """

    _rows = RowGroup("rotation", 3, _rotation_rows)

    def __init__(
        self,
        link: str | int,
        target_orientations_xyzw: Any,
        *,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        targets = [DataField(type(self).__name__, ORIENTATION, 4, target_orientations_xyzw, quaternion_columns=(0,))]
        super().__init__(link, reference_link, targets, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, target_orientations_xyzw: Any) -> None:
        """Replace the target quaternions, shape [4] or [problem_count, 4]; see `set_data` for errors."""
        self.set_data(ORIENTATION, target_orientations_xyzw)


class IKObjectivePose(FrameObjective):
    """Bring a frame to a target position and orientation.

    residual = weight row_weights (p - p_target, 2 sign(w) vec(e)), e = q q_target^-1, w = e.w, 6 rows; expressed in the
    world frame, or in the frame of the reference link.

    Args:
        link: Name of the link; an int is a body index.
        target_positions: Target positions [m], shape [3] or [problem_count, 3]; Warp arrays are used in place.
        target_orientations_xyzw: Target quaternions, shape [4] or [problem_count, 4]; Warp arrays are used in place.
        offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7]; None for the link itself.
        reference_link: Link in whose frame the targets are given; None for the world.
        row_weights: Weights of the rows, shape [6] or [problem_count, 6]; 0 disables a row.
        weight: Factor of all rows, in 1/m for the first three rows and in 1/rad for the other rows.

    Raises:
        InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
    """

    _rows = RowGroup("pose", 6, _pose_rows)

    def __init__(
        self,
        link: str | int,
        target_positions: Any,
        target_orientations_xyzw: Any,
        *,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        owner = type(self).__name__
        targets = [
            DataField(owner, POSITION, 3, target_positions),
            DataField(owner, ORIENTATION, 4, target_orientations_xyzw, quaternion_columns=(0,)),
        ]
        super().__init__(link, reference_link, targets, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, target_positions: Any = None, target_orientations_xyzw: Any = None) -> None:
        """Replace positions or orientations, in the shapes of the constructor; None keeps the old values."""
        self._replace({POSITION: target_positions, ORIENTATION: target_orientations_xyzw})


class IKObjectiveRelativePose(IKObjectivePose):
    """Bring a frame to a target pose relative to another link, for example one hand relative to the other.

    residual = weight row_weights (p - p_target, 2 sign(w) vec(e)), e = q q_target^-1, w = e.w, 6 rows; p and q are the
    position and orientation in the frame of the reference link. The rows do not depend on DOFs that move both links
    together. The arguments are those of `IKObjectivePose`.
    """

    def __init__(
        self,
        link: str | int,
        reference_link: str | int,
        target_positions: Any,
        target_orientations_xyzw: Any,
        *,
        offset: Any = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        targets = target_positions, target_orientations_xyzw
        more: dict[str, Any] = {"offset": offset, "row_weights": row_weights, "weight": weight}
        super().__init__(link, *targets, reference_link=reference_link, **more)


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

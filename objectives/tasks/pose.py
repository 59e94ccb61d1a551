"""Objectives for a frame on a link at a target position, a target orientation, or both."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.frame_algebra import quaternion, rotation_difference, subtract, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.tasks.frame_objective import FrameObjective, seen_frame

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
        super().__init__(
            link,
            target_positions,
            target_orientations_xyzw,
            offset=offset,
            reference_link=reference_link,
            row_weights=row_weights,
            weight=weight,
        )

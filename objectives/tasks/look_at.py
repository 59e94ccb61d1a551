"""Objectives for an axis of a frame on a link: pointing at a point, or along a direction."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.frame_algebra import direction, rotate, subtract, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.tasks.frame_objective import FrameObjective, seen_frame

NEAREST = 1e-4  # [m]: a nearer point gives no direction; the rows then tend to the axis itself
AXIS, TARGET_POINT, TARGET_AXIS = "axis", "target_points", "target_axis"


def _look_at_rows(inputs: RowInputs) -> Sequence[Scalar]:
    frame = seen_frame(inputs)
    pointing = rotate(frame.orientation_xyzw, vector(inputs.data[AXIS]))
    return subtract(pointing, direction(subtract(vector(inputs.data[TARGET_POINT]), frame.position), NEAREST))


def _axis_align_rows(inputs: RowInputs) -> Sequence[Scalar]:
    pointing = rotate(seen_frame(inputs).orientation_xyzw, vector(inputs.data[AXIS]))
    return subtract(pointing, vector(inputs.data[TARGET_AXIS]))


class IKObjectiveLookAt(FrameObjective):
    """Point an axis of a frame on a link at a point in the world, like a camera; the roll about the axis is free.

    residual = weight row_weights (R axis - (point - p) / |point - p|), 3 rows [rad times weight near the target]; R and
    p are the frame T_link_tcp, world frame. The norm is 2 sin(angle / 2), so an axis pointing away is no solution.

    Args:
        target_points: Points in the world frame [m], shape [3] or [problem_count, 3]; Warp arrays are used in place.
        axis: Axis in the frame T_link_tcp, of any length but 0, shape [3] or [problem_count, 3].
        weight: Factor of all rows [1/rad]; `IKObjectivePose` describes the other arguments.
    """

    _rows = RowGroup("look_at", 3, _look_at_rows, independent=False)

    def __init__(
        self,
        link: str | int,
        target_points: Any,
        *,
        axis: Any = (0.0, 0.0, 1.0),
        offset: Any = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        owner = type(self).__name__
        fields = [
            DataField(owner, TARGET_POINT, 3, target_points),
            DataField(owner, AXIS, 3, axis, direction_columns=(0,)),
        ]
        super().__init__(link, None, fields, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, target_points: Any) -> None:
        """Replace the points [m], world frame, shape [3] or [problem_count, 3]; see `set_data` for errors."""
        self.set_data(TARGET_POINT, target_points)


class IKObjectiveAxisAlign(FrameObjective):
    """Align an axis of a frame on a link with a direction, for example a gripper's approach axis with the vertical.

    residual = weight row_weights (R axis - d), 3 rows [rad times weight near the target]; R is the orientation of the
    frame T_link_tcp and d the wanted direction; axis and d are unit vectors, in the world frame or in the frame of the
    reference link. The roll about the axis and the position are free. The norm is 2 sin(angle / 2): largest at the
    opposite direction, which is no solution and no minimum.

    Args:
        axis: Axis in the frame T_link_tcp, of any length but 0, shape [3] or [problem_count, 3].
        target_axis: Wanted directions, of any length but 0, shape [3] or [problem_count, 3]. Warp arrays of `axis` and
            `target_axis` are used in place and need vectors of length 1.
        weight: Factor of all rows [1/rad]; `IKObjectivePose` describes the other arguments.
    """

    _rows = RowGroup("axis_align", 3, _axis_align_rows, independent=False)

    def __init__(
        self,
        link: str | int,
        axis: Any,
        target_axis: Any,
        *,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        owner = type(self).__name__
        fields = [
            DataField(owner, TARGET_AXIS, 3, target_axis, direction_columns=(0,)),
            DataField(owner, AXIS, 3, axis, direction_columns=(0,)),
        ]
        super().__init__(link, reference_link, fields, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, target_axis: Any) -> None:
        """Replace the directions, of any length but 0, shape [3] or [problem_count, 3]; see `set_data` for errors."""
        self.set_data(TARGET_AXIS, target_axis)

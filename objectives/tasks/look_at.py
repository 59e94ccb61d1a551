"""Objectives that point an axis of a frame on a link: at a point, or along a direction."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.frame_algebra import direction, rotate, subtract, vector
from objectives.expression.rows import RowInputs
from objectives.tasks.frame_objective import FrameObjective, FrameRows, seen_frame

NEAREST = 1e-4  # [m] below this distance the point gives no direction, and the rows shrink to the axis itself
AXIS, TARGET_POINT, TARGET_AXIS = "axis", "target_points", "target_axis"


def _look_at_rows(inputs: RowInputs) -> Sequence[Scalar]:
    frame = seen_frame(inputs)
    pointing = rotate(frame.orientation_xyzw, vector(inputs.data[AXIS]))
    return subtract(pointing, direction(subtract(vector(inputs.data[TARGET_POINT]), frame.position), NEAREST))


def _axis_align_rows(inputs: RowInputs) -> Sequence[Scalar]:
    pointing = rotate(seen_frame(inputs).orientation_xyzw, vector(inputs.data[AXIS]))
    return subtract(pointing, vector(inputs.data[TARGET_AXIS]))


class IKObjectiveLookAt(FrameObjective):
    """Point an axis of a frame on a link at a point in the world, like a camera; the roll about the axis stays free.

    residual = weight row_weights (R axis - (point - p) / |point - p|), 3 rows [rad times weight near the target]; R and
    p are the frame T_link_tcp, world frame. Its norm is 2 sin(angle / 2), so that an axis pointing away is no solution.
    """

    _rows = FrameRows("look_at", 3, _look_at_rows, independent=False)

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
        """State what a link should look at.

        Args:
            link: Name of the link; an int is a body index.
            target_points: Points in the world frame [m], shape [3] or [problem_count, 3]; Warp arrays stay in place.
            axis: Axis in the frame T_link_tcp, of any length but 0, shape [3] or [problem_count, 3].
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 switches a row off.
            weight: Factor of all rows [1/rad].

        Raises:
            InputError: A value has a wrong shape, is not finite, or has length 0 where it must not.
        """
        owner = type(self).__name__
        fields = [
            DataField(owner, TARGET_POINT, 3, target_points),
            DataField(owner, AXIS, 3, axis, direction_columns=(0,)),
        ]
        super().__init__(link, fields, offset=offset, reference_link=None, row_weights=row_weights, weight=weight)

    def set_targets(self, target_points: Any) -> None:
        """Replace the points [m], world frame, shape [3] or [problem_count, 3].

        Raises:
            InputError: The value has a wrong shape or is not finite.
        """
        self.set_data(TARGET_POINT, target_points)


class IKObjectiveAxisAlign(FrameObjective):
    """Turn an axis of a frame on a link into a direction, such as a gripper's approach axis straight down.

    residual = weight row_weights (R axis - d), 3 rows [rad times weight near the target]; R is the orientation of the
    frame T_link_tcp and d the wanted direction, both unit vectors in the world frame, or in the frame of the reference
    link. The roll about the axis and the position stay free. The norm is 2 sin(angle / 2): largest at the opposite
    direction, which is no solution and no minimum.
    """

    _rows = FrameRows("axis_align", 3, _axis_align_rows, independent=False)

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
        """State where an axis should point.

        Args:
            link: Name of the link; an int is a body index.
            axis: Axis in the frame T_link_tcp, of any length but 0, shape [3] or [problem_count, 3].
            target_axis: Wanted directions, of any length but 0, shape [3] or [problem_count, 3]. A Warp array stays in
                place and holds vectors of length 1; so for `axis`.
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            reference_link: Link in whose frame the directions are given; None for the world.
            row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 switches a row off.
            weight: Factor of all rows [1/rad].

        Raises:
            InputError: A value has a wrong shape, is not finite, or has length 0 where it must not.
        """
        owner = type(self).__name__
        fields = [
            DataField(owner, TARGET_AXIS, 3, target_axis, direction_columns=(0,)),
            DataField(owner, AXIS, 3, axis, direction_columns=(0,)),
        ]
        super().__init__(
            link, fields, offset=offset, reference_link=reference_link, row_weights=row_weights, weight=weight
        )

    def set_targets(self, target_axis: Any) -> None:
        """Replace the wanted directions, of any length but 0, shape [3] or [problem_count, 3].

        Raises:
            InputError: The value has a wrong shape, is not finite, or has length 0.
        """
        self.set_data(TARGET_AXIS, target_axis)

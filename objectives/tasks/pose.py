"""Objectives that bring a frame on a link to a target position, orientation, or both."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.frame_algebra import quaternion, rotation_difference, subtract, vector
from objectives.expression.rows import RowInputs
from objectives.tasks.frame_objective import FrameObjective, FrameRows, seen_frame

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
    expressed in the world frame, or in the frame of the reference link.
    """

    _rows = FrameRows("position", 3, _position_rows)

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
        """State where a frame's origin should be.

        Args:
            link: Name of the link; an int is a body index.
            target_positions: Target positions [m], shape [3] or [problem_count, 3]; Warp arrays are used as they are.
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            reference_link: Link in whose frame the targets are given; None for the world.
            row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 switches a row off.
            weight: Factor of all rows [1/m].

        Raises:
            InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
        """
        targets = [DataField(type(self).__name__, POSITION, 3, target_positions)]
        super().__init__(
            link, targets, offset=offset, reference_link=reference_link, row_weights=row_weights, weight=weight
        )

    def set_targets(self, target_positions: Any) -> None:
        """Replace the target positions [m], shape [3] or [problem_count, 3].

        Raises:
            InputError: The value has a wrong shape or is not finite.
        """
        self.set_data(POSITION, target_positions)


class IKObjectiveRotation(FrameObjective):
    """Bring a frame to a target orientation.

    residual = weight row_weights 2 sign(w) vec(e), e = q q_target^-1, w = e.w, 3 rows [rad times weight near the
    target]; expressed in the world frame, or in the frame of the reference link. Its norm is 2 sin(angle / 2).
    """

    _rows = FrameRows("rotation", 3, _rotation_rows)

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
        """State how a frame should be oriented.

        Args:
            link: Name of the link; an int is a body index.
            target_orientations_xyzw: Target quaternions, shape [4] or [problem_count, 4]; Warp arrays stay in place.
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            reference_link: Link in whose frame the targets are given; None for the world.
            row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 switches a row off.
            weight: Factor of all rows [1/rad].

        Raises:
            InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
        """
        targets = [DataField(type(self).__name__, ORIENTATION, 4, target_orientations_xyzw, quaternion_columns=(0,))]
        super().__init__(
            link, targets, offset=offset, reference_link=reference_link, row_weights=row_weights, weight=weight
        )

    def set_targets(self, target_orientations_xyzw: Any) -> None:
        """Replace the target quaternions, shape [4] or [problem_count, 4].

        Raises:
            InputError: The value has a wrong shape, or a quaternion is not of unit length.
        """
        self.set_data(ORIENTATION, target_orientations_xyzw)


class IKObjectivePose(FrameObjective):
    """Bring a frame to a target position and orientation.

    residual = weight row_weights (p - p_target, 2 sign(w) vec(e)), e = q q_target^-1, w = e.w, 6 rows; expressed in the
    world frame, or in the frame of the reference link. `weight` stands for 1/m in the first three rows and for 1/rad
    in the others.
    """

    _rows = FrameRows("pose", 6, _pose_rows)

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
        """State where a frame should be.

        Args:
            link: Name of the link; an int is a body index.
            target_positions: Target positions [m], shape [3] or [problem_count, 3]; Warp arrays are used as they are.
            target_orientations_xyzw: Target quaternions, shape [4] or [problem_count, 4]; as the positions.
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            reference_link: Link in whose frame the targets are given; None for the world.
            row_weights: Weights of the rows, shape [6] or [problem_count, 6]; 0 switches a row off.
            weight: Factor of all rows.

        Raises:
            InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
        """
        owner = type(self).__name__
        targets = [
            DataField(owner, POSITION, 3, target_positions),
            DataField(owner, ORIENTATION, 4, target_orientations_xyzw, quaternion_columns=(0,)),
        ]
        super().__init__(
            link, targets, offset=offset, reference_link=reference_link, row_weights=row_weights, weight=weight
        )

    def set_targets(self, target_positions: Any = None, target_orientations_xyzw: Any = None) -> None:
        """Replace the targets; None leaves that part as it is.

        Args:
            target_positions: Positions [m], shape [3] or [problem_count, 3].
            target_orientations_xyzw: Quaternions, shape [4] or [problem_count, 4].

        Raises:
            InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
        """
        if target_positions is not None:
            self.set_data(POSITION, target_positions)
        if target_orientations_xyzw is not None:
            self.set_data(ORIENTATION, target_orientations_xyzw)


class IKObjectiveRelativePose(IKObjectivePose):
    """Bring a frame to a target pose relative to another link, for example one hand relative to the other.

    residual = weight row_weights (p - p_target, 2 sign(w) vec(e)), e = q q_target^-1, w = e.w, 6 rows; p and q are the
    position and orientation in the frame of the reference link. `weight` stands for 1/m and 1/rad. DOFs that move both
    links alike do not occur in the rows.
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
        """State where a frame should be relative to another link.

        Args:
            link: Name of the link; an int is a body index.
            reference_link: Link in whose frame the targets are given.
            target_positions: Target positions [m], shape [3] or [problem_count, 3]; Warp arrays are used as they are.
            target_orientations_xyzw: Target quaternions, shape [4] or [problem_count, 4]; as the positions.
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            row_weights: Weights of the rows, shape [6] or [problem_count, 6]; 0 switches a row off.
            weight: Factor of all rows.

        Raises:
            InputError: A value has a wrong shape, is not finite, or a quaternion is not of unit length.
        """
        super().__init__(
            link,
            target_positions,
            target_orientations_xyzw,
            offset=offset,
            reference_link=reference_link,
            row_weights=row_weights,
            weight=weight,
        )

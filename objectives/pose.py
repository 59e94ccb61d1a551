"""Objectives that bring a frame on a link to a target position, orientation, or both."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.element_table import Element
from objectives.expression import Scalar
from objectives.expression_objective import ExpressionObjective
from objectives.frame_algebra import Frame, quaternion, rotation_difference, subtract, vector
from objectives.model import IKModel
from objectives.statement import RowGroup, RowInputs

LINK, REFERENCE, OFFSET = "link", "reference", "offset"
POSITION, ORIENTATION = "target_positions", "target_orientations_xyzw"


def _seen_frame(inputs: RowInputs) -> Frame:
    """The controlled frame: on the link, at the offset if there is one, seen from the reference if there is one."""
    frame = inputs.frames[LINK]
    if OFFSET in inputs.data:
        offset = inputs.data[OFFSET]
        frame = frame.compose(Frame(vector(offset[:3]), quaternion(offset[3:])))
    if REFERENCE in inputs.frames:
        frame = frame.relative_to(inputs.frames[REFERENCE])
    return frame


def _position_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return subtract(_seen_frame(inputs).position, vector(inputs.data[POSITION]))


def _rotation_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return rotation_difference(_seen_frame(inputs).orientation_xyzw, quaternion(inputs.data[ORIENTATION]))


def _pose_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return [*_position_rows(inputs), *_rotation_rows(inputs)]


_STATEMENTS = {"position": (3, _position_rows), "rotation": (3, _rotation_rows), "pose": (6, _pose_rows)}
_WIDTHS = {POSITION: 3, ORIENTATION: 4, OFFSET: 7}


def _group(kind: str, fields: Sequence[str], *, relative: bool) -> RowGroup:
    row_count, state = _STATEMENTS[kind]
    name = kind + ("_relative" if relative else "") + ("_offset" if OFFSET in fields else "")
    frames = (LINK, REFERENCE) if relative else (LINK,)
    return RowGroup(name, row_count, state, frames=frames, data=tuple((field, _WIDTHS[field]) for field in fields))


class _FrameObjective(ExpressionObjective):
    """What the objectives of this module share: a frame on a link, with an offset and a reference link if wanted."""

    _kind = ""

    def __init__(
        self,
        link: str | int,
        targets: Sequence[DataField],
        *,
        offset: Any,
        reference_link: str | int | None,
        row_weights: Any,
        weight: float,
    ) -> None:
        fields = list(targets)
        if offset is not None:
            fields.append(DataField(type(self).__name__, OFFSET, 7, offset, quaternion_columns=(3,)))
        super().__init__(fields, row_count=_STATEMENTS[self._kind][0], row_weights=row_weights, weight=weight)
        self._link, self._reference_link = link, reference_link
        names = [field.name for field in fields]
        self._group = _group(self._kind, names, relative=reference_link is not None)

    @property
    def link(self) -> str | int:
        """Link that carries the controlled frame, by name, or a body by index."""
        return self._link

    @property
    def reference_link(self) -> str | int | None:
        """Link in whose frame the targets are given; None for the world."""
        return self._reference_link

    @property
    def offset(self) -> Any:
        """Copy of T_link_tcp on the host, position [m] and quaternion xyzw, shape [1 or problem_count, 7], or None."""
        return self._fields[OFFSET].host() if OFFSET in self._fields else None

    def set_offset(self, offset: Any) -> None:
        """Replace T_link_tcp, shape [7] or [problem_count, 7]; only where the objective was made with an offset.

        Raises:
            UnknownNameError: The objective was made without an offset.
            InputError: The value has a wrong shape or numbers that are not allowed.
        """
        self.set_data(OFFSET, offset)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the rows of one frame."""
        frames = (self._link,) if self._reference_link is None else (self._link, self._reference_link)
        return [(self._group, [Element(frames, data_columns=(0,) * len(self._group.data))])]


class IKObjectivePosition(_FrameObjective):
    """Bring the origin of a frame to a target position.

    residual = weight row_weights (p - p_target), 3 rows [m times weight]; p is the origin of the frame T_link_tcp,
    expressed in the world frame, or in the frame of the reference link.
    """

    _kind = "position"

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


class IKObjectiveRotation(_FrameObjective):
    """Bring a frame to a target orientation.

    residual = weight row_weights 2 sign(w) vec(e), e = q q_target^-1, w = e.w, 3 rows [rad times weight near the
    target]; expressed in the world frame, or in the frame of the reference link. Its norm is 2 sin(angle / 2).
    """

    _kind = "rotation"

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


class IKObjectivePose(_FrameObjective):
    """Bring a frame to a target position and orientation.

    residual = weight row_weights (p - p_target, 2 sign(w) vec(e)), e = q q_target^-1, w = e.w, 6 rows; expressed in the
    world frame, or in the frame of the reference link. `weight` stands for 1/m in the first three rows and for 1/rad
    in the others.
    """

    _kind = "pose"

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

"""Statements about a frame on a link, and what the objectives that control such a frame have in common."""

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
    """The controlled frame, seen from the reference if there is one."""
    frame = inputs.frames[LINK]
    return frame.relative_to(inputs.frames[REFERENCE]) if REFERENCE in inputs.frames else frame


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
    return RowGroup(
        name,
        row_count,
        state,
        frames=(LINK, REFERENCE) if relative else (LINK,),
        offsets=((LINK, OFFSET),) if OFFSET in fields else (),
        data=tuple((field, _WIDTHS[field]) for field in fields),
    )


class FrameObjective(ExpressionObjective):
    """What the objectives of `objectives.pose` share: a frame on a link, with offset and reference link if wanted."""

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

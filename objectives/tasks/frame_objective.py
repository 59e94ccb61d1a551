"""Base of objectives for a frame on a link: offset of the frame, and reference link."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from objectives.data_field import UNIT_TOLERANCE, DataField
from objectives.errors import InputError
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import Frame, add, quaternion, quaternion_product, rotate, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IDENTITY, BodyFrame, FloatArray, IKModel, RobotIndices


def checked_offset(owner: str, name: str, value: Any) -> FloatArray:
    """Read T_link_frame [7] with a unit quaternion, None for the link's own frame; InputError for anything else."""
    transform = IDENTITY if value is None else np.asarray(value, np.float64)
    if transform.shape != (7,) or not np.isfinite(transform).all():
        raise InputError(f"{owner}: {name} is {value}; allowed: seven finite numbers, position and xyzw.")
    length = float(np.linalg.norm(transform[3:]))
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise InputError(f"{owner}: the quaternion of {name} has length {length:.6g}; allowed: 1.")
    return np.concatenate([transform[:3], transform[3:] / length])


def body_frame(robot: RobotIndices, link: str | None, offset: FloatArray) -> BodyFrame:
    """Place a frame on the body of its link, or in the world for None."""
    body, place = (-1, IDENTITY) if link is None else robot.frame(link)
    turn, own = quaternion(place[3:].tolist()), offset.tolist()
    position: Any = add(vector(place[:3].tolist()), rotate(turn, vector(own[:3])))  # of numbers, not expressions
    orientation: Any = quaternion_product(turn, quaternion(own[3:]))
    return BodyFrame(body, (*position, *orientation))


FRAME, REFERENCE_FRAME, OFFSET = "link", "reference", "offset"


def seen_frame(inputs: RowInputs) -> Frame:
    """Give the controlled frame, in the reference frame if there is one, else in the world."""
    frame = inputs.frames[FRAME]
    return frame.relative_to(inputs.frames[REFERENCE_FRAME]) if REFERENCE_FRAME in inputs.frames else frame


def _group(rows: RowGroup, fields: Sequence[tuple[str, int]], *, relative: bool, offset: bool) -> RowGroup:
    return replace(
        rows,
        name=rows.name + ("_relative" if relative else "") + ("_offset" if offset else ""),
        frames=(FRAME, REFERENCE_FRAME) if relative else (FRAME,),
        offsets=((FRAME, OFFSET),) if offset else (),
        data=(*fields, (OFFSET, 7)) if offset else tuple(fields),
    )


class FrameObjective(ExpressionObjective):
    """An objective for a frame on a link, with optional offset and reference link.

    A subclass states the rows, a group without frames and data. `IKObjectivePose` describes the arguments; `fields` are
    the data of the rows.
    """

    _rows: RowGroup

    def __init__(
        self,
        link: str | int,
        reference_link: str | int | None,
        fields: Sequence[DataField],
        *,
        offset: Any,
        row_weights: Any,
        weight: float,
    ) -> None:
        widths = [(field.name, field.columns or 0) for field in fields]
        offsets = []
        if offset is not None:
            offsets.append(DataField(type(self).__name__, OFFSET, 7, offset, quaternion_columns=(3,)))
        super().__init__([*fields, *offsets], row_count=self._rows.row_count, row_weights=row_weights, weight=weight)
        self._link, self._reference_link = link, reference_link
        self._group = _group(self._rows, widths, relative=reference_link is not None, offset=offset is not None)

    @property
    def link(self) -> str | int:
        """Link of the controlled frame, by name, or a body by index."""
        return self._link

    @property
    def reference_link(self) -> str | int | None:
        """Reference link, the frame of the data; None for the world."""
        return self._reference_link

    @property
    def offset(self) -> Any:
        """Copy of T_link_tcp on the host, position [m] and quaternion xyzw, shape [1 or problem_count, 7], or None."""
        return self._fields[OFFSET].host() if OFFSET in self._fields else None

    def set_offset(self, offset: Any) -> None:
        """Replace T_link_tcp, shape [7] or [problem_count, 7]; UnknownNameError for an objective without offset."""
        self.set_data(OFFSET, offset)

    def _replace(self, data: Mapping[str, Any]) -> None:
        for name, value in data.items():
            if value is not None:
                self.set_data(name, value)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the rows of one frame."""
        frames = (self._link,) if self._reference_link is None else (self._link, self._reference_link)
        return [(self._group, [Element(frames, data_columns=(0,) * len(self._group.data))])]

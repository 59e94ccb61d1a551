"""Objective that points an axis of a link at a point."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from objectives.data_field import DataField
from objectives.element_table import Element
from objectives.errors import InputError
from objectives.expression import Scalar
from objectives.expression_objective import ExpressionObjective
from objectives.frame_algebra import direction, rotate, subtract, vector
from objectives.model import IKModel
from objectives.statement import RowGroup, RowInputs

NEAREST = 1e-4  # [m] below this distance the point gives no direction, and the rows shrink to the axis itself


def _look_at_rows(inputs: RowInputs) -> Sequence[Scalar]:
    frame = inputs.frames["link"]
    axis = rotate(frame.orientation_xyzw, vector(inputs.data["axis"]))
    return subtract(axis, direction(subtract(vector(inputs.data["target_points"]), frame.position), NEAREST))


_DATA = (("target_points", 3), ("axis", 3))
_PLAIN = RowGroup("look_at", 3, _look_at_rows, frames=("link",), data=_DATA)
_WITH_OFFSET = RowGroup(
    "look_at_offset", 3, _look_at_rows, frames=("link",), offsets=(("link", "offset"),), data=(*_DATA, ("offset", 7))
)


class IKObjectiveLookAt(ExpressionObjective):
    """Point an axis of a frame on a link at a point in the world, like a camera; the roll about the axis stays free.

    residual = weight row_weights (R axis - (point - p) / |point - p|), 3 rows [rad times weight near the target]; R and
    p are the frame T_link_tcp, world frame. Its norm is 2 sin(angle / 2), so that an axis pointing away is no solution.
    """

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
            axis: Axis in the frame T_link_tcp, of any length but 0, shape [3].
            offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
            row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 switches a row off.
            weight: Factor of all rows [1/rad].

        Raises:
            InputError: A value has a wrong shape, is not finite, or has length 0 where it must not.
        """
        owner = type(self).__name__
        fields = [DataField(owner, "target_points", 3, target_points), DataField(owner, "axis", 3, _unit(axis))]
        if offset is not None:
            fields.append(DataField(owner, "offset", 7, offset, quaternion_columns=(3,)))
        super().__init__(fields, row_count=3, row_weights=row_weights, weight=weight)
        self._link = link
        self._group = _PLAIN if offset is None else _WITH_OFFSET

    @property
    def link(self) -> str | int:
        """Link that carries the axis, by name, or a body by index."""
        return self._link

    def set_targets(self, target_points: Any) -> None:
        """Replace the points [m], world frame, shape [3] or [problem_count, 3].

        Raises:
            InputError: The value has a wrong shape or is not finite.
        """
        self.set_data("target_points", target_points)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the rows of one axis."""
        return [(self._group, [Element((self._link,), data_columns=(0,) * len(self._group.data))])]


def _unit(axis: Any) -> Any:
    values = np.asarray(axis, dtype=np.float64)
    length = np.linalg.norm(values)
    if values.shape != (3,) or not np.isfinite(length) or length == 0.0:
        raise InputError(f"IKObjectiveLookAt: axis is {axis}; allowed: 3 finite numbers that are not all 0.")
    return values / length

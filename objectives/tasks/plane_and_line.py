"""Objectives for a frame's origin in a plane or on a line."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.frame_algebra import Vector, dot, perpendiculars, subtract, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.tasks.frame_objective import FrameObjective, seen_frame

POINTS, NORMALS, DIRECTIONS = "points", "normals", "directions"


def _from_point(inputs: RowInputs) -> Vector:
    return subtract(seen_frame(inputs).position, vector(inputs.data[POINTS]))


def _plane_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return [dot(vector(inputs.data[NORMALS]), _from_point(inputs))]


def _line_rows(inputs: RowInputs) -> Sequence[Scalar]:
    arm = _from_point(inputs)
    return [dot(across, arm) for across in perpendiculars(vector(inputs.data[DIRECTIONS]))]


def _fields(owner: str, points: Any, name: str, directions: Any) -> list[DataField]:
    return [DataField(owner, POINTS, 3, points), DataField(owner, name, 3, directions, direction_columns=(0,))]


class IKObjectivePlane(FrameObjective):
    """Keep the origin of a frame in a plane, for example a tool on a table.

    residual = weight row_weights n . (p - p0), 1 row [m times weight], positive on the side of the normal; p is the
    origin of the frame T_link_tcp, p0 a point of the plane and n the unit normal, in the world frame, or in the frame
    of the reference link.

    Args:
        points: A point of each plane [m], shape [3] or [problem_count, 3]; Warp arrays are used in place.
        normals: Normals of any length but 0, shape [3] or [problem_count, 3]. A Warp array is used in place and needs
            vectors of length 1.
        weight: Factor of the row [1/m]; `IKObjectivePose` describes the other arguments.
    """

    _rows = RowGroup("plane", 1, _plane_rows)

    def __init__(
        self,
        link: str | int,
        points: Any,
        normals: Any,
        *,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        fields = _fields(type(self).__name__, points, NORMALS, normals)
        super().__init__(link, reference_link, fields, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, points: Any = None, normals: Any = None) -> None:
        """Replace points or normals of the planes, in the shapes of the constructor; None keeps the old values."""
        self._replace({POINTS: points, NORMALS: normals})


class IKObjectiveLine(FrameObjective):
    """Keep the origin of a frame on a straight line, for example a tool on a seam.

    residual = weight row_weights (a . (p - p0), b . (p - p0)), 2 rows [m times weight]; p is the origin of the frame
    T_link_tcp, p0 a point of the line, d the unit direction and a, b unit vectors across the line with a x b = d
    [Duff2017 (5)], in the world frame, or in the frame of the reference link. With equal row weights, the norm is the
    distance from the line, |(I - d d') (p - p0)|.

    Args:
        points: A point of each line [m], shape [3] or [problem_count, 3]; Warp arrays are used in place.
        directions: Directions of any length but 0, shape [3] or [problem_count, 3]. A Warp array is used in place and
            needs vectors of length 1.
        weight: Factor of all rows [1/m]; `IKObjectivePose` describes the other arguments.
    """

    _rows = RowGroup("line", 2, _line_rows)

    def __init__(
        self,
        link: str | int,
        points: Any,
        directions: Any,
        *,
        offset: Any = None,
        reference_link: str | int | None = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        fields = _fields(type(self).__name__, points, DIRECTIONS, directions)
        super().__init__(link, reference_link, fields, offset=offset, row_weights=row_weights, weight=weight)

    def set_targets(self, points: Any = None, directions: Any = None) -> None:
        """Replace points or directions of the lines, in the shapes of the constructor; None keeps the old values."""
        self._replace({POINTS: points, DIRECTIONS: directions})

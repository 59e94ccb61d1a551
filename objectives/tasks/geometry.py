"""Objectives for a frame (in a plane, on a line, pointing at a point or in a direction), and for the centre of mass."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.errors import InputError
from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import Vector, direction, dot, perpendiculars, rotate, scale, subtract, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import BodyFrame, IKModel
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


POSITION, SHARE = "target_positions", "mass_share"


def _body_rows(inputs: RowInputs) -> Sequence[Scalar]:
    """State one body's term; the shares of all bodies sum to 1, so the terms of the target sum to the target."""
    return scale(inputs.constants[SHARE], subtract(inputs.frames["com"].position, vector(inputs.data[POSITION])))


_BODY = RowGroup(
    "center_of_mass", 3, _body_rows, frames=("com",), constants=(SHARE,), data=((POSITION, 3),), summed=True
)


class IKObjectiveCenterOfMass(ExpressionObjective):
    """Bring the centre of mass of all links to a point, for example above the feet.

    residual = weight row_weights (sum_i m_i p_i / sum_i m_i - p_target), 3 rows [m times weight], world frame; m_i is
    the mass of link i and p_i the centre of mass in the robot's file, static links included. The rows depend on every
    DOF that moves a link with mass, and couple the trees of these DOFs. To balance over a point of the ground, disable
    the vertical row: row_weights (1, 1, 0).

    Args:
        target_positions: Target positions in the world frame [m], shape [3] or [problem_count, 3]; Warp arrays are
            used in place.
        row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 disables a row.
        weight: Factor of all rows [1/m].
    """

    def __init__(self, target_positions: Any, *, row_weights: Any = None, weight: float = 1.0) -> None:
        fields = [DataField(type(self).__name__, POSITION, 3, target_positions)]
        super().__init__(fields, row_count=3, row_weights=row_weights, weight=weight)

    def set_targets(self, target_positions: Any) -> None:
        """Replace the target positions [m], world frame, shape [3] or [problem_count, 3]; see `set_data` for errors."""
        self.set_data(POSITION, target_positions)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one term for every body with mass; InputError for a robot without masses."""
        total = sum(one.mass for one in model.body_masses)
        if total <= 0.0:
            raise InputError(
                f"{type(self).__name__}: the robot has no masses; its file must give links an <inertial> with a <mass> "
                "above 0 kg."
            )
        frames = [BodyFrame(one.body, (*one.com, 0.0, 0.0, 0.0, 1.0)) for one in model.body_masses]
        shares = [one.mass / total for one in model.body_masses]
        terms = zip(frames, shares, strict=True)
        return [(_BODY, [Element((frame,), data_columns=(0,), constants=(share,)) for frame, share in terms])]

"""Turns about constant axes, and a target as a rigid motion, as expressions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ik_service.compiler.closed_form.arm import SNAP, Arm, Vectors, snapped
from objectives.expression import ExpressionGraph, Scalar, cos, sin
from objectives.expression.frame_algebra import (
    QuaternionXYZW,
    Vector,
    add,
    conjugate,
    cross,
    dot,
    quaternion,
    quaternion_product,
    rotate,
    scale,
    subtract,
    vector,
)

Turn: TypeAlias = tuple[Scalar, Scalar]  # cosine and sine of an angle
Rows: TypeAlias = tuple[Vector, Vector, Vector]  # rows of a rotation matrix
TARGET = ("target_x", "target_y", "target_z", "target_qx", "target_qy", "target_qz", "target_qw")
TOOL = ("tool_x", "tool_y", "tool_z", "tool_qx", "tool_qy", "tool_qz", "tool_qw")
LAST = ("last_cosine", "last_sine", "last_spread")  # the last joint: cosine, sine and radius of its interval
LAST_ANGLE = "last_angle"  # its angle, in place of these, for exact targets
POSITION_TOLERANCE, ORIENTATION_TOLERANCE = "position_tolerance", "orientation_tolerance"


def lower_name(joint: int) -> str:
    """Name the variable of a joint's lower limit [rad]."""
    return f"lower{joint}"


def upper_name(joint: int) -> str:
    """Name the variable of a joint's upper limit [rad]."""
    return f"upper{joint}"


def direction(values: Vectors) -> Vector:
    """Return a constant direction, without the rounding of its file."""
    return vector(snapped(values))


def point_of(values: Vectors) -> Vector:
    """Return a constant point [m], coordinates far below the largest set to 0."""
    largest = float(np.abs(values).max())
    return vector([0.0 if abs(x) < SNAP * largest else float(x) for x in values])


def turn_of(angle: Scalar) -> Turn:
    """Return cosine and sine of an angle."""
    return cos(angle), sin(angle)


def back(turn: Turn) -> Turn:
    """Return the opposite turn."""
    return turn[0], -turn[1]


def turned(axis: Vector, turn: Turn, v: Vector) -> Vector:
    """Turn a vector about a constant unit axis: (axis . v) axis (1 - c) + c v + s axis x v."""
    c, s = turn
    along = dot(axis, v)
    return add(add(scale(along * (1.0 - c), axis), scale(c, v)), scale(s, cross(axis, v)))


def rows_turned(rows: Rows, axis: Vector, turn: Turn) -> Rows:
    """Return the product of a rotation matrix and the opposite of a turn."""
    x, y, z = (turned(axis, turn, row) for row in rows)
    return x, y, z


def turned_rows(axis: Vector, turn: Turn, rows: Rows) -> Rows:
    """Return the product of a turn and a rotation matrix."""
    x, y, z = (turned(axis, turn, column) for column in transposed(rows))
    return transposed((x, y, z))


def transposed(rows: Rows) -> Rows:
    """Return the transpose of a matrix."""
    x, y, z = zip(*rows, strict=True)
    return vector(x), vector(y), vector(z)


def times(rows: Rows, v: Vector) -> Vector:
    """Return the product of a matrix and a vector."""
    return dot(rows[0], v), dot(rows[1], v), dot(rows[2], v)


def rows_of(q: QuaternionXYZW) -> Rows:
    """Return the rotation matrix of a unit quaternion."""
    x, y, z = (rotate(q, vector(axis)) for axis in np.eye(3).tolist())
    return transposed((x, y, z))


@dataclass(frozen=True)
class TargetDisplacement:
    """The motion D = T_world_tool T0^-1 of a target, D(x) = `rotation` x + `shift`; see `arm`.

    Attributes:
        rotation: Rotation of D.
        shift: Translation of D [m].
        tool: Origin of the tool at zero configuration in the world [m].
        size: Sum of the absolute coordinates of target and tool [m], the scale of rounding errors.
    """

    rotation: Rows
    shift: Vector
    tool: Vector
    size: Scalar

    @classmethod
    def of(cls, arm: Arm, graph: ExpressionGraph) -> "TargetDisplacement":
        """Return the motion of a target in the variables TARGET, with T_link_tool in TOOL."""
        position, q = _pose(graph, TARGET)
        tool, q_link_tool = _pose(graph, TOOL)
        q_world_link = quaternion(snapped(arm.T_world_link[3:]))
        at = add(point_of(arm.T_world_link[:3]), rotate(q_world_link, tool))
        rotation = rows_of(quaternion_product(quaternion_product(q, conjugate(q_link_tool)), conjugate(q_world_link)))
        size: Scalar = 0.0
        for name in (*TARGET[:3], *TOOL[:3]):
            size = size + abs(graph.variable(name))
        return cls(rotation, subtract(position, times(rotation, at)), at, size)

    def of_point(self, point: Vector) -> Vector:
        """Move a point of the link's zero configuration."""
        return add(times(self.rotation, point), self.shift)


def _pose(graph: ExpressionGraph, names: Sequence[str]) -> tuple[Vector, QuaternionXYZW]:
    values = [graph.variable(name) for name in names]
    return vector(values[:3]), quaternion(values[3:])

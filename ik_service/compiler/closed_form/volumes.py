"""Manipulability of an arm with seven joints, as an expression of its joints."""

from collections.abc import Sequence

from ik_service.compiler.closed_form.scope import ArmScope
from ik_service.compiler.closed_form.turns import Rows, back, times, transposed, turn_of, turned
from objectives.expression import Scalar, maximum, sqrt
from objectives.expression.frame_algebra import Vector, add, cross, dot, scale, subtract, vector


def volume(scope: ArmScope, joints: Sequence[Scalar]) -> Scalar:
    """Return sqrt(det(J J^T)) in meters, given the first six joints; axes 1, 2, 3 and axes 5, 6 meet.

    J is for the point where axes 1, 2, 3 meet, in the link between axes 3 and 4: all points and frames of the last link
    give the same number.
    """
    h, p = scope.axes, scope.points
    _, q2, q3, q4, q5, q6 = map(turn_of, joints)

    def by_last(v: Vector) -> Vector:
        return turned(h[3], q4, turned(h[4], q5, turned(h[5], q6, v)))

    second, near = turned(h[2], back(q3), h[1]), subtract(p[3], p[0])
    wrist = add(near, turned(h[3], q4, subtract(p[4], p[3])))
    axes = [turned(h[2], back(q3), turned(h[1], back(q2), h[0])), second, h[2], h[3]]
    axes += [turned(h[3], q4, h[4]), turned(h[3], q4, turned(h[4], q5, h[5])), by_last(h[6])]
    levers = near, wrist, wrist, add(wrist, by_last(subtract(p[6], p[4])))
    moved = [cross(lever, axis) for lever, axis in zip(levers, axes[3:], strict=True)]
    x, y, z = _products(moved, moved)
    adjugate, size = (cross(y, z), cross(z, x), cross(x, y)), dot(x, cross(y, z))
    mixed, angular = transposed(_products(moved, axes[3:])), _products(axes, axes)
    rest = [subtract(scale(size, angular[k]), _by_rows(mixed, times(adjugate, mixed[k]))) for k in range(3)]
    return sqrt(maximum(dot(rest[0], cross(rest[1], rest[2])), 0.0)) / size  # Schur complement of the linear rows


def _by_rows(rows: Rows, v: Vector) -> Vector:
    return vector([dot(row, v) for row in rows])


def _products(left: Sequence[Vector], right: Sequence[Vector]) -> Rows:
    """Return the sum of the products a b^T of vectors."""
    pairs = list(zip(left, right, strict=True))
    x, y, z = (vector([sum((a[i] * b[k] for a, b in pairs), 0.0) for k in range(3)]) for i in range(3))
    return x, y, z

"""Proofs by a shell: the wrist is nearer to the shoulder, or further, than the limits of the elbow allow."""

import numpy as np

from ik_service.compiler.closed_form.arm import SNAP, Vectors, meeting
from ik_service.compiler.closed_form.intervals import TINY, cosine_range, root
from ik_service.compiler.closed_form.scope import ArmScope
from ik_service.compiler.closed_form.turns import direction, point_of, times
from objectives.expression import Scalar, maximum, sqrt
from objectives.expression.frame_algebra import Vector, cross, dot, subtract


def shell_of_parallel_links(scope: ArmScope) -> Scalar:
    """Refuse by the distance of the wrist from the point of axis 1 beside axis 2; 2 || 3."""
    h, p = scope.arm.axes, scope.arm.points
    beside_second = meeting(h[:2], p[:2])
    assert beside_second is not None  # no class has parallel axes 1 and 2
    centre = p[0] + h[0] * (h[0] @ (beside_second - p[0]))
    shift = length_across(p[1] - centre, h[1]) + length_across(p[3] - p[4], h[1])  # on both sides of the links
    least, most = _between(scope, 2, p[1], p[3])
    return _outside(scope, centre, p[4], maximum(least - shift, 0.0), most + shift, float(h[1] @ (p[4] - centre)))


def shell_of_elbow(scope: ArmScope) -> Scalar:
    """Refuse by the distance of the wrist, on axes 5 and 6, from the shoulder, on axes 1 to 3."""
    h, p = scope.arm.axes, scope.arm.points
    return _outside(scope, p[0], p[4], *_between(scope, 3, p[0], p[4]), float(h[3] @ (p[4] - p[0])))


def _between(scope: ArmScope, joint: int, near: Vectors, far: Vectors) -> tuple[Scalar, Scalar]:
    """Return least and largest distance, across a joint's axis, of points before and behind the joint [m]."""
    axis, at = scope.arm.axes[joint], scope.arm.points[joint]
    a, b = (point - at - axis * (axis @ (point - at)) for point in (near, far))
    phase = float(np.arctan2(a @ np.cross(axis, b), a @ b))
    least, most = cosine_range(scope.graph, joint, phase)
    sum2, product = float(a @ a + b @ b), 2.0 * float(np.sqrt((a @ a) * (b @ b)))
    return root(sum2 - product * most), root(sum2 - product * least)


def _outside(
    scope: ArmScope, centre: Vectors, wrist_point: Vectors, least: Scalar, most: Scalar, offset: float
) -> Scalar:
    """Return by how much the wrist is outside a shell: distances across an axis, and an offset along it [m]."""
    axis, at = scope.arm.axes[-1], scope.arm.points[-1]
    foot = at + axis * (axis @ (wrist_point - at))
    lever = float(np.linalg.norm(wrist_point - foot))
    lever = 0.0 if lever < SNAP * scope.arm.length else lever
    axis_now = times(scope.motion.rotation, direction(axis))
    of_centre = subtract(point_of(centre), scope.motion.of_point(point_of(foot)))
    nearest, furthest = _from_circle(axis_now, of_centre, lever)
    # the tool, too, may be on any side of the circle
    _, of_tool = _from_circle(direction(axis), subtract(scope.motion.tool, point_of(foot)), lever)
    low, high = sqrt(least * least + offset * offset), sqrt(most * most + offset * offset)
    return maximum(nearest - high, low - furthest) - scope.slack - scope.spread * of_tool


def _from_circle(axis: Vector, v: Vector, radius: float) -> tuple[Scalar, Scalar]:
    """Return the least and the largest distance of a point from a circle about an axis, both seen from its centre."""
    if radius == 0.0:
        distance = sqrt(dot(v, v) + TINY)
        return distance, distance
    z, across = dot(axis, v), cross(axis, v)
    r = sqrt(dot(across, across) + TINY)
    near, far = r - radius, r + radius
    return sqrt(z * z + near * near), sqrt(z * z + far * far)


def length_across(v: Vectors, axis: Vectors) -> float:
    """Return the length of a vector across an axis [m]."""
    return float(np.linalg.norm(v - axis * (axis @ v)))

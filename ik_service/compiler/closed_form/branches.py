"""Branches of a class: the configurations that meet a target, one for each choice of signs, as intervals of joints.

Each function gives the branches of a class. Of arms without a searched joint the code of a branch is
4 shoulder + 2 elbow + wrist, with a bit for the second sign of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ik_service.compiler.closed_form.intervals import (
    ARC_SLACK,
    PI,
    TINY,
    ElbowTurns,
    Interval,
    Place,
    arc_range,
    azimuth_radius,
    elbow,
    number,
    root,
    shoulder,
    sine_bound,
    wrist,
)
from ik_service.compiler.closed_form.scope import ArmScope
from ik_service.compiler.closed_form.shells import length_across
from ik_service.compiler.closed_form.turns import (
    back,
    rows_turned,
    times,
    transposed,
    turn_of,
    turned,
    turned_rows,
)
from objectives.expression import Scalar, atan2, maximum, minimum, sqrt, where
from objectives.expression.frame_algebra import Vector, add, cross, dot, scale, subtract


@dataclass(frozen=True)
class Branch:
    """A branch of an arm.

    Attributes:
        refused: Above 0 if a step has no solution for any target within the tolerances.
        joints: Interval of each joint, except the last where it is searched; whole turns are left out.
        mismatch: Angle that no joint is left to turn, with a change of sign at a solution. None for no such angle.
    """

    refused: Scalar
    joints: tuple[Interval, ...]
    mismatch: Interval | None = None


def spherical_wrist(scope: ArmScope) -> Iterator[Branch]:
    """Give the branches of an arm whose axes 4, 5 and 6 meet; 2 || 3."""
    h, p = scope.axes, scope.points
    sign3 = _same_way(h[1], h[2])
    moved = scope.moved(p[3])
    turns, refused = shoulder(
        h[0], h[1], subtract(scope.motion.of_point(p[3]), p[0]), moved, number(dot(h[1], subtract(p[3], p[0])))
    )
    for first, place, radius in turns:
        links, out_of_reach = _elbow(scope, p[3], place, radius)
        rotation = turned_rows(h[0], back(turn_of(first.centre)), scope.motion.rotation)
        for link in links:
            third = Interval(sign3 * link.second.centre, link.second.radius)
            left = turned_rows(h[1], back(turn_of(link.total.centre)), rotation)
            spread = scope.spread + first.radius + link.total.radius + ARC_SLACK
            for turn in wrist((h[3], h[4], h[5]), left, minimum(spread, PI)):
                joints = (first, link.first, third, turn.first, turn.middle, turn.last)
                yield Branch(maximum(refused, out_of_reach), joints)


def parallel_axes(scope: ArmScope) -> Iterator[Branch]:
    """Give the branches of an arm whose axes 2, 3 and 4 are parallel; 4, 5 and 5, 6 meet."""
    found = list(_parallel_axes(scope))
    return (found[4 * shoulder + 2 * wrist + elbow] for shoulder, elbow, wrist in np.ndindex(2, 2, 2))


def _parallel_axes(scope: ArmScope) -> Iterator[Branch]:
    # in the order of the signs of shoulder, wrist, elbow
    h, p = scope.axes, scope.points
    sign3, sign4 = _same_way(h[1], h[2]), _same_way(h[1], h[3])
    moved = scope.moved(p[4])
    turns, refused = shoulder(
        h[0], h[1], subtract(scope.motion.of_point(p[4]), p[0]), moved, number(dot(h[1], subtract(p[4], p[0])))
    )
    lever = subtract(p[3], p[4])  # along axis 5
    length = float(np.linalg.norm(scope.arm.points[3] - scope.arm.points[4]))
    for first, place, radius in turns:
        rotation = turned_rows(h[0], back(turn_of(first.centre)), scope.motion.rotation)
        spread = minimum(scope.spread + first.radius + ARC_SLACK, PI)
        for turn in wrist((h[1], h[4], h[5]), rotation, spread):
            # axis 4 is beside the wrist: on a known side, or anywhere around it
            is_known = turn.first.radius < 1.0
            side = _in_plane(scope, turned(h[1], turn_of(turn.first.centre), lever))
            x, y = (a + where(is_known, b, 0.0) for a, b in zip(place, side, strict=True))
            around = where(is_known, turn.first.radius, 1.0) * length
            links, out_of_reach = _elbow(scope, p[3], (x, y), radius + around)
            for link in links:
                third = Interval(sign3 * link.second.centre, link.second.radius)
                fourth = Interval(
                    sign4 * (turn.first.centre - link.total.centre),
                    minimum(turn.first.radius + link.total.radius, PI),
                )
                joints = (first, link.first, third, fourth, turn.middle, turn.last)
                yield Branch(maximum(refused, out_of_reach), joints)


def meeting_axes(scope: ArmScope) -> Iterator[Branch]:
    """Give the branches of an arm whose axes 4 and 5 meet, for an interval of joint 6; 2 || 3."""
    h, p = scope.axes, scope.points
    last, last_spread = scope.last_joint
    sign3, lever = _same_way(h[1], h[2]), length_across(scope.arm.points[4] - scope.arm.points[5], scope.arm.axes[5])
    wrist_point = add(p[5], turned(h[5], back(last), subtract(p[4], p[5])))
    moved = scope.moved(wrist_point, last_spread * lever)
    v = subtract(scope.motion.of_point(wrist_point), p[0])
    turns, refused = shoulder(h[0], h[1], v, moved, number(dot(h[1], subtract(p[4], p[0]))))
    side = _unit(cross(h[4], h[5]))
    bend, from_last = _angle(h[3], h[4]), float(np.sin(_angle(h[4], h[5])))
    along_fifth, across_fifth = (times(scope.motion.rotation, turned(h[5], back(last), one)) for one in (h[4], side))
    ahead = _unit(subtract(h[4], scale(dot(h[3], h[4]), h[3])))
    for first, place, radius in turns:
        links, out_of_reach = _elbow(scope, p[3], place, radius)
        turn = back(turn_of(first.centre))
        seen = [turned(h[0], turn, one) for one in (along_fifth, across_fifth)]
        for link in links:
            third = Interval(sign3 * link.second.centre, link.second.radius)
            turn = back(turn_of(link.total.centre))
            fifth, beside = (turned(h[1], turn, one) for one in seen)
            spread = scope.spread + first.radius + link.total.radius + ARC_SLACK
            of_fifth = minimum(spread + last_spread * from_last, PI)
            x, y = dot(ahead, fifth), dot(cross(h[3], ahead), fifth)
            sine = sqrt(maximum(x * x + y * y, TINY))
            apart = atan2(sine, dot(h[3], fifth)) - bend
            fourth = Interval(atan2(y, x), azimuth_radius(sine_bound(of_fifth), sine))
            left = turned(h[3], back(turn_of(fourth.centre)), beside)
            turn_spread = spread + last_spread + fourth.radius
            turn_spread = where(turn_spread < 1.5, turn_spread, PI)
            turn5 = Interval(atan2(dot(cross(h[4], side), left), dot(side, left)), turn_spread)
            joints = (first, link.first, third, fourth, turn5)
            yield Branch(maximum(refused, out_of_reach), joints, Interval(apart, of_fifth))


def seven_joints(scope: ArmScope) -> Iterator[Branch]:
    """Give the branches of an arm whose axes 1, 2, 3 and axes 5, 6 meet, for an interval of joint 7."""
    h, p, slack = scope.axes, scope.points, scope.slack
    last, last_spread = scope.last_joint
    rotation = rows_turned(scope.motion.rotation, h[6], last)
    lever = length_across(scope.arm.points[4] - scope.arm.points[6], scope.arm.axes[6])
    wrist_point = add(p[6], turned(h[6], back(last), subtract(p[4], p[6])))
    v = subtract(scope.motion.of_point(wrist_point), p[0])
    distance, moved = sqrt(dot(v, v) + TINY), scope.moved(wrist_point, last_spread * lever)
    bends, refused = _bend(scope, maximum(distance - moved, 0.0), distance + moved)
    # the shoulder seen from link 6
    back6 = scale(-1.0, times(transposed(rotation), v))
    from_shoulder = subtract(scope.motion.of_point(scope.motion.tool), p[0])
    foot = subtract(scope.motion.of_point(p[6]), p[0])
    turning = cross(times(scope.motion.rotation, h[6]), foot)
    moved6 = slack + scope.spread * sqrt(dot(from_shoulder, from_shoulder) + TINY)
    moved6 = moved6 + last_spread * sqrt(dot(turning, turning) + TINY)
    side = cross(h[5], h[4])
    a, b, along6 = dot(h[4], back6), dot(side, back6), dot(h[5], back6)
    flat = sqrt(maximum(a * a + b * b, TINY))
    least, most = maximum(flat - moved6, TINY), flat + moved6
    phase, phase_radius = atan2(b, a), azimuth_radius(moved6, flat)
    near = subtract(p[0], p[3])
    near_across = length_across(scope.arm.points[0] - scope.arm.points[3], scope.arm.axes[3])
    for fourth in bends:
        turn4 = turn_of(fourth.centre)
        shoulder5 = subtract(add(p[3], turned(h[3], back(turn4), near)), p[4])  # from the wrist, seen from link 4
        moved5 = fourth.radius * near_across + scope.rounding
        offset = dot(h[4], shoulder5)
        low, high = offset - moved5, offset + moved5
        arc_least, arc_most, of_arc = arc_range(
            where(low > 0.0, low / most, low / least), where(high > 0.0, high / least, high / most)
        )
        nearest2 = where(low > 0.0, low * low, where(high < 0.0, high * high, 0.0))
        furthest2 = maximum(low * low, high * high)
        x_low, x_high = root(least * least - furthest2), root(most * most - nearest2)
        x, x_radius = (x_low + x_high) * 0.5, (x_high - x_low) * 0.5
        beside5 = cross(h[4], shoulder5)
        level = sqrt(dot(beside5, beside5) + TINY)
        ahead = sqrt(maximum(x * x + along6 * along6, TINY))
        of_x = azimuth_radius(sqrt(x_radius * x_radius + moved6 * moved6), ahead)
        radius5 = minimum(azimuth_radius(moved5, level) + of_x, PI)
        azimuth = atan2(dot(cross(h[4], h[5]), shoulder5), dot(h[5], shoulder5))
        for sign in (1.0, -1.0):
            sixth = Interval(
                (arc_least + arc_most) * (0.5 * sign) - phase,
                minimum(phase_radius + (arc_most - arc_least) * 0.5, PI),
            )
            fifth = Interval(azimuth - atan2(x * -sign, along6), radius5)
            left = rows_turned(rotation, h[5], turn_of(sixth.centre))
            left = rows_turned(rows_turned(left, h[4], turn_of(fifth.centre)), h[3], turn4)
            spread = scope.spread + last_spread + fourth.radius + fifth.radius + sixth.radius + ARC_SLACK
            for turn in wrist((h[0], h[1], h[2]), left, minimum(spread, PI)):
                joints = (turn.first, turn.middle, turn.last, fourth, fifth, sixth)
                yield Branch(maximum(refused, of_arc), joints)


def _bend(scope: ArmScope, least: Scalar, most: Scalar) -> tuple[list[Interval], Scalar]:
    """Bring the wrist to a distance from the shoulder by joint 4, and a number above 0 where there is no turn."""
    axis, at = scope.arm.axes[3], scope.arm.points[3]
    a, b = scope.arm.points[4] - at, scope.arm.points[0] - at
    x, y = float(a @ b - (axis @ a) * (axis @ b)), float(b @ np.cross(axis, a))
    middle, share = float(0.5 * (a @ a + b @ b) - (axis @ a) * (axis @ b)), 1.0 / float(np.hypot(x, y))
    arc_least, arc_most, refused = arc_range(
        (middle - most * most * 0.5) * share, (middle - least * least * 0.5) * share
    )
    phase = float(np.arctan2(y, x))
    middles = ((arc_least + arc_most) * (0.5 * sign) + phase for sign in (1.0, -1.0))
    return [Interval(centre, (arc_most - arc_least) * 0.5) for centre in middles], refused


def _elbow(scope: ArmScope, end: Vector, place: Place, radius: Scalar) -> tuple[list[ElbowTurns], Scalar]:
    """Reach a place of the plane across axis 2, from axis 1, by the links between axes 2, 3 and a point."""
    p = scope.points
    first, second, foot = (_in_plane(scope, subtract(b, a)) for a, b in ((p[1], p[2]), (p[2], end), (p[0], p[1])))
    start = place[0] - foot[0], place[1] - foot[1]
    return elbow((number(first[0]), number(first[1])), (number(second[0]), number(second[1])), start, radius)


def _in_plane(scope: ArmScope, v: Vector) -> Place:
    """Return the coordinates of a vector across axis 2: turns about axis 2 go from the first to the second."""
    return dot(cross(scope.axes[0], scope.axes[1]), v), dot(scope.axes[0], v)


def _angle(axis: Vector, other: Vector) -> float:
    """Return the angle between two axes [rad]."""
    return float(np.arccos(np.clip(number(dot(axis, other)), -1.0, 1.0)))


def _unit(v: Vector) -> Vector:
    """Return the direction of a constant vector."""
    return scale(1.0 / float(np.sqrt(number(dot(v, v)))), v)


def _same_way(axis: Vector, other: Vector) -> float:
    """Return 1 for parallel axes, -1 for opposite ones."""
    return float(np.sign(number(dot(axis, other))))

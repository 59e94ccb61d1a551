"""Angles of a closed form as intervals that hold every target within the tolerances.

An interval is a centre and a radius. Where a formula degenerates (a point on an axis, a stretched elbow, a straight
wrist) the radius grows to pi, and nothing is claimed. Rounding errors are inside: slacks widen lengths, cosines and
angles. A branch is refused by a number above 0; NaN refuses nothing.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ik_service.compiler.closed_form.turns import Rows, back, lower_name, times, transposed, turned, upper_name
from objectives.expression import (
    Condition,
    Expression,
    ExpressionGraph,
    Scalar,
    acos,
    atan2,
    cos,
    maximum,
    minimum,
    sqrt,
    where,
)
from objectives.expression.frame_algebra import Vector, cross, dot

Place: TypeAlias = tuple[Scalar, Scalar]  # a point of a plane [m]
PI = float(np.pi)
COSINE_SLACK = 2e-6  # rounding of cosines and sines in float32
ARC_SLACK = 4e-6  # rounding of angles, away from the ends of an arc [rad]
END_SLACK = 1e-4  # rounding of an interval's ends; 4.7e-5 was the largest of 800 000 targets of four arms [rad]
RELATIVE_SLACK = 1e-5  # rounding of quotients
TINY = 1e-20
ALIVE = -1.0
WRAPS = 3  # whole turns between an angle and a limit at most; beyond, nothing is refused
UNLIMITED = 1e3  # margin of a joint without limits [rad]


@dataclass(frozen=True)
class Interval:
    """An angle within a radius of a centre [rad]."""

    centre: Scalar
    radius: Scalar


def clipped(x: Scalar) -> Scalar:
    """Return a cosine or sine within -1 to 1."""
    return maximum(minimum(x, 1.0), -1.0)


def root(x: Scalar) -> Scalar:
    """Return the square root, 0 for negative arguments."""
    return sqrt(maximum(x, 0.0))


def arcs(low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """Return the least and the largest angle in [0, pi] with a cosine from `low` to `high`."""
    return acos(clipped(high + COSINE_SLACK)) - ARC_SLACK, acos(clipped(low - COSINE_SLACK)) + ARC_SLACK


def arc_range(low: Scalar, high: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return `arcs`, and a number above 0 where no angle has such a cosine."""
    return *arcs(low, high), maximum(low - 1.0, -1.0 - high) - COSINE_SLACK


def azimuth_radius(moved: Scalar, distance: Scalar) -> Scalar:
    """Return the largest change of azimuth of a point at a distance from the axis that moves by at most `moved`."""
    ratio = moved * (1.0 + RELATIVE_SLACK) / maximum(distance, TINY) + COSINE_SLACK
    return where(ratio < 1.0, PI / 2 - acos(clipped(ratio)) + ARC_SLACK, PI)


def sine_bound(angle: Scalar) -> Scalar:
    """Return a number above the sine of an angle from 0 to pi."""
    return where(angle < PI / 2, angle, 1.0)


@dataclass(frozen=True)
class LimitedAngle:
    """An interval of angles seen from the limits of its joint.

    Attributes:
        missed: By how much the interval and its copies a turn away miss the limits [rad]; above 0: missed.
        angle: The centre, on the turn nearest the middle of the limits [rad].
        margin: Distance of this angle from the nearer limit [rad]; -UNLIMITED for limits that are not compared.
    """

    missed: Scalar
    angle: Scalar
    margin: Scalar


def limited(graph: ExpressionGraph, joint: int, angle: Interval) -> LimitedAngle:
    """Compare an interval of a joint with its limits."""
    away, half, is_near, is_known = _from_middle(graph, joint, angle.centre)
    distance = maximum(away, -away)
    missed = where(is_known, distance - angle.radius - half - END_SLACK, ALIVE)
    middle = (graph.variable(lower_name(joint)) + graph.variable(upper_name(joint))) * 0.5
    margin = where(is_near, half - distance, where(distance > PI, -UNLIMITED, UNLIMITED))  # NaN without limits
    return LimitedAngle(missed, where(is_near, middle + away, angle.centre), margin)


def cosine_range(graph: ExpressionGraph, joint: int, phase: float) -> tuple[Scalar, Scalar]:
    """Return the least and the largest cos(q - phase) within the limits of a joint."""
    away, half, _, is_known = _from_middle(graph, joint, phase)
    away = maximum(away, -away)
    least, most = maximum(away - half, 0.0), minimum(away + half, PI)
    return where(is_known, cos(most) - COSINE_SLACK, -1.0), where(is_known, cos(least) + COSINE_SLACK, 1.0)


def _from_middle(graph: ExpressionGraph, joint: int, angle: Scalar) -> tuple[Scalar, Scalar, Any, Condition]:
    """Return an angle from the middle of the limits, within half a turn, and half their width.

    Also whether the angle is within half a turn (not without limits), and whether both numbers decide.
    """
    lower, upper = graph.variable(lower_name(joint)), graph.variable(upper_name(joint))
    away: Scalar = angle - (lower + upper) * 0.5
    for _ in range(WRAPS):
        away = where(away > PI, away - 2 * PI, where(away < -PI, away + 2 * PI, away))
    is_near: Any = maximum(away, -away) <= PI + ARC_SLACK
    return away, (upper - lower) * 0.5, is_near, (upper - lower < 2 * PI) & is_near


def shoulder(
    first: Vector, second: Vector, v: Vector, moved: Scalar, offset: float
) -> tuple[list[tuple[Interval, Place, Scalar]], Scalar]:
    """Turn a point back about axis 1 until its coordinate along axis 2 is `offset`; the axes are perpendicular.

    Args:
        first: Direction of axis 1.
        second: Direction of axis 2.
        v: The point, from a point of axis 1 [m].
        moved: Largest distance of the point from `v` [m].
        offset: Coordinate along axis 2 [m].

    Returns:
        For both turns the angle, the place in the plane of (axis 1 x axis 2, axis 1) [m], and the radius of the place;
        and a number above 0 where there is no turn.
    """
    a, b, y = dot(second, v), dot(cross(first, second), v), dot(first, v)
    distance = sqrt(maximum(a * a + b * b, TINY))
    low, high = maximum(distance - moved, 0.0), distance + moved
    x_low, x_high = (root((end - offset) * (end + offset)) for end in (low, high))
    x_radius = (x_high - x_low) * 0.5
    ends = offset / maximum(low, TINY), offset / high
    least, most = arcs(minimum(*ends), maximum(*ends))
    centre, radius = atan2(b, a), minimum(azimuth_radius(moved, distance) + (most - least) * 0.5, PI)
    place_radius = sqrt(x_radius * x_radius + moved * moved)
    found: list[tuple[Interval, Place, Scalar]] = []
    for sign in (1.0, -1.0):
        place = (x_low + x_high) * (-0.5 * sign), y
        found.append((Interval(centre + (least + most) * (0.5 * sign), radius), place, place_radius))
    return found, abs(offset) - high


@dataclass(frozen=True)
class ElbowTurns:
    """Turns of the two links of a plane: of the first link, of the second relative to it, and their sum."""

    first: Interval
    second: Interval
    total: Interval


def elbow(
    first: tuple[float, float], second: tuple[float, float], place: Place, radius: Scalar
) -> tuple[list[ElbowTurns], Scalar]:
    """Reach a place of a plane, within a radius, by turns of two links.

    Args:
        first: Vector of the first link without a turn [m].
        second: Vector of the second link without a turn [m].
        place: Where the end of the second link has to be, from the start of the first [m].
        radius: Radius of the place [m].

    Returns:
        The turns for both sides of the elbow, and a number above 0 where the place is out of reach.
    """
    n1, n2 = float(np.hypot(*first)), float(np.hypot(*second))
    distance = sqrt(maximum(place[0] * place[0] + place[1] * place[1], TINY))
    low, high = maximum(distance - radius, 0.0), distance + radius
    refused = maximum(low - (n1 + n2), abs(n1 - n2) - high)
    low, high = maximum(low, abs(n1 - n2)), minimum(high, n1 + n2)
    share = 1.0 / (2.0 * n1 * n2)
    bend_least, bend_most = arcs((low * low - (n1 * n1 + n2 * n2)) * share, (high * high - (n1 * n1 + n2 * n2)) * share)
    at_start, at_end = _inner_angle(n1, n2, low, high), _inner_angle(n2, n1, low, high)
    azimuth, spread = atan2(place[1], place[0]), azimuth_radius(radius, distance)
    start = float(np.arctan2(first[1], first[0]))
    turn = float(np.arctan2(first[0] * second[1] - first[1] * second[0], first[0] * second[0] + first[1] * second[1]))
    found = []
    for sign in (1.0, -1.0):
        bend = Interval((bend_least + bend_most) * (0.5 * sign) - turn, (bend_most - bend_least) * 0.5)
        one = azimuth - start - (at_start[0] + at_start[1]) * (0.5 * sign)
        total = azimuth - (start + turn) + (at_end[0] + at_end[1]) * (0.5 * sign)
        found.append(
            ElbowTurns(
                Interval(one, spread + (at_start[1] - at_start[0]) * 0.5),
                bend,
                Interval(total, spread + (at_end[1] - at_end[0]) * 0.5),
            )
        )
    return found, refused


def _inner_angle(own: float, other: float, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """Return the least and largest angle between a link and the line to the place, for distances from low to high."""
    ends = []
    for distance in (low, high):
        cosine = (distance * distance + (own * own - other * other)) / maximum(distance * (2.0 * own), TINY)
        ends.append(arcs(cosine, cosine))
    least, most = minimum(ends[0][0], ends[1][0]), maximum(ends[0][1], ends[1][1])
    if own > other:  # the angle is largest where the other link is perpendicular to the line
        turning, top = float(np.sqrt(own * own - other * other)), float(np.arcsin(other / own)) + ARC_SLACK
        most = where((low < turning) & (high > turning), maximum(most, top), most)
    return least, most


@dataclass(frozen=True)
class WristTurns:
    """Turns about three axes."""

    first: Interval
    middle: Interval
    last: Interval


def wrist(axes: tuple[Vector, Vector, Vector], rotation: Rows, spread: Scalar) -> list[WristTurns]:
    """Make a rotation, within an angle `spread` [rad], by turns about three axes; neighbours are perpendicular.

    Returns:
        The turns for both signs of the middle one.
    """
    first, middle, last = axes
    ahead, behind = times(rotation, last), times(transposed(rotation), first)
    phase = float(np.arctan2(number(dot(first, cross(middle, last))), number(dot(first, last))))
    found = []
    for sign in (1.0, -1.0):
        turn = float(np.cos(phase + sign * PI / 2)), float(np.sin(phase + sign * PI / 2))
        # axis 3 seen along axis 1, and axis 1 seen along axis 3, with the middle turn a quarter from `phase`
        end, start = turned(middle, turn, last), turned(middle, back(turn), first)
        x, y = dot(end, ahead), dot(cross(first, end), ahead)
        sine = sqrt(maximum(x * x + y * y, TINY))
        angle = atan2(sine, dot(first, ahead))
        low, high = maximum(angle - spread, 0.0), minimum(angle + spread, PI)
        radius = azimuth_radius(sine_bound(spread), sine)
        bend = Interval((low + high) * (0.5 * sign) + phase, (high - low) * 0.5 + ARC_SLACK)
        roll = -1.0 * atan2(dot(cross(last, start), behind), dot(start, behind))
        found.append(WristTurns(Interval(atan2(y, x), radius), bend, Interval(roll, radius)))
    return found


def number(value: Scalar) -> float:
    """Return a number of an arm that has been computed like an expression."""
    assert not isinstance(value, Expression)
    return float(value)

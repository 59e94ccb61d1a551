"""Proofs that no configuration within the limits meets a target within its tolerances.

    shell       the wrist is nearer to the shoulder, or further, than the limits of the elbow allow
    intervals   in every branch a step has no solution, or the interval of a joint misses its limits

Each is a number; above 0 it is a proof. It holds for every target within the tolerances of the given one, for the robot
as well as for its nominal arm, and in float32.
"""

from collections.abc import Iterator
from functools import reduce

import numpy as np

from ik_service.compiler.closed_form.arm import SNAP, Vectors, meeting
from ik_service.compiler.closed_form.classes import ArmClass, NominalArm
from ik_service.compiler.closed_form.intervals import (
    ANGLE_SLACK,
    PI,
    TINY,
    ElbowTurns,
    Interval,
    Place,
    arc_range,
    azimuth_radius,
    beyond_limits,
    cosine_range,
    elbow,
    number,
    root,
    shoulder,
    sine_bound,
    wrist,
)
from ik_service.compiler.closed_form.turns import (
    LAST,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    TargetMotion,
    Turn,
    back,
    constant,
    rows_turned,
    times,
    transposed,
    turn_of,
    turned,
    turned_rows,
)
from objectives.expression import Expression, ExpressionGraph, Scalar, atan2, maximum, minimum, sqrt, where
from objectives.expression.frame_algebra import Vector, add, cross, dot, scale, subtract

LENGTH_SLACK = 2e-6  # rounding of places in float32, per length of the arm and distance from the world's origin
SIZE_SLACK = 4e-7  # the same per coordinate of target and tool


class ArmProofs:
    """The proofs of one arm, as expressions of one graph.

    Attributes:
        graph: The graph; variables are those of `TargetMotion`, limits and tolerances.
        shell: The proof by the shell.
        intervals: The proof by intervals; for classes closed with a given last joint, of an interval of this joint.
    """

    def __init__(self, nominal: NominalArm) -> None:
        """Write the proofs of a nominal arm."""
        self.graph, self._arm = ExpressionGraph(), nominal.arm
        self._motion = TargetMotion.of(nominal.arm, self.graph)
        self._axes = [constant(axis) for axis in nominal.arm.axes]
        self._points = [constant(point) for point in nominal.arm.points]
        self._rotation_spread = self.graph.variable(ORIENTATION_TOLERANCE) + nominal.arm.rotation_noise
        self._slack = self._length_noise()
        self.shell = self._lift(_SHELLS[nominal.kind](self))
        self.intervals = self._lift(reduce(minimum, _INTERVALS[nominal.kind](self)))

    def _lift(self, value: Scalar) -> Expression:
        return self.graph.constant(0.0) + value

    def _length_noise(self) -> Scalar:
        """Bound how far the tool is from the target: tolerance, nominal arm, rounding [m]."""
        arm, tool = self._arm, subtract(self._motion.tool, constant(self._arm.T_world_link[:3]))
        of_tool = sqrt(dot(tool, tool) + TINY)
        size = arm.length + float(np.abs(arm.points[0]).sum())
        self._rounding = LENGTH_SLACK * size + self._motion.size * SIZE_SLACK
        noise = arm.length_noise + of_tool * arm.rotation_noise
        return self.graph.variable(POSITION_TOLERANCE) + noise + self._rounding

    def _moved(self, point: Vector, radius: Scalar = 0.0) -> Scalar:
        """Bound how far a point of the last link is from its place, over all targets within the tolerances [m].

        With a `radius` the point is unknown by as much in the last link, and the bound includes this.
        """
        lever = subtract(point, self._motion.tool)
        return self._slack + self._rotation_spread * (sqrt(dot(lever, lever) + TINY) + radius) + radius

    # --- shells --------------------------------------------------------------------------------------------------

    def shell_of_parallel_links(self) -> Scalar:
        """Refuse by the distance of the wrist from the point of axis 1 beside axis 2; 2 || 3."""
        h, p = self._arm.axes, self._arm.points
        beside_second = meeting(h[:2], p[:2])
        assert beside_second is not None  # no class has parallel axes 1 and 2
        centre = p[0] + h[0] * (h[0] @ (beside_second - p[0]))
        shift = _across(p[1] - centre, h[1]) + _across(p[3] - p[4], h[1])  # on both sides of the links
        least, most = self._between(2, p[1], p[3])
        return self._outside(centre, p[4], maximum(least - shift, 0.0), most + shift, float(h[1] @ (p[4] - centre)))

    def shell_of_elbow(self) -> Scalar:
        """Refuse by the distance of the wrist, on axes 5 and 6, from the shoulder, on axes 1 to 3."""
        h, p = self._arm.axes, self._arm.points
        return self._outside(p[0], p[4], *self._between(3, p[0], p[4]), float(h[3] @ (p[4] - p[0])))

    def _between(self, joint: int, near: Vectors, far: Vectors) -> tuple[Scalar, Scalar]:
        """Return least and largest distance, across a joint's axis, of points before and behind the joint [m]."""
        axis, at = self._arm.axes[joint], self._arm.points[joint]
        a, b = (point - at - axis * (axis @ (point - at)) for point in (near, far))
        phase = float(np.arctan2(a @ np.cross(axis, b), a @ b))
        least, most = cosine_range(self.graph, joint, phase)
        sum2, product = float(a @ a + b @ b), 2.0 * float(np.sqrt((a @ a) * (b @ b)))
        return root(sum2 - product * most), root(sum2 - product * least)

    def _outside(self, centre: Vectors, wrist_point: Vectors, least: Scalar, most: Scalar, offset: float) -> Scalar:
        """Return by how much the wrist is outside a shell: distances across an axis, and an offset along it [m]."""
        axis, at = self._arm.axes[-1], self._arm.points[-1]
        foot = at + axis * (axis @ (wrist_point - at))
        lever = float(np.linalg.norm(wrist_point - foot))
        direction = times(self._motion.rotation, constant(axis))
        of_centre = subtract(constant(centre), self._motion.of_point(constant(foot)))
        nearest, furthest = _from_circle(direction, of_centre, lever)
        # the tool, too, may be on any side of the circle
        _, of_tool = _from_circle(constant(axis), subtract(self._motion.tool, constant(foot)), lever)
        low, high = sqrt(least * least + offset * offset), sqrt(most * most + offset * offset)
        return maximum(nearest - high, low - furthest) - self._slack - self._rotation_spread * of_tool

    # --- intervals -----------------------------------------------------------------------------------------------

    def branches_of_spherical_wrist(self) -> Iterator[Scalar]:
        """Refuse each branch of an arm whose axes 4, 5 and 6 meet; 2 || 3."""
        h, p, graph = self._axes, self._points, self.graph
        sign3 = _same_way(h[1], h[2])
        moved = self._moved(p[3])
        turns, refused = shoulder(
            h[0], h[1], subtract(self._motion.of_point(p[3]), p[0]), moved, number(dot(h[1], subtract(p[3], p[0])))
        )
        for first, place, radius in turns:
            of_first = maximum(beyond_limits(graph, 0, first), refused)
            links, out_of_reach = self._elbow(p[3], place, radius)
            rotation = turned_rows(h[0], back(turn_of(first.centre)), self._motion.rotation)
            for link in links:
                third = Interval(sign3 * link.second.centre, link.second.radius)
                of_arm = maximum(of_first, out_of_reach)
                of_arm = maximum(of_arm, maximum(beyond_limits(graph, 1, link.first), beyond_limits(graph, 2, third)))
                left = turned_rows(h[1], back(turn_of(link.total.centre)), rotation)
                spread = self._rotation_spread + first.radius + link.total.radius + ANGLE_SLACK
                for turn in wrist((h[3], h[4], h[5]), left, minimum(spread, PI)):
                    of_wrist = maximum(beyond_limits(graph, 4, turn.middle), beyond_limits(graph, 5, turn.last))
                    yield maximum(of_arm, maximum(beyond_limits(graph, 3, turn.first), of_wrist))

    def branches_of_parallel_axes(self) -> Iterator[Scalar]:
        """Refuse each branch of an arm whose axes 2, 3 and 4 are parallel; 4, 5 and 5, 6 meet."""
        h, p, graph = self._axes, self._points, self.graph
        sign3, sign4 = _same_way(h[1], h[2]), _same_way(h[1], h[3])
        moved = self._moved(p[4])
        turns, refused = shoulder(
            h[0], h[1], subtract(self._motion.of_point(p[4]), p[0]), moved, number(dot(h[1], subtract(p[4], p[0])))
        )
        lever = subtract(p[3], p[4])  # along axis 5
        length = float(np.linalg.norm(self._arm.points[3] - self._arm.points[4]))
        for first, place, radius in turns:
            of_first = maximum(beyond_limits(graph, 0, first), refused)
            rotation = turned_rows(h[0], back(turn_of(first.centre)), self._motion.rotation)
            spread = minimum(self._rotation_spread + first.radius + ANGLE_SLACK, PI)
            for turn in wrist((h[1], h[4], h[5]), rotation, spread):
                of_wrist = maximum(beyond_limits(graph, 4, turn.middle), beyond_limits(graph, 5, turn.last))
                of_wrist = maximum(of_first, of_wrist)
                # axis 4 is beside the wrist: on a known side, or anywhere around it
                is_known = turn.first.radius < 1.0
                side = self._in_plane(turned(h[1], turn_of(turn.first.centre), lever))
                x, y = (a + where(is_known, b, 0.0) for a, b in zip(place, side, strict=True))
                around = where(is_known, turn.first.radius, 1.0) * length
                links, out_of_reach = self._elbow(p[3], (x, y), radius + around)
                for link in links:
                    third = Interval(sign3 * link.second.centre, link.second.radius)
                    fourth = Interval(
                        sign4 * (turn.first.centre - link.total.centre),
                        minimum(turn.first.radius + link.total.radius, PI),
                    )
                    of_links = maximum(beyond_limits(graph, 1, link.first), beyond_limits(graph, 2, third))
                    of_links = maximum(of_links, beyond_limits(graph, 3, fourth))
                    yield maximum(maximum(of_wrist, out_of_reach), of_links)

    def branches_of_meeting_axes(self) -> Iterator[Scalar]:
        """Refuse each branch of an arm whose axes 4 and 5 meet, for an interval of joint 6; 2 || 3."""
        h, p, graph = self._axes, self._points, self.graph
        last, last_spread = self._last_joint()
        sign3, lever = _same_way(h[1], h[2]), _across(self._arm.points[4] - self._arm.points[5], self._arm.axes[5])
        wrist_point = add(p[5], turned(h[5], back(last), subtract(p[4], p[5])))
        moved = self._moved(wrist_point, last_spread * lever)
        v = subtract(self._motion.of_point(wrist_point), p[0])
        turns, refused = shoulder(h[0], h[1], v, moved, number(dot(h[1], subtract(p[4], p[0]))))
        side = unit(cross(h[4], h[5]))
        bend, from_last = _angle(h[3], h[4]), float(np.sin(_angle(h[4], h[5])))
        along_fifth, across_fifth = (
            times(self._motion.rotation, turned(h[5], back(last), one)) for one in (h[4], side)
        )
        ahead = unit(subtract(h[4], scale(dot(h[3], h[4]), h[3])))
        for first, place, radius in turns:
            of_first = maximum(beyond_limits(graph, 0, first), refused)
            links, out_of_reach = self._elbow(p[3], place, radius)
            turn = back(turn_of(first.centre))
            seen = [turned(h[0], turn, one) for one in (along_fifth, across_fifth)]
            for link in links:
                third = Interval(sign3 * link.second.centre, link.second.radius)
                of_arm = maximum(of_first, out_of_reach)
                of_arm = maximum(of_arm, maximum(beyond_limits(graph, 1, link.first), beyond_limits(graph, 2, third)))
                turn = back(turn_of(link.total.centre))
                fifth, beside = (turned(h[1], turn, one) for one in seen)
                spread = self._rotation_spread + first.radius + link.total.radius + ANGLE_SLACK
                of_fifth = minimum(spread + last_spread * from_last, PI)
                x, y = dot(ahead, fifth), dot(cross(h[3], ahead), fifth)
                sine = sqrt(maximum(x * x + y * y, TINY))
                apart = atan2(sine, dot(h[3], fifth)) - bend
                of_bend = maximum(apart, -1.0 * apart) - of_fifth - ANGLE_SLACK
                fourth = Interval(atan2(y, x), azimuth_radius(sine_bound(of_fifth), sine))
                left = turned(h[3], back(turn_of(fourth.centre)), beside)
                turn_spread = spread + last_spread + fourth.radius
                turn_spread = where(turn_spread < 1.5, turn_spread, PI)
                turn5 = Interval(atan2(dot(cross(h[4], side), left), dot(side, left)), turn_spread)
                of_wrist = maximum(beyond_limits(graph, 3, fourth), beyond_limits(graph, 4, turn5))
                yield maximum(maximum(of_arm, of_bend), of_wrist)

    def branches_of_seven_joints(self) -> Iterator[Scalar]:
        """Refuse each branch of an arm whose axes 1, 2, 3 and axes 5, 6 meet, for an interval of joint 7."""
        h, p, graph, slack = self._axes, self._points, self.graph, self._slack
        last, last_spread = self._last_joint()
        rotation = rows_turned(self._motion.rotation, h[6], last)
        lever = _across(self._arm.points[4] - self._arm.points[6], self._arm.axes[6])
        wrist_point = add(p[6], turned(h[6], back(last), subtract(p[4], p[6])))
        v = subtract(self._motion.of_point(wrist_point), p[0])
        distance, moved = sqrt(dot(v, v) + TINY), self._moved(wrist_point, last_spread * lever)
        bends, refused = self._bend(maximum(distance - moved, 0.0), distance + moved)
        # the shoulder seen from link 6
        back6 = scale(-1.0, times(transposed(rotation), v))
        from_shoulder = subtract(self._motion.of_point(self._motion.tool), p[0])
        foot = subtract(self._motion.of_point(p[6]), p[0])
        turning = cross(times(self._motion.rotation, h[6]), foot)
        moved6 = slack + self._rotation_spread * sqrt(dot(from_shoulder, from_shoulder) + TINY)
        moved6 = moved6 + last_spread * sqrt(dot(turning, turning) + TINY)
        side = cross(h[5], h[4])
        a, b, along6 = dot(h[4], back6), dot(side, back6), dot(h[5], back6)
        flat = sqrt(maximum(a * a + b * b, TINY))
        least, most = maximum(flat - moved6, TINY), flat + moved6
        phase, phase_radius = atan2(b, a), azimuth_radius(moved6, flat)
        near = subtract(p[0], p[3])
        near_across = _across(self._arm.points[0] - self._arm.points[3], self._arm.axes[3])
        for fourth in bends:
            of_fourth = maximum(refused, beyond_limits(graph, 3, fourth))
            turn4 = turn_of(fourth.centre)
            shoulder5 = subtract(add(p[3], turned(h[3], back(turn4), near)), p[4])  # from the wrist, seen from link 4
            moved5 = fourth.radius * near_across + self._rounding
            offset = dot(h[4], shoulder5)
            low, high = offset - moved5, offset + moved5
            arc_least, arc_most, of_arc = arc_range(
                where(low > 0.0, low / most, low / least), where(high > 0.0, high / least, high / most)
            )
            nearest2 = where(low > 0.0, low * low, where(high < 0.0, high * high, 0.0))
            furthest2 = maximum(low * low, high * high)
            x_low, x_high = root(least * least - furthest2), root(most * most - nearest2)
            x, x_radius = (x_low + x_high) * 0.5, (x_high - x_low) * 0.5
            level = root(dot(shoulder5, shoulder5) - offset * offset)
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
                of_sixth = maximum(beyond_limits(graph, 5, sixth), beyond_limits(graph, 4, fifth))
                of_sixth = maximum(maximum(of_fourth, of_arc), of_sixth)
                left = rows_turned(rotation, h[5], turn_of(sixth.centre))
                left = rows_turned(rows_turned(left, h[4], turn_of(fifth.centre)), h[3], turn4)
                spread = self._rotation_spread + last_spread + fourth.radius + fifth.radius + sixth.radius + ANGLE_SLACK
                for turn in wrist((h[0], h[1], h[2]), left, minimum(spread, PI)):
                    of_shoulder = maximum(beyond_limits(graph, 1, turn.middle), beyond_limits(graph, 2, turn.last))
                    yield maximum(of_sixth, maximum(beyond_limits(graph, 0, turn.first), of_shoulder))

    def _last_joint(self) -> tuple[Turn, Scalar]:
        """Return the turn of the last joint in the middle of its interval, and the radius of the interval [rad]."""
        cosine, sine, spread = (self.graph.variable(name) for name in LAST)
        return (cosine, sine), spread

    def _bend(self, least: Scalar, most: Scalar) -> tuple[list[Interval], Scalar]:
        """Bring the wrist to a distance from the shoulder by joint 4, and a number above 0 where there is no turn."""
        axis, at = self._arm.axes[3], self._arm.points[3]
        a, b = self._arm.points[4] - at, self._arm.points[0] - at
        x, y = float(a @ b - (axis @ a) * (axis @ b)), float(b @ np.cross(axis, a))
        middle, share = float(0.5 * (a @ a + b @ b) - (axis @ a) * (axis @ b)), 1.0 / float(np.hypot(x, y))
        arc_least, arc_most, refused = arc_range(
            (middle - most * most * 0.5) * share, (middle - least * least * 0.5) * share
        )
        phase = float(np.arctan2(y, x))
        middles = ((arc_least + arc_most) * (0.5 * sign) + phase for sign in (1.0, -1.0))
        return [Interval(centre, (arc_most - arc_least) * 0.5) for centre in middles], refused

    def _elbow(self, end: Vector, place: Place, radius: Scalar) -> tuple[list[ElbowTurns], Scalar]:
        """Reach a place of the plane across axis 2, from axis 1, by the links between axes 2, 3 and a point."""
        p = self._points
        first, second, foot = (self._in_plane(subtract(b, a)) for a, b in ((p[1], p[2]), (p[2], end), (p[0], p[1])))
        start = place[0] - foot[0], place[1] - foot[1]
        return elbow((number(first[0]), number(first[1])), (number(second[0]), number(second[1])), start, radius)

    def _in_plane(self, v: Vector) -> Place:
        """Return the coordinates of a vector across axis 2: turns about axis 2 go from the first to the second."""
        return dot(cross(self._axes[0], self._axes[1]), v), dot(self._axes[0], v)


_SHELLS = {
    ArmClass.SPHERICAL: ArmProofs.shell_of_parallel_links,
    ArmClass.PARALLEL: ArmProofs.shell_of_parallel_links,
    ArmClass.SEARCHED: ArmProofs.shell_of_parallel_links,
    ArmClass.SEVEN: ArmProofs.shell_of_elbow,
}
_INTERVALS = {
    ArmClass.SPHERICAL: ArmProofs.branches_of_spherical_wrist,
    ArmClass.PARALLEL: ArmProofs.branches_of_parallel_axes,
    ArmClass.SEARCHED: ArmProofs.branches_of_meeting_axes,
    ArmClass.SEVEN: ArmProofs.branches_of_seven_joints,
}


def _from_circle(axis: Vector, v: Vector, radius: float) -> tuple[Scalar, Scalar]:
    """Return the least and the largest distance of a point from a circle about an axis, both seen from its centre."""
    if radius < SNAP:
        distance = sqrt(dot(v, v) + TINY)
        return distance, distance
    z = dot(axis, v)
    r = root(dot(v, v) - z * z)
    near, far = r - radius, r + radius
    return sqrt(z * z + near * near), sqrt(z * z + far * far)


def _across(v: Vectors, axis: Vectors) -> float:
    """Return the length of a vector across an axis [m]."""
    return float(np.linalg.norm(v - axis * (axis @ v)))


def _angle(axis: Vector, other: Vector) -> float:
    """Return the angle between two axes [rad]."""
    return float(np.arccos(np.clip(number(dot(axis, other)), -1.0, 1.0)))


def unit(v: Vector) -> Vector:
    """Return the direction of a constant vector."""
    return scale(1.0 / float(np.sqrt(number(dot(v, v)))), v)


def _same_way(axis: Vector, other: Vector) -> float:
    """Return 1 for parallel axes, -1 for opposite ones."""
    return float(np.sign(number(dot(axis, other))))

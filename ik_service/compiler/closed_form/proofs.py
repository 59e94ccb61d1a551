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
    beyond_limits,
    cosine_range,
    elbow,
    number,
    root,
    shoulder,
    wrist,
)
from ik_service.compiler.closed_form.turns import (
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    TargetMotion,
    back,
    constant,
    times,
    turn_of,
    turned,
    turned_rows,
)
from objectives.expression import Expression, ExpressionGraph, Scalar, maximum, minimum, sqrt, where
from objectives.expression.frame_algebra import Vector, cross, dot, subtract

LENGTH_SLACK = 2e-6  # rounding of places in float32, per length of the arm and distance from the world's origin
SIZE_SLACK = 4e-7  # the same per coordinate of target and tool


class ArmProofs:
    """The proofs of one arm, as expressions of one graph.

    Attributes:
        graph: The graph; variables are those of `TargetMotion`, limits and tolerances.
        shell: The proof by the shell.
        intervals: The proof by intervals, or None for classes without one.
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
        steps = _INTERVALS.get(nominal.kind)
        self.intervals = None if steps is None else self._lift(_least(steps(self)))

    def _lift(self, value: Scalar) -> Expression:
        return self.graph.constant(0.0) + value

    def _length_noise(self) -> Scalar:
        """Bound how far the tool is from the target: tolerance, nominal arm, rounding [m]."""
        arm, tool = self._arm, subtract(self._motion.tool, constant(self._arm.T_world_link[:3]))
        of_tool = sqrt(dot(tool, tool) + TINY)
        rounding = LENGTH_SLACK * (arm.length + float(np.abs(arm.points[0]).sum())) + self._motion.size * SIZE_SLACK
        noise = arm.length_noise + of_tool * arm.rotation_noise
        return self.graph.variable(POSITION_TOLERANCE) + noise + rounding

    def _moved(self, point: Vector) -> Scalar:
        """Bound how far a point of the last link is from its place, over all targets within the tolerances [m]."""
        lever = subtract(point, self._motion.tool)
        return self._slack + self._rotation_spread * sqrt(dot(lever, lever) + TINY)

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
        nearest, furthest = self._distances(centre, wrist_point)
        low, high = sqrt(least * least + offset * offset), sqrt(most * most + offset * offset)
        return maximum(nearest - high, low - furthest) - self._moved(constant(wrist_point))

    def _distances(self, centre: Vectors, wrist_point: Vectors) -> tuple[Scalar, Scalar]:
        """Return least and largest distance of the wrist from a point, in all turns of the last joint [m]."""
        axis, at = self._arm.axes[-1], self._arm.points[-1]
        foot = at + axis * (axis @ (wrist_point - at))
        lever = float(np.linalg.norm(wrist_point - foot))
        place = subtract(self._motion.of_point(constant(foot)), constant(centre))
        z = dot(times(self._motion.rotation, constant(axis)), place)
        if lever < SNAP:
            distance = sqrt(dot(place, place) + TINY)
            return distance, distance
        r = root(dot(place, place) - z * z)
        near, far = r - lever, r + lever
        return sqrt(z * z + near * near), sqrt(z * z + far * far)

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
}


def _across(v: Vectors, axis: Vectors) -> float:
    """Return the length of a vector across an axis [m]."""
    return float(np.linalg.norm(v - axis * (axis @ v)))


def _same_way(axis: Vector, other: Vector) -> float:
    """Return 1 for parallel axes, -1 for opposite ones."""
    return float(np.sign(number(dot(axis, other))))


def _least(branches: Iterator[Scalar]) -> Scalar:
    """Return the least number of all branches."""
    return reduce(minimum, branches)

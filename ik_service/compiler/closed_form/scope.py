"""An arm and its target as expressions, with bounds of what is not known: the ground of all proofs."""

from dataclasses import dataclass

import numpy as np

from ik_service.compiler.closed_form.arm import Arm
from ik_service.compiler.closed_form.intervals import TINY
from ik_service.compiler.closed_form.turns import (
    LAST,
    LAST_ANGLE,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    TargetDisplacement,
    Turn,
    direction,
    point_of,
)
from objectives.expression import ExpressionGraph, Scalar, cos, sin, sqrt
from objectives.expression.frame_algebra import Vector, dot, subtract

LENGTH_SLACK = 2e-6  # rounding of points in float32, per length of the arm and distance from the world's origin
SIZE_SLACK = 4e-7  # the same per coordinate of target and tool


@dataclass(frozen=True)
class ArmScope:
    """An arm and its target in one graph.

    Attributes:
        graph: Variables are those of `TargetDisplacement`, limits, tolerances, and the last joint where it is searched.
        arm: The nominal arm.
        axes: Its directions.
        points: A point of each axis [m].
        motion: The motion of the target.
        spread: Largest angle between the link and the target: tolerance and nominal arm [rad].
        rounding: Largest rounding error of a point in float32 [m].
        slack: Largest distance of the tool from the target: tolerance, nominal arm and rounding [m].
        last_joint: Turn of a searched last joint in the middle of its interval, and radius of the interval [rad].
    """

    graph: ExpressionGraph
    arm: Arm
    axes: list[Vector]
    points: list[Vector]
    motion: TargetDisplacement
    spread: Scalar
    rounding: Scalar
    slack: Scalar
    last_joint: tuple[Turn, Scalar]

    @classmethod
    def of(cls, arm: Arm, *, is_exact: bool = False) -> "ArmScope":
        """Return the scope of a nominal arm; `is_exact` is for tolerances of 0 and one angle of the last joint."""
        graph = ExpressionGraph()
        motion = TargetDisplacement.of(arm, graph)
        tool = subtract(motion.tool, point_of(arm.T_world_link[:3]))
        rounding = motion.size * SIZE_SLACK + LENGTH_SLACK * (arm.length + float(np.abs(arm.points[0]).sum()))
        noise = arm.length_noise + sqrt(dot(tool, tool) + TINY) * arm.rotation_noise
        position_tolerance: Scalar = 0.0 if is_exact else graph.variable(POSITION_TOLERANCE)
        orientation_tolerance: Scalar = 0.0 if is_exact else graph.variable(ORIENTATION_TOLERANCE)
        cosine, sine, radius = (graph.variable(name) for name in LAST)
        angle = graph.variable(LAST_ANGLE)
        return cls(
            graph=graph,
            arm=arm,
            axes=[direction(axis) for axis in arm.axes],
            points=[point_of(point) for point in arm.points],
            motion=motion,
            spread=orientation_tolerance + arm.rotation_noise,
            rounding=rounding,
            slack=position_tolerance + noise + rounding,
            last_joint=((cos(angle), sin(angle)), 0.0) if is_exact else ((cosine, sine), radius),
        )

    def moved(self, point: Vector, radius: Scalar = 0.0) -> Scalar:
        """Bound how far a point of the last link is from its place, over all targets within the tolerances [m].

        With a `radius` the point is unknown by as much in the last link, and the bound includes this.
        """
        lever = subtract(point, self.motion.tool)
        return self.slack + self.spread * (sqrt(dot(lever, lever) + TINY) + radius) + radius

"""Forward kinematics of one island as expressions: constants of the robot folded in, joints of the island as variables.

A frame is written in the world. The twist of a DOF is taken at the world origin, as in `joint_S_s`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ik_service.compiler.half_angle import half_angle_sine_cosine
from ik_service.robots import JointType, RobotModel
from objectives.expression import Expression, ExpressionGraph, Scalar
from objectives.frame_algebra import Frame, add, cross, quaternion, quaternion_product, rotate, vector

ROUNDING = 1e-12  # noise of roll, pitch and yaw in robot files, set to zero so that it costs nothing
Twist = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]
SUPPORTED = (JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC)


@dataclass(frozen=True)
class Chain:
    """What the joints of an island do, as expressions of its active DOFs.

    Attributes:
        frames: World frame of every body on the way to a link that is needed, by body.
        twists: Twist of every DOF on the way, linear then angular, by DOF.
        halves: Variables that hold reduced half angles: variable name -> (active DOF, multiplier, offset).
    """

    frames: Mapping[int, Frame]
    twists: Mapping[int, Twist]
    halves: Mapping[str, tuple[int, float, float]]


def constants(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> tuple[float, ...]:
    """Numbers of a robot as floats, with rounding noise removed."""
    return tuple(0.0 if abs(x) < ROUNDING else float(x) for x in values)


def compose(frame: Frame, transform: tuple[Scalar, ...]) -> Frame:
    """Frame that stands at a transform (position, orientation xyzw) in another."""
    position = add(frame.position, rotate(frame.orientation_xyzw, vector(transform[:3])))
    return Frame(position, quaternion_product(frame.orientation_xyzw, quaternion(transform[3:])))


def build_chain(robot: RobotModel, bodies: set[int], graph: ExpressionGraph) -> Chain:
    """Return the forward kinematics of some bodies.

    Args:
        robot: The robot; every moving joint on the way is revolute, continuous or prismatic.
        bodies: Bodies that are needed; -1 (the world) is ignored.
        graph: Where the expressions are made. Active DOF a is the variable `trial{a}`.
    """
    needed: set[int] = set()
    waiting = {body for body in bodies if body >= 0}
    while waiting:
        needed |= waiting
        waiting = {int(robot.joint_parent[body]) for body in waiting} - needed - {-1}
    frames: dict[int, Frame] = {-1: Frame((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))}
    twists: dict[int, Twist] = {}
    halves: dict[str, tuple[int, float, float]] = {}
    for joint in sorted(needed):
        frame = compose(frames[int(robot.joint_parent[joint])], constants(robot.joint_X_p[joint]))
        dof = int(robot.joint_qd_start[joint])
        axis = vector(constants(robot.joint_axis[dof]))
        active = int(robot.dof_active[dof])
        q = coordinate(robot, dof, graph)
        if robot.joint_type[joint] == JointType.PRISMATIC:
            slide = (axis[0] * q, axis[1] * q, axis[2] * q)
            moved = Frame(add(frame.position, rotate(frame.orientation_xyzw, slide)), frame.orientation_xyzw)
            twists[dof] = (*rotate(frame.orientation_xyzw, axis), 0.0, 0.0, 0.0)
        else:
            sine, cosine = _half(robot, dof, active, halves, graph)
            turn = (axis[0] * sine, axis[1] * sine, axis[2] * sine, cosine)
            moved = Frame(frame.position, quaternion_product(frame.orientation_xyzw, turn))
            angular = rotate(frame.orientation_xyzw, axis)
            twists[dof] = (*cross(frame.position, angular), *angular)
        frames[joint] = moved
    return Chain(frames, twists, halves)


def coordinate(robot: RobotModel, dof: int, graph: ExpressionGraph) -> Scalar:
    """Return the coordinate of a DOF: its active DOF's, or a follower's of it, or the number where it is locked."""
    active = int(robot.dof_active[dof])
    if active < 0:
        return float(robot.mid_joint_q[robot.dof_coordinate[dof]])
    return graph.variable(f"trial{active}") * float(robot.dof_multiplier[dof]) + float(robot.dof_offset[dof])


def _half(
    robot: RobotModel, dof: int, active: int, halves: dict[str, tuple[int, float, float]], graph: ExpressionGraph
) -> tuple[Scalar, Scalar]:
    if active < 0:
        half = 0.5 * float(robot.mid_joint_q[robot.dof_coordinate[dof]])
        return float(np.sin(half)), float(np.cos(half))
    name = f"half{dof}"
    halves[name] = (active, float(robot.dof_multiplier[dof]), float(robot.dof_offset[dof]))
    variable: Expression = graph.variable(name)
    return half_angle_sine_cosine(variable)

"""Forward kinematics of one island as expressions: constants of the robot folded in, joints of the island as variables.

Inputs: coordinates of locked joints and their followers, since problems differ in these; for rows on motions,
coordinates of all joints at the start. Frames are in the world; twists are at the world origin, as in `joint_S_s`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ik_service.compiler.half_angle import FLOAT32_ERROR, half_angle_sine_cosine
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives.expression import ExpressionGraph, Scalar
from objectives.expression.frame_algebra import (
    Frame,
    QuaternionXYZW,
    Vector,
    add,
    cross,
    quaternion,
    quaternion_product,
    rotate,
    scale,
    vector,
)

ANGLE_NOISE = 1e-12  # rounding of roll, pitch and yaw in robot files, set to zero to save operations
Twist = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]
ORIGIN, UPRIGHT = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Chain:
    """Motion of the joints of an island, as expressions of the active DOFs."""

    frames: Mapping[int, Frame]  # world frame of every body on the paths to the needed links, by body
    twists: Mapping[int, Twist]  # twist of every DOF on these paths, linear then angular, by DOF
    # variables of reduced half angles: variable name -> (variable of an angle, multiplier, offset)
    halves: Mapping[str, tuple[str, float, float]]


def constants(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> tuple[float, ...]:
    """Convert numbers of a robot to floats, without rounding noise."""
    return tuple(0.0 if abs(x) < ANGLE_NOISE else float(x) for x in values)


def compose(frame: Frame, transform: tuple[Scalar, ...]) -> Frame:
    """Compose a frame and a transform (position, orientation xyzw)."""
    position = add(frame.position, rotate(frame.orientation_xyzw, vector(transform[:3])))
    return Frame(position, quaternion_product(frame.orientation_xyzw, quaternion(transform[3:])))


def trial_name(active: int, component: str = "") -> str:
    """Name the variable of an active DOF at the trial, or of a component of the quaternion with this first DOF."""
    return f"trial{active}{component}"


def fixed_name(column: int) -> str:
    """Name the input of a coordinate at the start of a problem or tick, by column of joint_q."""
    return f"fixed{column}"


def start_name(robot: KinematicRobot, active: int) -> str:
    """Name the input of an active DOF's coordinate at the start of a problem or tick."""
    return fixed_name(int(robot.dof_coordinate[robot.active_dof[active]]))


def build_chain(
    robot: KinematicRobot,
    bodies: set[int],  # needed bodies; -1 (the world) is ignored
    graph: ExpressionGraph,  # variables: names of `trial_name`, and half angles
    # Active DOFs that are variables. Other DOFs keep the middle of their limits: these DOFs move all links of a row
    # together, so no row changes. None for the start of a problem or tick: all coordinates are inputs.
    dofs: Collection[int] | None,
    half_angle_error: float = FLOAT32_ERROR,  # largest error of sines and cosines
) -> Chain:
    """Build the forward kinematics of some bodies."""
    needed: set[int] = set()
    waiting = {body for body in bodies if body >= 0}
    while waiting:
        needed |= waiting
        waiting = {int(robot.joint_parent[body]) for body in waiting} - needed - {-1}
    builder = _Builder(robot, graph, dofs, half_angle_error)
    for joint in sorted(needed):
        builder.add_joint(joint)
    return Chain(builder.frames, builder.twists, builder.halves)


class _Builder:
    """Frames and twists, joint by joint, parents first."""

    def __init__(
        self, robot: KinematicRobot, graph: ExpressionGraph, dofs: Collection[int] | None, half_angle_error: float
    ) -> None:
        self.robot, self.graph, self.active_dofs, self.half_angle_error = robot, graph, dofs, half_angle_error
        self.frames: dict[int, Frame] = {-1: Frame(ORIGIN, UPRIGHT)}
        self.twists: dict[int, Twist] = {}
        self.halves: dict[str, tuple[str, float, float]] = {}

    def add_joint(self, joint: int) -> None:
        """Add the child body of a joint. A joint translates first, along axes of the parent frame, then rotates."""
        robot, kind = self.robot, JointType(self.robot.joint_type[joint])
        parent = compose(self.frames[int(robot.joint_parent[joint])], constants(robot.joint_X_p[joint]))
        dofs = range(int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1]))
        linear, angular = dofs[: kind.linear_dof_count], dofs[kind.linear_dof_count :]
        slide: Vector = ORIGIN
        for dof in linear:
            slide = add(slide, scale(coordinate(robot, dof, self.graph, self.active_dofs), self._axis(dof)))
        turn = UPRIGHT if not angular else self._turn(joint, angular[0])
        moved = add(parent.position, rotate(parent.orientation_xyzw, slide))
        self.frames[joint] = Frame(moved, quaternion_product(parent.orientation_xyzw, turn))
        for dof in linear:
            self.twists[dof] = (*rotate(parent.orientation_xyzw, self._axis(dof)), *ORIGIN)
        for dof in angular:
            axis = rotate(parent.orientation_xyzw, self._axis(dof))
            self.twists[dof] = (*cross(moved, axis), *axis)

    def _axis(self, dof: int) -> Vector:
        return vector(constants(self.robot.joint_axis[dof]))

    def _turn(self, joint: int, dof: int) -> QuaternionXYZW:
        robot, dofs, active = self.robot, self.active_dofs, int(self.robot.dof_active[dof])
        if JointType(robot.joint_type[joint]).quaternion_offset is not None:
            return quaternion_coordinate(robot, joint, self.graph, dofs)
        axis, column = self._axis(dof), int(robot.dof_coordinate[dof])
        if dofs is not None and active >= 0 and active not in dofs:
            half = 0.5 * float(robot.mid_joint_q[column])
            return (*scale(float(np.sin(half)), axis), float(np.cos(half)))
        name = f"start_half{dof}" if dofs is None else f"half{dof}"
        if active >= 0:
            leader = trial_name(active) if dofs is not None else self.graph.variable(start_name(robot, active)).name
            self.halves[name] = (leader, float(robot.dof_multiplier[dof]), float(robot.dof_offset[dof]))
        else:
            self.halves[name] = (self.graph.variable(fixed_name(column)).name, 1.0, 0.0)
        sine, cosine = half_angle_sine_cosine(self.graph.variable(name), self.half_angle_error)
        return (*scale(sine, axis), cosine)


def coordinate(robot: KinematicRobot, dof: int, graph: ExpressionGraph, dofs: Collection[int] | None) -> Scalar:
    """Return the coordinate of a DOF: an expression in the active DOF, an input, or a number; see `build_chain`."""
    active, column = int(robot.dof_active[dof]), int(robot.dof_coordinate[dof])
    if active < 0:
        return graph.variable(fixed_name(column))
    if dofs is not None and active not in dofs:
        return float(robot.mid_joint_q[column])
    leader = trial_name(active) if dofs is not None else start_name(robot, active)
    return graph.variable(leader) * float(robot.dof_multiplier[dof]) + float(robot.dof_offset[dof])


def quaternion_coordinate(
    robot: KinematicRobot, joint: int, graph: ExpressionGraph, dofs: Collection[int] | None
) -> QuaternionXYZW:
    """Return the quaternion xyzw of a ball or floating joint: variables, inputs or numbers; see `coordinate`."""
    first, end = int(robot.joint_qd_start[joint + 1]) - 3, int(robot.joint_q_start[joint + 1])
    active = int(robot.dof_active[first])
    if active < 0 or dofs is None:
        return quaternion([graph.variable(fixed_name(column)) for column in range(end - 4, end)])
    if active not in dofs:
        return quaternion(constants(robot.mid_joint_q[end - 4 : end]))
    return quaternion([graph.variable(trial_name(active, component)) for component in "xyzw"])

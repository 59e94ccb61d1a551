"""Rows of both packings for velocity constraints and coordinate constraints: one row each, in this order.

The row of a velocity constraint is linear in the twists of two frames. The row's value is 0; its Jacobian maps
velocities to rates.
"""

import functools

import numpy as np
from numpy.polynomial import Polynomial

from ik_service.constraints.frame_pairs import SIDES, FramePairs
from ik_service.constraints.statements import POSES, TWIST, TWISTS, evaluated, symbols, time_derivative
from ik_service.kinematics.host_tangent import BodyMotion, motion_subspace_rate
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.expression import Expression, ExpressionGraph
from objectives.expression.derivative import gradient
from objectives.expression.frame_algebra import Frame, quaternion, vector
from objectives.tasks.closing_joint import SIZE
from objectives.tasks.velocity_rows import VELOCITY_ROWS, FrameMotion


@functools.cache
def _statement(kind: str) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """State the derivatives of a row by both twists, 12 expressions, and their time derivatives."""
    graph = ExpressionGraph()
    poses, twists = symbols(graph, POSES), symbols(graph, TWISTS)
    frame, reference = (Frame(vector(pose[:3]), quaternion(pose[3:])) for pose in poses)
    relative = [a - b for a, b in zip(*twists, strict=True)]
    velocity = vector(relative[:3]), vector(relative[3:])
    motion = FrameMotion.of_twist(frame, reference, *velocity, graph.variable(SIZE))
    speed = graph.constant(0.0) + VELOCITY_ROWS[kind](motion)
    columns = gradient(speed, [part for twist in twists for part in twist])
    return tuple(columns), tuple(time_derivative(one, poses, twists) for one in columns)


class ScalarRows:
    """Rows of the velocity constraints and coordinate constraints of a robot.

    Attributes:
        robot: The robot.
        parts: Parts of the velocity constraints, each with the index of the row.
        frames: Frames of the parts.
        count: Number of rows.
    """

    def __init__(self, robot: KinematicRobot) -> None:
        self.robot = robot
        self.parts = [(k, part) for k, one in enumerate(robot.velocity_constraints) for part in one.parts]
        self.frames = FramePairs(robot, [part for _, part in self.parts])
        self.count = len(robot.velocity_constraints) + len(robot.coordinate_constraints)

    def values(self, motion: BodyMotion) -> Float64Array:
        """Give the rows, 0 for velocity constraints, shape [n, rows]."""
        found = np.zeros((len(motion.S), self.count))
        for k, (own, leader, polynomial) in enumerate(self._polynomials(), len(self.robot.velocity_constraints)):
            joint_q = motion.joint_q[:, self.robot.dof_coordinate[[own, leader]]]
            found[:, k] = joint_q[:, 0] - polynomial(joint_q[:, 1])
        return found

    def jacobian(self, motion: BodyMotion) -> Float64Array:
        """Give the map of velocities to rates of rows, shape [n, rows, joint_dof_count]."""
        found = np.zeros((len(motion.S), self.count, self.robot.joint_dof_count))
        poses = self.frames.poses(motion.T_world_body)
        for p, (k, part) in enumerate(self.parts):
            by_twists = evaluated(_statement(part.kind)[0], part.size, poses[:, :, p])
            found[:, k] += self._row(p, by_twists, motion.S)
        for k, (own, leader, polynomial) in enumerate(self._polynomials(), len(self.robot.velocity_constraints)):
            found[:, k, own] = 1.0
            found[:, k, leader] = -polynomial.deriv()(motion.joint_q[:, self.robot.dof_coordinate[leader]])
        return found

    def jacobian_dot(self, motion: BodyMotion, joint_qd: Float64Array) -> Float64Array:
        """Give the time derivative of the Jacobian, same shape."""
        found = np.zeros((len(motion.S), self.count, self.robot.joint_dof_count))
        poses = self.frames.poses(motion.T_world_body)
        twists = np.einsum("sld,nd,ndk->snlk", self.frames.moved, joint_qd, motion.S)
        subspace_rate = motion_subspace_rate(self.robot, motion, joint_qd)
        for p, (k, part) in enumerate(self.parts):
            columns, rates = _statement(part.kind)
            parts = evaluated([*columns, *rates], part.size, poses[:, :, p], twists[:, :, p])
            by_twists, by_twists_rate = parts[:, : SIDES * TWIST], parts[:, SIDES * TWIST :]
            found[:, k] += self._row(p, by_twists, subspace_rate) + self._row(p, by_twists_rate, motion.S)
        for k, (_, leader, polynomial) in enumerate(self._polynomials(), len(self.robot.velocity_constraints)):
            bend = polynomial.deriv(2)(motion.joint_q[:, self.robot.dof_coordinate[leader]])
            found[:, k, leader] = -bend * joint_qd[:, leader]
        return found

    def _row(self, part: int, by_twists: Float64Array, S: Float64Array) -> Float64Array:
        """Give a part's row over the DOFs from its derivatives by both twists [n, 12], shape [n, joint_dof_count]."""
        sides = [by_twists[:, side * TWIST : (side + 1) * TWIST] for side in range(SIDES)]
        moved = self.frames.moved[:, part].astype(float)
        return np.asarray(sum(np.einsum("nk,ndk->nd", side, S) * own for side, own in zip(sides, moved, strict=True)))

    def _polynomials(self) -> list[tuple[int, int, Polynomial]]:
        """Give the DOF, the reference DOF and the polynomial of each coordinate constraint."""
        found = []
        for one in self.robot.coordinate_constraints:
            own, other = (int(self.robot.joint_qd_start[self.robot.joint_index(joint)]) for joint in one.joints)
            found.append((own, other, Polynomial(one.coefficients)))
        return found

"""Rows that both packings share: one for each constraint on velocities, then one for each between coordinates.

A row on velocities is linear in the twists of two frames. It has no value: its derivatives are of rates alone.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

from ik_service.constraints.frame_pairs import SIDES, FramePairs, frame_pairs
from ik_service.constraints.statements import POSES, TWIST, TWISTS, evaluated, time_derivative
from ik_service.kinematics.host_tangent import BodyMotion, motion_subspace_rate
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.expression import Expression, ExpressionGraph
from objectives.expression.derivative import gradient
from objectives.expression.frame_algebra import Frame, quaternion, vector
from objectives.tasks.closing_joint import SIZE
from objectives.tasks.velocity_rows import VELOCITY_ROWS, FrameMotion, MovingPair


@functools.cache
def _statement(kind: str) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """State the derivatives of a row by both twists, 12, and their rates."""
    graph = ExpressionGraph()
    poses = [[graph.variable(name) for name in names] for names in POSES]
    twists = [[graph.variable(name) for name in names] for names in TWISTS]
    frame, reference = (Frame(vector(pose[:3]), quaternion(pose[3:])) for pose in poses)
    relative = [a - b for a, b in zip(*twists, strict=True)]
    velocity = vector(relative[:3]), vector(relative[3:])
    motion = FrameMotion.of_twist(frame, reference, *velocity, graph.variable(SIZE))
    speed = graph.constant(0.0) + VELOCITY_ROWS[kind](motion)
    columns = gradient(speed, [part for twist in twists for part in twist])
    return tuple(columns), tuple(time_derivative(one, poses, twists) for one in columns)


@dataclass(frozen=True, eq=False)
class ScalarRows:
    """Rows of the constraints of a robot on velocities and between coordinates.

    Attributes:
        robot: The robot.
        parts: Parts of the constraints on velocities, each with the number of its row.
        frames: Their frames.
    """

    robot: KinematicRobot
    parts: tuple[tuple[int, MovingPair], ...]
    frames: FramePairs

    @classmethod
    def of(cls, robot: KinematicRobot) -> "ScalarRows":
        """Collect the rows of a robot."""
        parts = [(k, part) for k, one in enumerate(robot.velocity_constraints) for part in one.parts]
        return cls(robot, tuple(parts), frame_pairs(robot, [part for _, part in parts]))

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.robot.velocity_constraints) + len(self.robot.coordinate_constraints)

    def values(self, motion: BodyMotion) -> Float64Array:
        """Give the rows, 0 for those on velocities, shape [n, rows]."""
        found = np.zeros((len(motion.S), self.count))
        for k, (own, leader, polynomial) in enumerate(self._polynomials(), len(self.robot.velocity_constraints)):
            joint_q = motion.joint_q[:, self.robot.dof_coordinate[[own, leader]]]
            found[:, k] = joint_q[:, 0] - polynomial(joint_q[:, 1])
        return found

    def jacobian(self, motion: BodyMotion) -> Float64Array:
        """Give the map of velocities to the rates of the rows, shape [n, rows, joint_dof_count]."""
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
        """Give the DOF, the one that it depends on, and the polynomial of each constraint between coordinates."""
        found = []
        for one in self.robot.coordinate_constraints:
            own, other = (int(self.robot.joint_qd_start[self.robot.joint_index(joint)]) for joint in one.joints)
            found.append((own, other, Polynomial(one.coefficients)))
        return found

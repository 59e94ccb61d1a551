"""Rows of constraints in residual packing, their Jacobian and second time derivative; rows that both packings share.

Rows of velocity constraints and of coordinate constraints are the same in both packings, one row each. The row of a
velocity constraint is linear in the twists of two frames; its value is 0, and its Jacobian maps velocities to rates.
Rows of limits follow: the distance of a closing joint beyond its limits, 0 inside.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from ik_service.constraints.linear_algebra import BoolArray, applied
from ik_service.constraints.statements import (
    POSES,
    SIDES,
    TWIST,
    TWISTS,
    FramePairs,
    RowStatement,
    evaluated,
    limit_statement,
    or_zero,
    row_statement,
    symbols,
    time_derivative,
)
from ik_service.kinematics.host_tangent import BodyMotion, body_motion, motion_subspace_rate
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.expression import Expression, ExpressionGraph
from objectives.expression.frame_algebra import Frame, quaternion, vector
from objectives.expression.functions import gradient
from objectives.tasks.closing_joint import SIZE
from objectives.tasks.velocity import VELOCITY_ROWS, FrameMotion


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
    """Rows of the velocity constraints and coordinate constraints of a robot."""

    def __init__(self, robot: KinematicRobot) -> None:
        self.robot = robot
        # parts of the velocity constraints, each with the index of the row
        self.parts = [(k, part) for k, one in enumerate(robot.velocity_constraints) for part in one.parts]
        self.frames = FramePairs(robot, [part for _, part in self.parts])  # frames of the parts
        self.count = len(robot.velocity_constraints) + len(robot.coordinate_constraints)  # number of rows

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


class LoopRows(NamedTuple):
    """Rows of one loop's joint, or of limits of this joint."""

    size: float  # pitch or distance of the loop
    stated: RowStatement  # rows as expressions
    numbers: dict[str, float]  # further constants of the rows, by name


def loop_values_and_jacobians(
    loops: Sequence[LoopRows], frames: FramePairs, motion: BodyMotion
) -> tuple[list[Float64Array], list[Float64Array]]:
    """Give the rows of each loop, shape [n, rows], and their derivatives by the DOFs, [n, rows, joint_dof_count]."""
    poses, n, columns = frames.poses(motion.T_world_body), len(motion.S), frames.moves_apart
    values, jacobians = [], []
    for k, (size, stated, numbers) in enumerate(loops):
        found = evaluated([*stated.rows, *stated.by_twist], size, poses[:, :, k], numbers=numbers)
        count = len(stated.rows)
        values.append(found[:, :count])
        by_twist = or_zero(found[:, count:]).reshape(n, count, TWIST)
        jacobians.append(by_twist @ np.swapaxes(motion.S * columns[k, :, np.newaxis], 1, 2))
    return values, jacobians


class ResidualRows:
    """Rows of a robot's constraints: `loops` on their `frames`, and all other constraints, `scalar`."""

    def __init__(self, robot: KinematicRobot) -> None:
        slack = [dict(loop.slack or ()) for loop in robot.loops]
        self.loops = [
            LoopRows(loop.size, row_statement(loop.joint, tuple(own)), own)
            for loop, own in zip(robot.loops, slack, strict=True)
        ]
        self.robot, self.frames, self.scalar = robot, FramePairs(robot, robot.loops), ScalarRows(robot)

    def values_and_jacobian(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give the rows, shape [n, rows], and their derivatives by the DOFs, [n, rows, joint_dof_count]."""
        motion = body_motion(self.robot, joint_q)
        values, jacobians = loop_values_and_jacobians(self.loops, self.frames, motion)
        values.append(self.scalar.values(motion))
        jacobians.append(self.scalar.jacobian(motion))
        return np.concatenate(values, axis=1), np.concatenate(jacobians, axis=1)

    def accelerations(self, joint_q: Float64Array, joint_qd: Float64Array) -> Float64Array:
        """Give the second time derivatives of the rows at constant joint velocities, shape [n, rows]."""
        motion = body_motion(self.robot, joint_q)
        poses, moved = self.frames.poses(motion.T_world_body), self.frames.moved
        twists = np.einsum("sld,nd,ndk->snlk", moved, joint_qd, motion.S)
        subspace_rate = motion_subspace_rate(self.robot, motion, joint_qd)
        rates = np.einsum("sld,nd,ndk->snlk", moved, joint_qd, subspace_rate)
        found = []
        for k, (size, stated, numbers) in enumerate(self.loops):
            count, outputs = len(stated.rows), [*stated.bend, *stated.by_twist]
            parts = or_zero(evaluated(outputs, size, poses[:, :, k], twists[:, :, k], numbers))
            by_twist = parts[:, count:].reshape(-1, count, TWIST)
            found.append(parts[:, :count] + np.einsum("nrk,nk->nr", by_twist, rates[0, :, k] - rates[1, :, k]))
        found.append(applied(self.scalar.jacobian_dot(motion, joint_qd), joint_qd))
        return np.concatenate(found, axis=1)


class BoundedRows:
    """Rows of a robot's constraints, then rows of limits of closing joints."""

    def __init__(self, equations: ResidualRows) -> None:
        robot = self.robot = equations.robot
        self.equations = equations  # rows of the constraints
        loops = {k: loop for k, loop in enumerate(robot.loops) if loop.limited}
        self.frames = FramePairs(robot, list(loops.values()))  # frames of the loops whose joints have limits
        # rows of limits, loop by loop
        self.limits = [
            LoopRows(loop.size, limit_statement(loop.joint, loop.limited), loop.limit_numbers)
            for loop in loops.values()
        ]
        # index of the constraint, for each row of limits
        self.constraint = [k for k, one in zip(loops, self.limits, strict=True) for _ in one.stated.rows]

    def values_and_jacobian(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give the rows, shape [n, rows], and their derivatives by the DOFs, [n, rows, joint_dof_count]."""
        values, jacobian = self.equations.values_and_jacobian(joint_q)
        if not self.limits:
            return values, jacobian
        beyond, by_dofs = self.beyond(joint_q)
        return np.concatenate([values, beyond], axis=1), np.concatenate([jacobian, by_dofs], axis=1)

    def beyond(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give rows and derivatives of the limits alone; see `values_and_jacobian`."""
        motion = body_motion(self.robot, joint_q)
        values, jacobians = loop_values_and_jacobians(self.limits, self.frames, motion)
        return np.concatenate(values, axis=1), np.concatenate(jacobians, axis=1)

    def enabled(self, on: BoolArray, constraints: BoolArray) -> BoolArray:
        """Give a mask of enabled rows, from masks of the constraints' rows and of constraints, [n, constraints]."""
        return np.concatenate([on, constraints[:, self.constraint]], axis=1) if self.limits else on

    def errors(self, joint_q: Float64Array, count: int) -> Float64Array:
        """Give the largest distance beyond a limit, by constraint, 0 without limits, shape [n, count]."""
        found = np.zeros((len(joint_q), count))
        if self.limits:
            np.maximum.at(found.T, self.constraint, np.abs(self.beyond(joint_q)[0]).T)
        return found

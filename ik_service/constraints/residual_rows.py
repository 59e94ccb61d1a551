"""Residual packing: the rows that the joints of loops state, their Jacobian and their second time derivative."""

from dataclasses import dataclass

import numpy as np

from ik_service.constraints.frame_pairs import FramePairs, frame_pairs
from ik_service.constraints.linear_algebra import applied
from ik_service.constraints.scalar_rows import ScalarRows
from ik_service.constraints.statements import TWIST, evaluated, or_zero, row_statement
from ik_service.kinematics.host_tangent import body_motion, motion_subspace_rate
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import Float64Array


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """The rows of a robot's constraints.

    Attributes:
        robot: The robot.
        loops: Its loops.
        frames: Their frames.
        scalar: The rows behind those of loops.
    """

    robot: KinematicRobot
    loops: tuple[LoopConstraint, ...]
    frames: FramePairs
    scalar: ScalarRows

    @classmethod
    def of(cls, robot: KinematicRobot) -> "ResidualRows":
        """Collect the rows of the constraints of a robot."""
        return cls(robot, robot.loops, frame_pairs(robot, robot.loops), ScalarRows.of(robot))

    def values_and_jacobian(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give the rows, shape [n, rows], and their derivatives by the DOFs, [n, rows, joint_dof_count]."""
        motion = body_motion(self.robot, joint_q)
        poses, n = self.frames.poses(motion.T_world_body), len(motion.S)
        columns = self.frames.moves_apart
        values, jacobians = [], []
        for k, loop in enumerate(self.loops):
            numbers = dict(loop.slack or ())
            stated = row_statement(loop.joint, tuple(numbers))
            found = evaluated([*stated.rows, *stated.by_twist], loop.size, poses[:, :, k], numbers=numbers)
            count = len(stated.rows)
            values.append(found[:, :count])
            by_twist = or_zero(found[:, count:]).reshape(n, count, TWIST)
            jacobians.append(by_twist @ np.swapaxes(motion.S * columns[k, :, np.newaxis], 1, 2))
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
        for k, loop in enumerate(self.loops):
            numbers = dict(loop.slack or ())
            stated = row_statement(loop.joint, tuple(numbers))
            count, outputs = len(stated.rows), [*stated.bend, *stated.by_twist]
            parts = or_zero(evaluated(outputs, loop.size, poses[:, :, k], twists[:, :, k], numbers))
            by_twist = parts[:, count:].reshape(-1, count, TWIST)
            found.append(parts[:, :count] + np.einsum("nrk,nk->nr", by_twist, rates[0, :, k] - rates[1, :, k]))
        found.append(applied(self.scalar.jacobian_dot(motion, joint_qd), joint_qd))
        return np.concatenate(found, axis=1)

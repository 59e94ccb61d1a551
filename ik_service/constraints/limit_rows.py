"""Rows of constraints with those of limits behind them: how far closing joints are beyond their limits, 0 within."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ik_service.constraints.frame_pairs import FramePairs, frame_pairs
from ik_service.constraints.linear_algebra import BoolArray
from ik_service.constraints.residual_rows import ResidualRows
from ik_service.constraints.statements import TWIST, RowStatement, evaluated, limit_statement, or_zero
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array


class LoopLimits(NamedTuple):
    """The rows of the limits of one loop.

    Attributes:
        size: Pitch of the loop.
        stated: Its rows.
        numbers: Numbers that they need, by name.
    """

    size: float
    stated: RowStatement
    numbers: dict[str, float]


@dataclass(frozen=True, eq=False)
class BoundedRows:
    """The rows of a robot's constraints, then those of the limits of the joints that close its loops.

    Attributes:
        robot: The robot.
        equations: The rows of the constraints.
        frames: Frames of the loops whose joints have limits.
        limits: Their rows.
        constraint: Number of the constraint of each of these rows.
    """

    robot: KinematicRobot
    equations: ResidualRows
    frames: FramePairs
    limits: tuple[LoopLimits, ...]
    constraint: tuple[int, ...]

    @classmethod
    def of(cls, equations: ResidualRows) -> "BoundedRows":
        """Add the limits to the rows of a robot's constraints."""
        robot = equations.robot
        loops = {k: loop for k, loop in enumerate(robot.loops) if loop.limited}
        limits = tuple(
            LoopLimits(loop.size, limit_statement(loop.joint, loop.limited), loop.limit_numbers)
            for loop in loops.values()
        )
        owners = tuple(k for k, one in zip(loops, limits, strict=True) for _ in one.stated.rows)
        return cls(robot, equations, frame_pairs(robot, tuple(loops.values())), limits, owners)

    def values_and_jacobian(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give the rows, shape [n, rows], and their derivatives by the DOFs, [n, rows, joint_dof_count]."""
        values, jacobian = self.equations.values_and_jacobian(joint_q)
        if not self.limits:
            return values, jacobian
        beyond, by_dofs = self.beyond(joint_q)
        return np.concatenate([values, beyond], axis=1), np.concatenate([jacobian, by_dofs], axis=1)

    def beyond(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give the same of the limits alone."""
        motion = body_motion(self.robot, joint_q)
        poses, n = self.frames.poses(motion.T_world_body), len(motion.S)
        values, jacobians = [np.zeros((n, 0))], [np.zeros((n, 0, self.robot.joint_dof_count))]
        for k, (size, stated, numbers) in enumerate(self.limits):
            found = evaluated([*stated.rows, *stated.by_twist], size, poses[:, :, k], numbers=numbers)
            count = len(stated.rows)
            values.append(found[:, :count])
            by_twist = or_zero(found[:, count:]).reshape(n, count, TWIST)
            jacobians.append(by_twist @ np.swapaxes(motion.S * self.frames.moves_apart[k, :, np.newaxis], 1, 2))
        return np.concatenate(values, axis=1), np.concatenate(jacobians, axis=1)

    def enabled(self, on: BoolArray, constraints: BoolArray) -> BoolArray:
        """Give which rows are enabled, from the same of the constraints' rows and of constraints, [n, constraints]."""
        return np.concatenate([on, constraints[:, list(self.constraint)]], axis=1) if self.limits else on

    def errors(self, joint_q: Float64Array, count: int) -> Float64Array:
        """Give how far each constraint is beyond a limit at most, 0 where it has none, shape [n, count]."""
        found = np.zeros((len(joint_q), count))
        if self.limits:
            np.maximum.at(found.T, list(self.constraint), np.abs(self.beyond(joint_q)[0]).T)
        return found

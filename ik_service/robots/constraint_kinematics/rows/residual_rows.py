"""Residual packing: the rows that the joints of loops state, their Jacobian and their second time derivative.

The rows are those of `objectives.tasks.loop`: the same expressions from which kernels are made are evaluated here in
float64, differentiated by the twists of both frames once, and once more for accelerations.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ik_service.robots.constraint_kinematics.rows.frame_pairs import SIDES, FramePairs, frame_pairs
from ik_service.robots.constraints.loops import LoopConstraint
from ik_service.robots.host_kinematics.tangent import body_motion, motion_subspace_rate
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.transforms import Float64Array
from objectives.expression import Expression, ExpressionGraph, Scalar, evaluate
from objectives.frame_algebra import Frame, quaternion, vector
from objectives.statement.rows import RowInputs, by_twist
from objectives.tasks.loop import FRAME, LOOP_GROUPS, REFERENCE_FRAME, SIZE

TWIST = 6
_POSES = tuple(tuple(f"pose{side}_{k}" for k in range(7)) for side in range(SIDES))
_TWISTS = tuple(tuple(f"twist{side}_{k}" for k in range(TWIST)) for side in range(SIDES))


class _Statement(NamedTuple):
    """Rows of one joint on symbols.

    Attributes:
        rows: The rows.
        by_twist: Derivatives by the twist of the frame less that of the reference frame, row after row, 6 each.
        bend: Second time derivatives of the rows where both frames keep their twists.
    """

    rows: tuple[Expression, ...]
    by_twist: tuple[Expression, ...]
    bend: tuple[Expression, ...]


@functools.cache
def _statement(joint: str) -> _Statement:
    """State the rows of a joint; moving both frames alike changes none of them."""
    graph = ExpressionGraph()
    poses = [[graph.variable(name) for name in names] for names in _POSES]
    twists = [[graph.variable(name) for name in names] for names in _TWISTS]
    frames = [Frame(vector(pose[:3]), quaternion(pose[3:])) for pose in poses]
    inputs = RowInputs(
        dict(zip((FRAME, REFERENCE_FRAME), frames, strict=True)), {}, {}, {}, {SIZE: graph.variable(SIZE)}
    )
    zero = graph.constant(0.0)
    rows = tuple(zero + row for row in LOOP_GROUPS[joint].state(inputs))
    derivatives = [by_twist(row, poses[0]) for row in rows]
    relative = [a - b for a, b in zip(*twists, strict=True)]
    bend = []
    for derivative in derivatives:
        speed = zero + _dot(derivative, relative)
        bend.append(zero + sum(_dot(by_twist(speed, pose), twist) for pose, twist in zip(poses, twists, strict=True)))
    return _Statement(rows, tuple(part for one in derivatives for part in one), tuple(bend))


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    return sum((x * y for x, y in zip(a, b, strict=True)), start=0.0)


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """The rows of a robot's loops.

    Attributes:
        robot: The robot.
        loops: Its loops.
        frames: Their frames.
    """

    robot: KinematicRobot
    loops: tuple[LoopConstraint, ...]
    frames: FramePairs

    @classmethod
    def of(cls, robot: KinematicRobot) -> "ResidualRows":
        """Collect the rows of the loops of a robot."""
        return cls(robot, robot.loops, frame_pairs(robot, robot.loops))

    def values_and_jacobian(self, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give the rows, shape [n, rows], and their derivatives by the DOFs, [n, rows, joint_dof_count]."""
        motion = body_motion(self.robot, joint_q)
        poses, n = self.frames.poses(motion.T_world_body), len(motion.S)
        columns = self.frames.moved[0].astype(float) - self.frames.moved[1]
        values, jacobians = [], []
        for k, loop in enumerate(self.loops):
            stated = _statement(loop.joint)
            found = _evaluated([*stated.rows, *stated.by_twist], loop, poses[:, :, k])
            count = len(stated.rows)
            values.append(found[:, :count])
            by_twist = found[:, count:].reshape(n, count, TWIST)
            jacobians.append(by_twist @ np.swapaxes(motion.S * columns[k, :, np.newaxis], 1, 2))
        empty = np.zeros((n, 0, self.robot.joint_dof_count))
        return np.concatenate([empty[:, :, 0], *values], axis=1), np.concatenate([empty, *jacobians], axis=1)

    def accelerations(self, joint_q: Float64Array, joint_qd: Float64Array) -> Float64Array:
        """Give the second time derivatives of the rows at constant joint velocities, shape [n, rows]."""
        motion = body_motion(self.robot, joint_q)
        poses, moved = self.frames.poses(motion.T_world_body), self.frames.moved
        twists = np.einsum("sld,nd,ndk->snlk", moved, joint_qd, motion.S)
        subspace_rate = motion_subspace_rate(self.robot, motion, joint_qd)
        rates = np.einsum("sld,nd,ndk->snlk", moved, joint_qd, subspace_rate)
        found = [np.zeros((len(motion.S), 0))]
        for k, loop in enumerate(self.loops):
            stated = _statement(loop.joint)
            count = len(stated.rows)
            parts = _evaluated([*stated.bend, *stated.by_twist], loop, poses[:, :, k], twists[:, :, k])
            by_twist = parts[:, count:].reshape(-1, count, TWIST)
            found.append(parts[:, :count] + np.einsum("nrk,nk->nr", by_twist, rates[0, :, k] - rates[1, :, k]))
        return np.concatenate(found, axis=1)


def _evaluated(
    outputs: Sequence[Expression], loop: LoopConstraint, poses: Float64Array, twists: Float64Array | None = None
) -> Float64Array:
    """Evaluate expressions of one loop in many configurations, shape [n, outputs]."""
    values: dict[str, Float64Array] = {SIZE: np.asarray(loop.size)}
    for names, columns in ((_POSES, poses), (_TWISTS, twists)):
        if columns is not None:
            values |= {name: columns[side, :, k] for side in range(SIDES) for k, name in enumerate(names[side])}
    n = poses.shape[1]
    return np.stack([np.broadcast_to(result, n) for result in evaluate(outputs, values)], axis=1)

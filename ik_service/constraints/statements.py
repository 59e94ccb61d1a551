"""Pairs of frames of constraints, and statements of joints over their poses, evaluated in float64 with derivatives.

The kernels of solvers are made from the same expressions. Derivatives are by the twists of both frames: first
derivatives, and second derivatives for accelerations.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import Float64Array, identity_transform, transform_multiply
from ik_service.mechanism.trees import moving_dofs
from objectives.expression import Expression, ExpressionGraph, Scalar, evaluate
from objectives.expression.frame_algebra import Frame, quaternion, vector
from objectives.expression.rows import RowGroup, RowInputs, by_twist
from objectives.tasks.closing_joint import CLOSING_COORDINATES, FRAME, REFERENCE_FRAME, SIZE, limit_group
from objectives.tasks.loop import loop_group
from objectives.tasks.velocity import MovingPair

SIDES = 2  # the frame, then the reference frame


class FramePairs:
    """Frames of constraints on a robot, in the order of the constraints: the frame, then the reference frame."""

    def __init__(self, robot: KinematicRobot, loops: Sequence[LoopConstraint] | Sequence[MovingPair]) -> None:
        places = [
            [_place(robot, one.link, np.array(one.offset)) for one in loops],
            [_place(robot, one.reference_link, np.array(one.reference_offset)) for one in loops],
        ]
        bodies, shape = [[body for body, _ in side] for side in places], (SIDES, len(loops))
        self.body = np.array(bodies, dtype=np.intp).reshape(shape)  # body that carries each frame, -1 for static ones
        # frames in their bodies (in the world for body -1) [m, xyzw]
        self.T_body_frame = np.array([[T for _, T in side] for side in places]).reshape(*shape, 7)
        moved = np.array([[moving_dofs(robot, one) for one in side] for side in bodies], dtype=bool)
        self.moved = moved.reshape(*shape, robot.joint_dof_count)  # whether a DOF moves the frame

    @property
    def moves_apart(self) -> Float64Array:
        """1 for a DOF that moves the frame alone, -1 for the reference frame alone, shape [loops, joint_dof_count]."""
        return np.asarray(self.moved[0].astype(float) - self.moved[1])

    def poses(self, T_world_body: Float64Array) -> Float64Array:
        """Give the frames in the world, shape [2, n, loops, 7], from poses of all bodies, shape [n, body_count, 7]."""
        world = np.broadcast_to(identity_transform(), (len(T_world_body), 1, 7))
        with_world = np.concatenate([T_world_body, world], axis=1)
        shape = (len(T_world_body), *self.T_body_frame.shape[1:])
        return np.stack(
            [
                transform_multiply(with_world[:, self.body[side]], np.broadcast_to(self.T_body_frame[side], shape))
                for side in range(SIDES)
            ]
        )


def _place(robot: KinematicRobot, link: str | None, offset: Float64Array) -> tuple[int, Float64Array]:
    if link is None:
        return -1, offset
    body, T_body_link = robot.link_frame(link)
    return body, transform_multiply(T_body_link, offset)


TWIST = 6
POSES = tuple(tuple(f"pose{side}_{k}" for k in range(7)) for side in range(SIDES))
TWISTS = tuple(tuple(f"twist{side}_{k}" for k in range(TWIST)) for side in range(SIDES))


class RowStatement(NamedTuple):
    """Rows of one joint on symbols."""

    rows: tuple[Expression, ...]
    by_twist: tuple[Expression, ...]  # derivatives by the relative twist of both frames, row after row, 6 each
    bend: tuple[Expression, ...]  # second time derivatives of the rows at constant twists of both frames


@functools.cache
def row_statement(joint: str, loose: tuple[str, ...] = ()) -> RowStatement:
    """State the rows of a joint, `loose` rows with slack; a common motion of both frames changes no row."""
    return _statement(loop_group(joint, loose))


@functools.cache
def limit_statement(joint: str, limited: tuple[int, ...]) -> RowStatement:
    """State the distance of coordinates of a joint beyond their limits."""
    return _statement(limit_group(joint, limited))


def symbols(graph: ExpressionGraph, sides: Sequence[Sequence[str]]) -> list[list[Expression]]:
    """Make variables for both frames, with the names `POSES` or `TWISTS`."""
    return [[graph.variable(name) for name in names] for names in sides]


def _statement(group: RowGroup) -> RowStatement:
    graph = ExpressionGraph()
    rows, poses, twists = _stated(group, graph), symbols(graph, POSES), symbols(graph, TWISTS)
    derivatives = [by_twist(row, poses[0]) for row in rows]
    relative = [a - b for a, b in zip(*twists, strict=True)]
    zero = graph.constant(0.0)
    speeds = [zero + _dot(derivative, relative) for derivative in derivatives]
    bend = tuple(time_derivative(speed, poses, twists) for speed in speeds)
    return RowStatement(rows, tuple(part for one in derivatives for part in one), bend)


def time_derivative(
    output: Expression, poses: Sequence[Sequence[Expression]], twists: Sequence[Sequence[Expression]]
) -> Expression:
    """Differentiate an expression by time, at constant twists of both frames."""
    return output.graph.constant(0.0) + sum(
        _dot(by_twist(output, pose), twist) for pose, twist in zip(poses, twists, strict=True)
    )


@functools.cache
def closing_statement(joint: str) -> tuple[Expression, ...]:
    """State the coordinates of a closing joint."""
    return _stated(CLOSING_COORDINATES[joint][0], ExpressionGraph())


def _stated(group: RowGroup, graph: ExpressionGraph) -> tuple[Expression, ...]:
    frames = [Frame(vector(pose[:3]), quaternion(pose[3:])) for pose in symbols(graph, POSES)]
    named = dict(zip((FRAME, REFERENCE_FRAME), frames, strict=True))
    inputs = RowInputs(named, {}, {}, {}, {name: graph.variable(name) for name in (SIZE, *group.constants)})
    zero = graph.constant(0.0)
    return tuple(zero + row for row in group.state(inputs))


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    return sum((x * y for x, y in zip(a, b, strict=True)), start=0.0)


def evaluated(
    outputs: Sequence[Expression],
    size: float,
    poses: Float64Array,
    twists: Float64Array | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Float64Array:
    """Evaluate expressions at poses [2, n, 7] and twists [2, n, 6] of both frames, shape [n, outputs]."""
    values = {name: np.asarray(number) for name, number in {SIZE: size, **(numbers or {})}.items()}
    for names, columns in ((POSES, poses), (TWISTS, twists)):
        if columns is not None:
            values |= {name: columns[side, :, k] for side in range(SIDES) for k, name in enumerate(names[side])}
    n = poses.shape[1]
    return np.stack([np.broadcast_to(result, n) for result in evaluate(outputs, values)], axis=1)


def or_zero(derivatives: Float64Array) -> Float64Array:
    """Replace derivatives that are not finite by 0: a screw with opposite axes has no angle."""
    return np.where(np.isfinite(derivatives), derivatives, 0.0)

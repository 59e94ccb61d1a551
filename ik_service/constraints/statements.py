"""Statements of joints of loops over the poses of two frames, evaluated in float64 with its derivatives.

The expressions are those from which the kernels of solvers are made. Derivatives are by the twists of both frames,
once, and once more for accelerations.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ik_service.constraints.frame_pairs import SIDES
from ik_service.mechanism.transforms import Float64Array
from objectives.expression import Expression, ExpressionGraph, Scalar, evaluate
from objectives.expression.frame_algebra import Frame, quaternion, vector
from objectives.expression.rows import RowGroup, RowInputs, by_twist
from objectives.tasks.closing_joint import CLOSING_COORDINATES, FRAME, REFERENCE_FRAME, SIZE, limit_group
from objectives.tasks.loop import loop_group

TWIST = 6
POSES = tuple(tuple(f"pose{side}_{k}" for k in range(7)) for side in range(SIDES))
TWISTS = tuple(tuple(f"twist{side}_{k}" for k in range(TWIST)) for side in range(SIDES))


class RowStatement(NamedTuple):
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
def row_statement(joint: str, loose: tuple[str, ...] = ()) -> RowStatement:
    """State the rows of a joint, some with a slack; moving both frames alike changes none of them."""
    return _statement(loop_group(joint, loose))


@functools.cache
def limit_statement(joint: str, limited: tuple[int, ...]) -> RowStatement:
    """State how far some coordinates of a joint are beyond their limits."""
    return _statement(limit_group(joint, limited))


def _statement(group: RowGroup) -> RowStatement:
    graph = ExpressionGraph()
    rows = _stated(group, graph)
    poses = [[graph.variable(name) for name in names] for names in POSES]
    twists = [[graph.variable(name) for name in names] for names in TWISTS]
    derivatives = [by_twist(row, poses[0]) for row in rows]
    relative = [a - b for a, b in zip(*twists, strict=True)]
    zero = graph.constant(0.0)
    speeds = [zero + _dot(derivative, relative) for derivative in derivatives]
    bend = tuple(time_derivative(speed, poses, twists) for speed in speeds)
    return RowStatement(rows, tuple(part for one in derivatives for part in one), bend)


def time_derivative(
    output: Expression, poses: Sequence[Sequence[Expression]], twists: Sequence[Sequence[Expression]]
) -> Expression:
    """Derive an expression in time, where both frames move with their twists and keep these."""
    return output.graph.constant(0.0) + sum(
        _dot(by_twist(output, pose), twist) for pose, twist in zip(poses, twists, strict=True)
    )


@functools.cache
def closing_statement(joint: str) -> tuple[Expression, ...]:
    """State the coordinates of a closing joint."""
    return _stated(CLOSING_COORDINATES[joint][0], ExpressionGraph())


def _stated(group: RowGroup, graph: ExpressionGraph) -> tuple[Expression, ...]:
    poses = [[graph.variable(name) for name in names] for names in POSES]
    frames = [Frame(vector(pose[:3]), quaternion(pose[3:])) for pose in poses]
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
    """Evaluate expressions of one statement at poses [2, n, 7] and twists [2, n, 6] of both frames, [n, outputs]."""
    values = {name: np.asarray(number) for name, number in {SIZE: size, **(numbers or {})}.items()}
    for names, columns in ((POSES, poses), (TWISTS, twists)):
        if columns is not None:
            values |= {name: columns[side, :, k] for side in range(SIDES) for k, name in enumerate(names[side])}
    n = poses.shape[1]
    return np.stack([np.broadcast_to(result, n) for result in evaluate(outputs, values)], axis=1)


def or_zero(derivatives: Float64Array) -> Float64Array:
    """Give 0 for a derivative that is not finite: the angle of a screw has none where its axes are opposite."""
    return np.where(np.isfinite(derivatives), derivatives, 0.0)

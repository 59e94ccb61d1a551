"""Rows of an objective stated once, as arithmetic over link frames, coordinates and data.

A `RowGroup` says how to compute a few rows that belong together. An objective applies it to one or more *elements*:
a link, a DOF, a ball joint. Nothing in a group belongs to a robot: which bodies, coordinates and lines of data an
element uses is data of the kernels, so one compilation serves all robots.

`state_rows` runs the statement on symbols and differentiates it: with respect to the twist of every frame (velocity of
the frame's point at the world origin, then angular velocity, world frame), to every scalar coordinate, and to the
left tangent of every quaternion coordinate.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from objectives.errors import ObjectiveError
from objectives.expression import Expression, ExpressionGraph, Scalar, evaluate, reachable
from objectives.expression.derivative import gradient
from objectives.expression.frame_algebra import (
    Frame,
    QuaternionXYZW,
    Vector,
    cross,
    quaternion,
    scale,
    subtract,
    vector,
)
from objectives.expression.operation import COMPARISONS, Operation

DECISIONS = {  # operations that take one of two values
    **dict.fromkeys(COMPARISONS, (False, True)),
    Operation.STEP: (0.0, 1.0),
    Operation.SIGN: (-1.0, 1.0),
}
SAMPLES_LEAST, SAMPLES_MOST = 64, 1024  # poses at which invariance is tested
ZERO_MOTION = 1e-9  # what counts as zero there


@dataclass(frozen=True)
class RowInputs:
    """Inputs of the rows of one element, by the names in the `RowGroup`."""

    frames: Mapping[str, Frame]
    coordinates: Mapping[str, Scalar]
    quaternions_xyzw: Mapping[str, QuaternionXYZW]
    data: Mapping[str, tuple[Scalar, ...]]
    constants: Mapping[str, Scalar]


@dataclass(frozen=True)
class RowGroup:
    """A few rows that are computed together, and what they are computed from."""

    name: str
    """A Python identifier, part of the kernels' names."""

    row_count: int
    """Rows per element."""

    state: Callable[[RowInputs], Sequence[Scalar]]
    """Gives the rows without their weights; a function of a module, so that its kernels are built once."""

    frames: tuple[str, ...] = ()
    """Names of the link frames."""

    offsets: tuple[tuple[str, str], ...] = ()
    """Frames that stand off their links, each with its data field of 7 numbers, T_link_frame as position and xyzw: such
    a frame moves with its link, so the derivatives by its twist are the link's and cost nothing more."""

    coordinates: tuple[str, ...] = ()
    """Names of the scalar coordinates."""

    quaternions: tuple[str, ...] = ()
    """Names of the quaternion coordinates."""

    constants: tuple[str, ...] = ()
    """Names of the numbers that each element brings from its robot, such as a mass; no data, for they never change."""

    summed: bool = False
    """True if the rows of the elements add up to one set of rows; otherwise they follow one another."""

    independent: bool = True
    """True if the rows can all be met by themselves; three rows of a difference of directions depend on each other, and
    do not count where it is asked how near to singular a configuration is."""

    shifts: tuple[str, ...] = ()
    """Of rows that are limits: names of constants, one for each row, that are 0 and stand beside what the row limits. A
    solver puts the row's multiplier there. Other rows have it added to them."""

    data: tuple[tuple[str, int], ...] = ()
    """Names and widths of the data fields; the rows' weights are added to them by themselves."""

    starts: tuple[tuple[str, str, str], ...] = ()
    """Data fields of 7 numbers that say where a frame stood in another one when a motion began, position and xyzw, each
    with both frames. Programs of islands compute them from where the joints are at the start of a problem or tick."""

    def first_row(self, element: int) -> int:
        """Give the first row of an element that does not say it itself, counted from the first element's."""
        return 0 if self.summed else element * self.row_count

    def total_row_count(self, element_count: int) -> int:
        """Give the number of rows of some elements, at least one, together."""
        return self.row_count if self.summed else element_count * self.row_count


@dataclass(frozen=True)
class StatedRows:
    """A group on symbols: its inputs, its weighted rows and their derivatives, all in one graph."""

    graph: ExpressionGraph
    frame_names: tuple[tuple[str, ...], ...]
    """Variables of each frame: position, then orientation xyzw."""

    coordinate_names: tuple[str, ...]
    quaternion_names: tuple[tuple[str, ...], ...]
    constant_names: tuple[str, ...]
    data_names: tuple[tuple[str, ...], ...]
    """Variables of each data field; the last field holds the weights of the rows."""

    plain: tuple[Expression, ...]
    """Rows without weights."""

    rows: tuple[Expression, ...]
    """Rows times `weight` times their row's weight."""

    frame_derivatives: tuple[tuple[tuple[Expression, ...], ...], ...]
    """For each frame and row: derivative by the frame's twist, 6 expressions."""

    coordinate_derivatives: tuple[tuple[Expression, ...], ...]
    """For each coordinate and row."""

    quaternion_derivatives: tuple[tuple[tuple[Expression, ...], ...], ...]
    """For each quaternion and row: derivative by the left tangent, 3 expressions."""

    common_motion_cancels: bool
    """True if a motion that all frames share leaves the rows as they are, as it does where one is seen from another."""


WEIGHT = "weight"
ROW_WEIGHTS = "row_weights"
ROW_TOLERANCES = "row_tolerances"


def _names(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}_{k}" for k in range(count))


@functools.cache
def state_rows(group: RowGroup) -> StatedRows:
    """Run the statement of a group on symbols, and differentiate its rows.

    Raises:
        ObjectiveError: The statement does not give `row_count` rows.
    """
    graph = ExpressionGraph()
    widths = [width for _, width in group.data] + [group.row_count]
    frame_names = tuple(_names(f"frame{k}", 7) for k in range(len(group.frames)))
    coordinate_names = _names("coordinate", len(group.coordinates))
    quaternion_names = tuple(_names(f"quaternion{k}", 4) for k in range(len(group.quaternions)))
    constant_names = _names("constant", len(group.constants))
    data_names = tuple(_names(f"data{k}", width) for k, width in enumerate(widths))

    frames, quaternions, data = (
        [tuple(graph.variable(name) for name in names) for names in family]
        for family in (frame_names, quaternion_names, data_names)
    )
    coordinates = [graph.variable(name) for name in coordinate_names]
    inputs = RowInputs(
        {name: Frame(vector(f[:3]), quaternion(f[3:])) for name, f in zip(group.frames, frames, strict=True)},
        dict(zip(group.coordinates, coordinates, strict=True)),
        {name: quaternion(q) for name, q in zip(group.quaternions, quaternions, strict=True)},
        {name: tuple(values) for (name, _), values in zip(group.data, data[:-1], strict=True)},
        {name: graph.variable(own) for name, own in zip(group.constants, constant_names, strict=True)},
    )
    stated = group.state(inputs)
    if len(stated) != group.row_count:
        raise ObjectiveError(f"Row group '{group.name}' states {len(stated)} rows instead of {group.row_count}.")
    weight = graph.variable(WEIGHT)
    rows = tuple(weight * row_weight * row for row_weight, row in zip(data[-1], stated, strict=True))
    frame_derivatives = tuple(tuple(by_twist(row, frame) for row in rows) for frame in frames)
    cancels = len(frames) > 1 and _common_motion_cancels(frame_names, frame_derivatives)
    if cancels and len(frames) == 2:  # the second derivatives need no arithmetic of their own
        first = frame_derivatives[0]
        frame_derivatives = first, tuple(tuple(-part for part in row) for row in first)
    return StatedRows(
        graph,
        frame_names,
        coordinate_names,
        quaternion_names,
        constant_names,
        data_names,
        _expressions(graph, stated),
        rows,
        frame_derivatives,
        tuple(tuple(gradient(row, [coordinate])[0] for row in rows) for coordinate in coordinates),
        tuple(tuple(_by_left_tangent(row, q) for row in rows) for q in quaternions),
        cancels,
    )


def _expressions(graph: ExpressionGraph, values: Sequence[Scalar]) -> tuple[Expression, ...]:
    zero = graph.constant(0.0)
    return tuple(zero + value for value in values)


def _rotation_part(by_q: Sequence[Scalar], q: QuaternionXYZW) -> Vector:
    """Derivative by the angular velocity w of dq = 1/2 (w, 0) q, from the derivative by q's entries."""
    turn = cross(vector(q[:3]), vector(by_q[:3]))
    return scale(
        0.5,
        subtract(
            (turn[0] + q[3] * by_q[0], turn[1] + q[3] * by_q[1], turn[2] + q[3] * by_q[2]),
            scale(by_q[3], vector(q[:3])),
        ),
    )


def _by_left_tangent(row: Expression, q: Sequence[Expression]) -> tuple[Expression, ...]:
    return _expressions(row.graph, _rotation_part(gradient(row, q), quaternion(q)))


def by_twist(row: Expression, frame: Sequence[Expression]) -> tuple[Expression, ...]:
    """Derivative by a twist at the world origin: dp = v + w x p, dq = 1/2 (w, 0) q."""
    by_frame = gradient(row, frame)
    by_position = vector(by_frame[:3])
    turn = _rotation_part(by_frame[3:], quaternion(frame[3:]))
    moment = cross(vector(frame[:3]), by_position)
    return _expressions(row.graph, [*by_position, *(a + b for a, b in zip(moment, turn, strict=True))])


def _common_motion_cancels(
    frame_names: Sequence[Sequence[str]], derivatives: Sequence[Sequence[Sequence[Expression]]]
) -> bool:
    """Tell if the derivatives by the twists of all frames sum to zero; by trial, since it holds everywhere or not.

    Every combination of branches of a row comes up; where these are too many, the answer is no, which is never wrong.
    """
    return all(_sums_to_zero(frame_names, row) for row in zip(*derivatives, strict=True))


def _sums_to_zero(frame_names: Sequence[Sequence[str]], by_frame: Sequence[Sequence[Expression]]) -> bool:
    """Tell if the derivatives of one row, 6 by the twist of each frame, sum to zero."""
    sums = [functools.reduce(operator.add, parts) for parts in zip(*by_frame, strict=True)]
    decisions = [node for node in reachable(sums) if node.operation in DECISIONS]
    if 2 ** len(decisions) > SAMPLES_MOST:
        return False
    count = max(SAMPLES_LEAST, 2 ** len(decisions))
    turns = np.arange(count)
    drawn = {node: np.where(turns >> k & 1, *DECISIONS[node.operation]) for k, node in enumerate(decisions)}
    rng = np.random.default_rng(0)
    values = {node.name: rng.normal(size=count) for node in sums[0].graph.nodes if node.name}
    for names in frame_names:
        length = np.sqrt(sum(values[name] ** 2 for name in names[3:]))
        values |= {name: values[name] / length for name in names[3:]}
    return all(np.abs(result).max() < ZERO_MOTION for result in evaluate(sums, values, drawn))

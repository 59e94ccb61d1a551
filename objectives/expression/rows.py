"""Rows of an objective stated once, as arithmetic over link frames, coordinates and data.

A `RowGroup` states a few rows. An objective applies a group to one or more *elements*: a link, a DOF, a ball joint. A
group is independent of robots: bodies, coordinates and data lines of an element are data of the kernels, so one
compilation serves all robots.

`state_rows` runs the statement on symbols and differentiates the rows by the twist of every frame (at the world origin,
linear then angular, world frame), by every scalar coordinate, and by the left tangent of every quaternion.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from objectives.errors import ObjectiveError
from objectives.expression import Expression, ExpressionGraph, Scalar, evaluate, reachable
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
from objectives.expression.functions import gradient, rates
from objectives.expression.graph import COMPARISONS, Operation

DECISIONS = {  # operations with two values
    **dict.fromkeys(COMPARISONS, (False, True)),
    Operation.STEP: (0.0, 1.0),
    Operation.SIGN: (-1.0, 1.0),
}
SAMPLES_LEAST, SAMPLES_MOST = 64, 1024  # poses for the test of invariance
ZERO_MOTION = 1e-9  # tolerance of this test


@dataclass(frozen=True)
class RowInputs:
    """Inputs of the rows of one element, by names of the `RowGroup`."""

    frames: Mapping[str, Frame]
    coordinates: Mapping[str, Scalar]
    quaternions_xyzw: Mapping[str, QuaternionXYZW]
    data: Mapping[str, tuple[Scalar, ...]]
    constants: Mapping[str, Scalar]


@dataclass(frozen=True)
class RowGroup:
    """Rows computed together, and their inputs.

    Attributes:
        name: A Python identifier, part of the kernels' names.
        row_count: Rows per element.
        state: Function of the rows without weights; a function of a module, so that kernels are built once.
        frames: Names of the link frames.
        offsets: Frames with an offset to their link, each with its data field T_link_frame, position and xyzw. The
            derivatives by the frame's twist are those of the link, at no extra cost.
        coordinates: Names of the scalar coordinates.
        quaternions: Names of the quaternion coordinates.
        constants: Names of constant numbers of the robot per element, such as a mass.
        summed: True if rows of the elements are added; otherwise the rows are concatenated.
        independent: True if the rows are independent; the three rows of a difference of directions are not, and are
            ignored for singular values.
        shifts: For limits: name of a constant 0 per row, added to the limited coordinate; a solver puts the row's
            Lagrange multiplier there. For other rows the solver adds the multiplier to the row.
        data: Names and widths of the data fields, without weights of rows.
        starts: Data fields of the pose of a frame in another frame at the start of a motion, position and xyzw, each
            with both frames. Programs of islands compute these poses from the joints at the start.
        twist: For speeds: data field of the twist of the first frame relative to the second, at the world origin. The
            rows are linear in this twist, evaluated at zero, and derived by this twist instead of poses.
    """

    name: str
    row_count: int
    state: Callable[[RowInputs], Sequence[Scalar]]
    frames: tuple[str, ...] = ()
    offsets: tuple[tuple[str, str], ...] = ()
    coordinates: tuple[str, ...] = ()
    quaternions: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    summed: bool = False
    independent: bool = True
    shifts: tuple[str, ...] = ()
    data: tuple[tuple[str, int], ...] = ()
    starts: tuple[tuple[str, str, str], ...] = ()
    twist: str = ""

    def first_row(self, element: int) -> int:
        """Give the first row of an element without `Element.row`, relative to the first element."""
        return 0 if self.summed else element * self.row_count

    def total_row_count(self, element_count: int) -> int:
        """Give the number of rows of all elements, at least one."""
        return self.row_count if self.summed else element_count * self.row_count


@dataclass(frozen=True)
class StatedRows:
    """A group on symbols: variables, weighted rows and derivatives, in one graph."""

    graph: ExpressionGraph
    frame_names: tuple[tuple[str, ...], ...]  # variables of each frame: position, then orientation xyzw
    coordinate_names: tuple[str, ...]  # variable of each scalar coordinate
    quaternion_names: tuple[tuple[str, ...], ...]  # variables of each quaternion
    constant_names: tuple[str, ...]  # variable of each constant
    data_names: tuple[tuple[str, ...], ...]  # variables of each data field; the last field has the weights of the rows
    plain: tuple[Expression, ...]  # rows without weights
    rows: tuple[Expression, ...]  # rows times `weight` times the row's weight
    # for each frame and row: derivative by the frame's twist, 6 expressions
    frame_derivatives: tuple[tuple[tuple[Expression, ...], ...], ...]
    # for each coordinate and row: derivative by the coordinate
    coordinate_derivatives: tuple[tuple[Expression, ...], ...]
    # for each quaternion and row: derivative by the left tangent, 3 expressions
    quaternion_derivatives: tuple[tuple[tuple[Expression, ...], ...], ...]
    common_motion_cancels: bool  # true if a common motion of all frames changes no row, as for relative poses

    @property
    def has_opposite_frames(self) -> bool:
        """True if derivatives by the second of two frames are those by the first, with the opposite sign."""
        return self.common_motion_cancels and len(self.frame_names) == 2

    @cached_property
    def outputs(self) -> tuple[Expression, ...]:
        """All rows, then their derivatives by frames, coordinates and quaternions, row after row in each.

        Without the second of opposite frames.
        """
        frames = self.frame_derivatives[:1] if self.has_opposite_frames else self.frame_derivatives
        by_frames = [part for frame in frames for row in frame for part in row]
        by_coordinates = [part for coordinate in self.coordinate_derivatives for part in coordinate]
        by_quaternions = [part for own in self.quaternion_derivatives for row in own for part in row]
        return (*self.rows, *by_frames, *by_coordinates, *by_quaternions)


WEIGHT = "weight"
ROW_WEIGHTS = "row_weights"
ROW_TOLERANCES = "row_tolerances"


def _names(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}_{k}" for k in range(count))


@functools.cache
def state_rows(group: RowGroup) -> StatedRows:
    """Run the statement of a group on symbols, and differentiate the rows; ObjectiveError: not `row_count` rows."""
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
    if group.twist:
        twist = data[[name for name, _ in group.data].index(group.twist)]
        by_frames = [tuple(tuple(gradient(row, twist)) for row in rows)] * len(frames)
        cancels = True
    else:
        by_frames = [tuple(by_twist(row, frame) for row in rows) for frame in frames]
        # whether the derivatives by the twists of all frames sum to zero
        by_row = zip(*by_frames, strict=True)
        cancels = len(frames) > 1 and all(_sums_to_zero(frame_names, by_each) for by_each in by_row)
    if cancels and len(frames) == 2:  # opposite derivatives share their arithmetic
        by_frames[1] = tuple(tuple(-part for part in row) for row in by_frames[0])
    return StatedRows(
        graph,
        frame_names,
        coordinate_names,
        quaternion_names,
        constant_names,
        data_names,
        _expressions(graph, stated),
        rows,
        tuple(by_frames),
        tuple(tuple(gradient(row, [coordinate])[0] for row in rows) for coordinate in coordinates),
        tuple(
            tuple(_expressions(graph, _rotation_part(gradient(row, q), quaternion(q))) for row in rows)
            for q in quaternions
        ),
        cancels,
    )


RATE = "_rate"  # end of the name of a variable's rate


@functools.cache
def row_rates(group: RowGroup, fields: tuple[str, ...] = ()) -> tuple[Expression, ...]:
    """Give `StatedRows.outputs`, then their rates, from rates of frames, coordinates, quaternions and some fields."""
    stated = state_rows.__wrapped__(group)  # in a graph of its own: nodes of the kernels keep their numbers
    data = dict(zip((*(name for name, _ in group.data), ROW_WEIGHTS), stated.data_names, strict=True))
    moving = [*stated.frame_names, stated.coordinate_names, *stated.quaternion_names, *(data[name] for name in fields)]
    variables = [stated.graph.variable(name) for names in moving for name in names]
    return (*stated.outputs, *rates(stated.outputs, {one: stated.graph.variable(one.name + RATE) for one in variables}))


def _expressions(graph: ExpressionGraph, values: Sequence[Scalar]) -> tuple[Expression, ...]:
    zero = graph.constant(0.0)
    return tuple(zero + value for value in values)


def _rotation_part(by_q: Sequence[Scalar], q: QuaternionXYZW) -> Vector:
    """Turn the derivative by q's entries into the derivative by the angular velocity w of dq = 1/2 (w, 0) q."""
    turn = cross(vector(q[:3]), vector(by_q[:3]))
    return scale(
        0.5,
        subtract(
            (turn[0] + q[3] * by_q[0], turn[1] + q[3] * by_q[1], turn[2] + q[3] * by_q[2]),
            scale(by_q[3], vector(q[:3])),
        ),
    )


def by_twist(row: Expression, frame: Sequence[Expression]) -> tuple[Expression, ...]:
    """Differentiate a row by the twist of a frame at the world origin: dp = v + w x p, dq = 1/2 (w, 0) q."""
    by_frame = gradient(row, frame)
    by_position = vector(by_frame[:3])
    turn = _rotation_part(by_frame[3:], quaternion(frame[3:]))
    moment = cross(vector(frame[:3]), by_position)
    return _expressions(row.graph, [*by_position, *(a + b for a, b in zip(moment, turn, strict=True))])


def _sums_to_zero(frame_names: Sequence[Sequence[str]], by_frame: Sequence[Sequence[Expression]]) -> bool:
    """Test at random poses, for all combinations of branches; False, always safe, for too many combinations."""
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

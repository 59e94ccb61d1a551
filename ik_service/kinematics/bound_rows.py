"""Rows of objectives bound to a robot, in float64 on the host: values, Jacobians, and the rates of both in a motion.

    row group, elements -> table of elements -> symbols at the frames and data of each element -> rows, Jacobian

Constraint kinematics, derivatives of answers and the repair of collisions read their rows here. Kernels are made from
the same statements; nothing else is shared with them. All second derivatives are exact: rates of expressions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.kinematics.host_poses import blocks_of
from ik_service.kinematics.host_tangent import BodyMotion, BodyRate
from ik_service.mechanism.kinematic_robot import KinematicRobot, host_model
from ik_service.mechanism.transforms import (
    Float64Array,
    cross,
    identity_transform,
    quaternion_multiply,
    quaternion_rotate,
    transform_multiply,
)
from objectives.expression import Expression, evaluate, reachable
from objectives.expression.element_table import Element, ElementTable, build_element_table
from objectives.expression.graph import COMPARISONS, Operation
from objectives.expression.kernels import coordinate_column, data_column, frame_column, quaternion_column
from objectives.expression.rows import RATE, ROW_WEIGHTS, WEIGHT, RowGroup, row_rates, state_rows

Data = Mapping[str, Float64Array]
"""Numbers of an objective's fields by name, shape [1 or n, columns]."""
NO_RATES: Data = MappingProxyType({})
POSE = 7
PIECES = COMPARISONS | {Operation.STEP, Operation.SIGN, Operation.MAXIMUM, Operation.MINIMUM}
"""Operations that choose between pieces."""


class RowValues(NamedTuple):
    """Rows in many configurations, or their rates."""

    rows: Float64Array  # weighted rows, shape [n, rows]
    jacobian: Float64Array  # their derivatives by the DOFs, shape [n, rows, DOFs]


@dataclass(frozen=True, eq=False)
class BoundRows:
    """Rows of an objective, or of several."""

    tables: tuple[ElementTable, ...]  # elements, by row group
    size: int  # number of rows
    weight: float = 1.0  # factor of all rows

    @property
    def has_kinks(self) -> bool:
        """True if the rows are piecewise."""
        outputs = (one for table in self.tables for one in state_rows(table.group).outputs)
        return any(node.operation in PIECES for node in reachable(outputs))

    def rows(self, joint_q: Float64Array, T_world_body: Float64Array, data: Data) -> Float64Array:
        """Evaluate the rows alone, shape [n, rows]."""
        found, motion = np.zeros((len(joint_q), self.size)), BodyMotion(joint_q, T_world_body, np.zeros((0, 0, 6)))
        for table in self.tables:
            _add_rows(found, table, self._evaluated(table, state_rows(table.group).rows, _inputs(table, motion, data)))
        return found

    def values(self, motion: BodyMotion, data: Data, found: RowValues | None = None) -> RowValues:
        """Evaluate the rows, with their derivatives by all DOFs; `found`: zeros to fill."""
        found = found or self._zeros(motion)
        for block in blocks_of(len(motion.S)):  # bounds the memory, and arrays fit into the cache
            own, lines = BodyMotion(*(one[block] for one in motion)), lines_of(data, block)
            for table in self.tables:
                outputs = self._evaluated(table, state_rows(table.group).outputs, _inputs(table, own, lines))
                _add_rows(found.rows[block], table, outputs)
                _add_columns(found.jacobian[block], table, outputs, own.S)
        return found

    def rates(self, motion: BodyMotion, data: Data, along: BodyRate, data_rates: Data = NO_RATES) -> RowValues:
        """Evaluate the rates of the rows and of their derivatives, in a motion of the bodies and of some fields."""
        found = self._zeros(motion)
        for block in blocks_of(len(motion.S)):
            own, way = BodyMotion(*(one[block] for one in motion)), BodyRate(*(one[block] for one in along))
            lines, changes = lines_of(data, block), lines_of(data_rates, block)
            for table in self.tables:
                inputs = _inputs(table, own, lines, way, changes)
                moving = (name for name in (*dict(table.group.data), ROW_WEIGHTS) if name in data_rates)
                both = self._evaluated(table, row_rates(table.group, tuple(moving)), inputs)
                outputs, rates = np.split(both, 2, axis=-1)
                _add_rows(found.rows[block], table, rates)
                _add_columns(found.jacobian[block], table, rates, own.S)
                _add_columns(found.jacobian[block], table, outputs, way.S, frames_alone=True)
        return found

    def _zeros(self, motion: BodyMotion) -> RowValues:
        n, dofs = motion.S.shape[:2]
        return RowValues(np.zeros((n, self.size)), np.zeros((n, self.size, dofs)))

    def _evaluated(self, table: ElementTable, outputs: Sequence[Expression], inputs: Data) -> Float64Array:
        """Evaluate expressions, shape [n, elements, outputs]."""
        found = np.empty((*np.broadcast_shapes(*(one.shape for one in inputs.values())), len(outputs)), order="F")
        for k, value in enumerate(evaluate(outputs, {WEIGHT: self.weight, **inputs})):
            found[..., k] = value
        return found


def bound_rows(robot: KinematicRobot, groups: Sequence[tuple[RowGroup, Sequence[Element]]]) -> BoundRows:
    """Bind row groups with their elements to a robot, one after the other; equal groups are evaluated together."""
    elements: dict[RowGroup, list[Element]] = {}
    row = 0
    for group, own in groups:
        elements.setdefault(group, []).extend(replace(one, row=row + group.first_row(e)) for e, one in enumerate(own))
        row += group.total_row_count(len(own))
    model = host_model(robot)
    return BoundRows(tuple(build_element_table(group, own, 0, model) for group, own in elements.items() if own), row)


def lines_of(data: Data, problems: slice | NDArray[np.intp]) -> Data:
    """Give the numbers of some problems."""
    return {name: lines[problems] if len(lines) > 1 else lines for name, lines in data.items()}


def _inputs(
    table: ElementTable, motion: BodyMotion, data: Data, along: BodyRate | None = None, data_rates: Data = NO_RATES
) -> dict[str, Float64Array]:
    """Give the values of all variables, and their rates in a motion, shape [n or 1, elements] each."""
    group, stated, integers = table.group, state_rows(table.group), table.integers
    given: dict[str, Float64Array] = {}

    def give(names: Sequence[str], values: Float64Array, rates: Float64Array | None = None) -> None:
        for c, name in enumerate(names):
            given[name] = values[..., c]
            if rates is not None:
                given[name + RATE] = rates[..., c]

    def columns(first: int, width: int) -> NDArray[np.integer]:
        return integers[:, first, np.newaxis] + np.arange(width)

    offsets = dict(group.offsets)
    for k, (name, names) in enumerate(zip(group.frames, stated.frame_names, strict=True)):
        body, offset = integers[:, frame_column(k)], offsets.get(name, "")
        link = pose = frame_poses(motion.T_world_body, body, table.frame_offsets[:, k])
        if offset:
            pose = transform_multiply(link, np.broadcast_to(data[offset][:, np.newaxis], link.shape))
        rate = None
        if along is not None:
            rate = _pose_rate(pose, along.twists[:, body])
            if offset in data_rates:
                tool = data_rates[offset][:, np.newaxis]
                rate[..., :3] += quaternion_rotate(link[..., 3:], tool[..., :3])
                rate[..., 3:] += quaternion_multiply(link[..., 3:], tool[..., 3:])
        give(names, pose, rate)
    for k, name in enumerate(stated.coordinate_names):
        first = coordinate_column(group, k)
        give([name], motion.joint_q[:, columns(first, 1)], along and along.joint_qd[:, columns(first + 1, 1)])
    for k, names in enumerate(stated.quaternion_names):
        first = quaternion_column(group, k)
        turned = motion.joint_q[:, columns(first, 4)]
        give(names, turned, along and quaternion_rate(along.joint_qd[:, columns(first + 1, 3)], turned))
    give(stated.constant_names, table.constants[np.newaxis])
    for k, (field, names) in enumerate(zip((*dict(group.data), ROW_WEIGHTS), stated.data_names, strict=True)):
        own = columns(data_column(group, k), len(names))
        give(names, data[field][:, own], data_rates[field][:, own] if field in data_rates else None)
    return given


def frame_poses(T_world_body: Float64Array, bodies: ArrayLike, T_body_frame: ArrayLike) -> Float64Array:
    """Give the poses of frames on bodies, -1 for the world, shape [n, frames, 7], from the poses of all bodies."""
    own = np.asarray(bodies, np.intp)
    carriers = T_world_body[:, own]
    carriers[:, own < 0] = identity_transform()
    return transform_multiply(carriers, np.broadcast_to(np.reshape(T_body_frame, (-1, POSE)), carriers.shape))


def _pose_rate(pose: Float64Array, twist: Float64Array) -> Float64Array:
    """Give the rate of poses [..., 7] that move with twists at the world origin [..., 6]."""
    velocity = twist[..., :3] + cross(twist[..., 3:], pose[..., :3])
    return np.concatenate([velocity, quaternion_rate(twist[..., 3:], pose[..., 3:])], axis=-1)


def quaternion_rate(turn: Float64Array, q_xyzw: Float64Array) -> Float64Array:
    """Give the rate of quaternions [..., 4] that turn with angular velocities [..., 3]."""
    half = np.concatenate([0.5 * turn, np.zeros((*turn.shape[:-1], 1))], axis=-1)
    return quaternion_multiply(half, q_xyzw)


def _rows_of(table: ElementTable, element: int) -> slice:
    first = int(table.integers[element, 0])
    return slice(first, first + table.group.row_count)


def _add_rows(rows: Float64Array, table: ElementTable, outputs: Float64Array) -> None:
    for element in range(outputs.shape[1]):
        rows[:, _rows_of(table, element)] += outputs[:, element, : table.group.row_count]


def _add_columns(
    jacobian: Float64Array, table: ElementTable, outputs: Float64Array, S: Float64Array, *, frames_alone: bool = False
) -> None:
    """Add the derivatives by frames times the motion S of each DOF, and those by coordinates and quaternions."""
    count = table.group.row_count
    for element in range(outputs.shape[1]):
        rows, by_each = _rows_of(table, element), outputs[:, element, count:]
        for dofs, moving in _motions(table, element, S, frames_alone=frames_alone):
            if not len(dofs):
                continue
            derivatives = by_each[:, : count * moving.shape[-1]].reshape(len(S), count, moving.shape[-1], 1)
            total = derivatives[:, :, 0] * moving[:, None, :, 0]
            for k in range(1, moving.shape[-1]):  # in this order, for any number of problems
                total += derivatives[:, :, k] * moving[:, None, :, k]
            start = 0
            for run in np.split(dofs, np.flatnonzero(np.diff(dofs) != 1) + 1):  # slices: far faster than an index array
                stop = start + len(run)
                jacobian[:, rows, run[0] : run[0] + len(run)] += total[:, :, start:stop]
                start = stop
            by_each = by_each[:, count * moving.shape[-1] :]


def _motions(
    table: ElementTable, element: int, S: Float64Array, *, frames_alone: bool
) -> list[tuple[NDArray[np.intp], Float64Array]]:
    """Give, in the order of `StatedRows.outputs`, the moving DOFs and their motions, [n or 1, DOFs, 6, 1 or 3]."""
    integers, group = table.integers[element], table.group
    sides, found = list[tuple[NDArray[np.intp], Float64Array]](), []
    for k in range(len(group.frames)):
        column = frame_column(k)
        dofs = table.moving_dofs[integers[column + 1] : integers[column + 2]].astype(np.intp)
        sides.append((dofs, S[:, dofs]))
    if state_rows(group).has_opposite_frames:
        (dofs, moving), (others, opposite) = sides
        sides = [(np.concatenate([dofs, others]), np.concatenate([moving, -opposite], axis=1))]
    found += sides
    if frames_alone:
        return found
    for k in range(len(group.coordinates)):
        found.append((integers[coordinate_column(group, k) + 1 :][:1].astype(np.intp), np.ones((1, 1, 1))))
    for k in range(len(group.quaternions)):
        first = int(integers[quaternion_column(group, k) + 1])
        found.append((np.arange(first, first + 3), np.eye(3)[np.newaxis]))
    return found

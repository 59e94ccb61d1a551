"""Rows of objectives in float64 on the host, with their derivatives by the DOFs.

    statement of a row group -> symbols, derived once -> values at the frames and data of each element -> rows, Jacobian

The kernels are made from the same statements; nothing else is shared with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.kinematics.host_tangent import BodyMotion
from ik_service.mechanism.transforms import Float64Array, transform_multiply
from objectives.expression import Expression, evaluate, reachable
from objectives.expression.element_table import ElementTable
from objectives.expression.kernels import coordinate_column, data_column, frame_column, quaternion_column
from objectives.expression.operation import COMPARISONS, FUNCTIONS, Operation
from objectives.expression.rows import ROW_WEIGHTS, WEIGHT, StatedRows, state_rows

Data = Mapping[str, Float64Array]
"""Numbers of an objective's fields by name, shape [1 or n, columns]."""
PIECES = COMPARISONS | {Operation.STEP, Operation.SIGN, Operation.MAXIMUM, Operation.MINIMUM}
"""Operations that choose between pieces."""


class RowValues(NamedTuple):
    """Rows in many configurations."""

    rows: Float64Array  # weighted rows, shape [n, rows]
    jacobian: Float64Array  # their derivatives by the DOFs, shape [n, rows, DOFs]


@dataclass(frozen=True, eq=False)
class HostBlock:
    """The rows of one objective."""

    tables: tuple[ElementTable, ...]  # its elements, by row group
    size: int  # number of rows
    weight: float  # factor of all rows

    @property
    def has_kinks(self) -> bool:
        """Return whether the rows are piecewise."""
        outputs = (one for table in self.tables for one in _outputs(state_rows(table.group)))
        return any(node.operation in PIECES for node in reachable(outputs))

    def values(self, motion: BodyMotion, data: Data, pieces_of: int | None = None) -> RowValues:
        """Evaluate the rows, with their derivatives by all DOFs."""
        # `pieces_of` configurations come first, then others in the same order again and again: piecewise rows
        # are all evaluated on the piece of the first. None for their own pieces.
        n, dofs = motion.S.shape[:2]
        rows, jacobian = np.zeros((n, self.size)), np.zeros((n, self.size, dofs))
        for table in self.tables:
            self._add(table, motion, data, rows, jacobian, pieces_of)
        return RowValues(rows, jacobian)

    def _add(
        self,
        table: ElementTable,
        motion: BodyMotion,
        data: Data,
        rows: Float64Array,
        jacobian: Float64Array,
        pieces_of: int | None,
    ) -> None:
        """Add the rows of all elements of a table, evaluated side by side."""
        group, stated, shape = table.group, state_rows(table.group), (len(rows), len(table.integers))
        inputs = {WEIGHT: np.asarray(self.weight), **_inputs(table, stated, motion, data)}
        outputs = _outputs(stated)
        values = evaluate(outputs, inputs) if pieces_of is None else _on_pieces(outputs, inputs, len(rows), pieces_of)
        found = np.stack([np.broadcast_to(value, shape) for value in values], axis=-1)
        for element in range(shape[1]):
            first = int(table.integers[element, 0])
            own = slice(first, first + group.row_count)
            rows[:, own] += found[:, element, : group.row_count]
            by_each = found[:, element, group.row_count :]
            for dofs, moving in _motions(table, element, stated, motion):
                width = group.row_count * moving.shape[-1]
                derivatives = by_each[:, :width].reshape(len(rows), group.row_count, -1)
                parts = (derivatives[:, :, k, None] * moving[:, None, :, k] for k in range(moving.shape[-1]))
                jacobian[:, own, dofs] += sum(parts, 0.0)  # in this order, for any number of problems
                by_each = by_each[:, width:]


def _outputs(stated: StatedRows) -> list[Expression]:
    return [*stated.rows, *_derivatives(stated)]


def _on_pieces(
    outputs: Sequence[Expression], inputs: Mapping[str, Float64Array], count: int, first: int
) -> list[Float64Array]:
    """Evaluate expressions, with the pieces chosen by the first configurations used for later ones, too."""
    found = dict[Expression, Float64Array]()

    def chosen(choice: Float64Array) -> Float64Array:
        if np.ndim(choice) and len(choice) == count:
            return np.tile(choice[:first], (count // first, *[1] * (choice.ndim - 1)))
        return choice

    for node in reachable(outputs):
        operands = [found[operand] for operand in node.operands]
        if node.operation is Operation.VARIABLE:
            found[node] = np.asarray(inputs[node.name], np.float64)
        elif node.operation is Operation.CONSTANT:
            found[node] = np.asarray(node.value, np.float64)
        elif node.operation in (Operation.MAXIMUM, Operation.MINIMUM):
            picked = operands if node.operation is Operation.MAXIMUM else operands[::-1]
            found[node] = np.where(chosen(np.asarray(picked[0] > picked[1])), *operands)
        else:
            with np.errstate(all="ignore"):
                value = FUNCTIONS[node.operation](*operands)
            found[node] = chosen(value) if node.operation in PIECES else value
    return [found[output] for output in outputs]


def _inputs(table: ElementTable, stated: StatedRows, motion: BodyMotion, data: Data) -> dict[str, Float64Array]:
    """Return the values of all variables, shape [n, elements] or broadcastable to this shape."""
    group, integers, joint_q = table.group, table.integers, motion.joint_q
    given: dict[str, Float64Array] = {}
    for k, names in enumerate(stated.frame_names):
        poses = np.stack([_frame(table, element, k, motion, data) for element in range(len(integers))], axis=1)
        given |= {name: poses[:, :, c] for c, name in enumerate(names)}
    for k, name in enumerate(stated.coordinate_names):
        given[name] = joint_q[:, integers[:, coordinate_column(group, k)]]
    for k, names in enumerate(stated.quaternion_names):
        first = integers[:, quaternion_column(group, k)]
        given |= {name: joint_q[:, first + c] for c, name in enumerate(names)}
    given |= {name: table.constants[:, c] for c, name in enumerate(stated.constant_names)}
    for k, (field, names) in enumerate(zip((*dict(group.data), ROW_WEIGHTS), stated.data_names, strict=True)):
        first = integers[:, data_column(group, k)]
        given |= {name: data[field][:, first + c] for c, name in enumerate(names)}
    return given


def _frame(table: ElementTable, element: int, k: int, motion: BodyMotion, data: Data) -> Float64Array:
    """Return the pose of frame k of an element in the world, shape [n, 7]."""
    body = int(table.integers[element, frame_column(k)])
    pose = np.broadcast_to(table.frame_offsets[element, k], (len(motion.joint_q), 7))
    if body >= 0:
        pose = transform_multiply(motion.T_world_body[:, body], pose)
    offsets = dict(table.group.offsets)
    name = table.group.frames[k]
    if name in offsets:
        pose = transform_multiply(pose, np.broadcast_to(data[offsets[name]], pose.shape))
    return pose


def _derivatives(stated: StatedRows) -> list[Expression]:
    """Return the derivatives of all rows: by frames, then coordinates, then quaternions; row after row in each."""
    by_frames = [part for frame in stated.frame_derivatives for row in frame for part in row]
    by_coordinates = [part for coordinate in stated.coordinate_derivatives for part in coordinate]
    by_quaternions = [part for own in stated.quaternion_derivatives for row in own for part in row]
    return [*by_frames, *by_coordinates, *by_quaternions]


def _motions(
    table: ElementTable, element: int, stated: StatedRows, motion: BodyMotion
) -> list[tuple[NDArray[np.intp], Float64Array]]:
    """Return, in the order of `_derivatives`, the moving DOFs and their motions: [n, DOFs, 6, 1 or 3]."""
    integers, group, n = table.integers[element], table.group, len(motion.joint_q)
    found = []
    for k in range(len(stated.frame_derivatives)):
        column = frame_column(k)
        dofs = table.moving_dofs[integers[column + 1] : integers[column + 2]].astype(np.intp)
        found.append((dofs, motion.S[:, dofs]))
    for k in range(len(stated.coordinate_derivatives)):
        found.append((integers[coordinate_column(group, k) + 1 :][:1].astype(np.intp), np.ones((n, 1, 1))))
    for k in range(len(stated.quaternion_derivatives)):
        first = int(integers[quaternion_column(group, k) + 1])
        found.append((np.arange(first, first + 3), np.broadcast_to(np.eye(3), (n, 3, 3))))
    return found

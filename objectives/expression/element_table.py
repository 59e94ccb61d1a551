"""Tables of the elements of a row group on one robot, packed for the kernels.

Host work, once per robot. The table lists the DOFs that move each frame, so a kernel visits no other DOFs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from objectives.expression.kernels import (
    coordinate_column,
    data_column,
    frame_column,
    jacobian_kernel,
    quaternion_column,
    residual_kernel,
)
from objectives.expression.rows import RowGroup, StatedRows, state_rows
from objectives.model import IDENTITY, BodyFrame, BoolArray, FloatArray, IKModel, RobotIndices

IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Element:
    """One application of a row group: values of the group's names, in the order of the group.

    Attributes:
        frames: Links by name; body indices, for the bodies' own frames; or frames fixed to bodies.
        coordinate_dofs: DOFs of the scalar coordinates.
        quaternion_joints: Ball or floating joints of the quaternions.
        data_columns: First column of the element's numbers in each data field.
        constants: Numbers of the robot, one per name.
        row: First row within the objective, for all elements or for none; None: after the rows of the last element.
    """

    frames: tuple[str | int | BodyFrame, ...] = ()
    coordinate_dofs: tuple[int, ...] = ()
    quaternion_joints: tuple[int, ...] = ()
    data_columns: tuple[int, ...] = ()
    constants: tuple[float, ...] = ()
    row: int | None = None


@dataclass(frozen=True)
class ElementTable:
    """The elements of one group on one robot."""

    group: RowGroup
    # row, bodies, ranges of moving DOFs, coordinates, DOFs and data columns, [element_count, columns]
    integers: IntArray
    # T_body_link (static link: T_world_link) of each frame, [element_count, frame_count or 1, 7]
    frame_offsets: FloatArray
    constants: FloatArray  # numbers of the robot, shape [element_count, constant_count]
    moving_dofs: IntArray  # DOFs that move the frames, list after list
    row_support: BoolArray  # sparsity of the Jacobian, shape [element_count * row_count, joint_dof_count]


def build_element_table(group: RowGroup, elements: Sequence[Element], first_row: int, model: IKModel) -> ElementTable:
    """Pack the elements of a group, at least one, for a robot, starting at a row of the objective.

    UnknownNameError for an unknown link, InputError for a body index out of range.
    """
    robot, stated = RobotIndices(model), state_rows(group)
    frame_count, width = len(group.frames), data_column(group, len(group.data)) + 1
    integers = np.zeros((len(elements), width), dtype=np.int32)
    offsets = np.tile(IDENTITY, (len(elements), max(frame_count, 1), 1))
    support = np.zeros((len(elements), group.row_count, model.joint_dof_count), dtype=bool)
    lists: list[npt.NDArray[np.intp]] = []
    listed = 0
    for e, element in enumerate(elements):
        row = first_row + group.first_row(e) if element.row is None else element.row
        integers[e, 0] = row
        bodies = []
        for k, link in enumerate(element.frames):
            body, offsets[e, k] = robot.frame(link)
            bodies.append(body)
        for k, moving in enumerate(_moving_dofs(robot, stated, bodies)):
            found = np.flatnonzero(moving)
            integers[e, frame_column(k) : frame_column(k) + 3] = bodies[k], listed, listed + len(found)
            lists.append(found)
            listed += len(found)
            support[e] |= _frame_support(robot, stated, k, moving)
        _pack_coordinates(robot, group, element, integers[e], support[e])
        first = data_column(group, 0)
        integers[e, first:] = (*element.data_columns, row)
    moving_dofs = np.concatenate([*lists, np.zeros(0, dtype=np.intp)]).astype(np.int32)
    constants = np.array([element.constants for element in elements], dtype=np.float64)
    return ElementTable(group, integers, offsets, constants, moving_dofs, support.reshape(-1, model.joint_dof_count))


def _moving_dofs(robot: RobotIndices, stated: StatedRows, bodies: Sequence[int]) -> list[BoolArray]:
    """Give masks of the DOFs that move each frame, without DOFs of a common motion that changes no row."""
    moving = [robot.moves(body) for body in bodies]
    if stated.common_motion_cancels:
        common = np.logical_and.reduce(moving)
        moving = [mask & ~common for mask in moving]
    return moving


def _frame_support(robot: RobotIndices, stated: StatedRows, frame: int, moving: BoolArray) -> BoolArray:
    """Give the sparsity, [row_count, joint_dof_count]: rows of orientations do not depend on translational DOFs."""
    angular = moving & ~robot.linear_dofs()
    rows = []
    for derivative in stated.frame_derivatives[frame]:
        by_velocity = any(not part.is_zero for part in derivative[:3])
        by_turn = any(not part.is_zero for part in derivative[3:])
        rows.append(moving if by_velocity else angular & by_turn)
    return np.array(rows)


def _pack_coordinates(
    robot: RobotIndices, group: RowGroup, element: Element, integers: IntArray, support: BoolArray
) -> None:
    stated = state_rows(group)
    for k, dof in enumerate(element.coordinate_dofs):
        column = coordinate_column(group, k)
        integers[column : column + 2] = robot.dof_coordinate[dof], dof
        support[:, dof] |= [not part.is_zero for part in stated.coordinate_derivatives[k]]
    for k, joint in enumerate(element.quaternion_joints):
        column, dof = quaternion_column(group, k), robot.first_angular_dof(joint)
        integers[column : column + 2] = robot.first_quaternion_coordinate(joint), dof
        for r, derivative in enumerate(stated.quaternion_derivatives[k]):
            support[r, dof : dof + 3] |= [not part.is_zero for part in derivative]


class ElementBlock:
    """An `ElementTable` as arrays on a device."""

    def __init__(self, table: ElementTable, device: Any) -> None:
        self.table, offsets = table, table.frame_offsets.astype(np.float32)
        self.integers: wp.array[wp.int32] = wp.array(table.integers, dtype=wp.int32, device=device)
        self.frame_offsets: wp.array[wp.transformf] = wp.array(offsets, dtype=wp.transformf, device=device)
        self.constants: wp.array[wp.float32] = wp.array(table.constants, dtype=wp.float32, device=device)
        self.moving_dofs: wp.array[wp.int32] = wp.array(table.moving_dofs, dtype=wp.int32, device=device)

    @property
    def threads(self) -> int:
        """Threads per instance."""
        return 1 if self.table.group.summed else int(self.integers.shape[0])

    def load_kernels(self, *, with_jacobian: bool) -> None:
        """Compile and load the kernels of the group on the device."""
        device = self.integers.device
        wp.load_module(residual_kernel(self.table.group).module, device=device)
        if with_jacobian:
            wp.load_module(jacobian_kernel(self.table.group).module, device=device)

    def launch(self, kernel: wp.Kernel, inputs: list[Any], output: wp.array[wp.float32]) -> None:
        """Launch a kernel of the group; the first input is `body_q`, with a line per instance."""
        body_q = inputs[0]
        wp.launch(kernel, dim=(body_q.shape[0], self.threads), inputs=inputs, outputs=[output], device=body_q.device)

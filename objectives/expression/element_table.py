"""Tables of the elements of a row group on one robot, packed for the kernels.

Host work, done once per robot: it finds the DOFs that move each frame, so that a kernel visits those and no others.
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
from objectives.model import BoolArray, FloatArray, IKModel
from objectives.robot_indices import IDENTITY, BodyFrame, RobotIndices

IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Element:
    """One application of a row group: what stands for each of its names, in the order of the group."""

    frames: tuple[str | int | BodyFrame, ...] = ()
    """Links by name; an int is a body index and means that body's own frame; or a frame that stands on a body."""

    coordinate_dofs: tuple[int, ...] = ()
    """DOFs whose coordinates are read."""

    quaternion_joints: tuple[int, ...] = ()
    """Ball or floating joints whose quaternions are read."""

    data_columns: tuple[int, ...] = ()
    """First column of the element's numbers in each data field."""

    constants: tuple[float, ...] = ()
    """Numbers of the robot, one for each name."""

    row: int | None = None
    """First row within the objective; None: after those of the element before. All elements say it, or none."""


@dataclass(frozen=True)
class ElementTable:
    """The elements of one group on one robot."""

    group: RowGroup
    integers: IntArray
    """Row, bodies, ranges of moving DOFs, coordinates, DOFs and data columns, shape [element_count, columns]."""

    frame_offsets: FloatArray
    """T_body_link (T_world_link for a static link) of each frame, shape [element_count, frame_count or 1, 7]."""

    constants: FloatArray
    """Numbers of the robot that each element brings, shape [element_count, constant_count]."""

    moving_dofs: IntArray
    """DOFs that move the frames, one list after the other."""

    row_support: BoolArray
    """DOFs on which each row can depend, shape [element_count * row_count, joint_dof_count]."""


def build_element_table(group: RowGroup, elements: Sequence[Element], first_row: int, model: IKModel) -> ElementTable:
    """Pack the elements of a group, at least one, for a robot, from a row of their objective on.

    Raises:
        UnknownNameError: An element names a link that the robot does not have.
        InputError: A body index is out of range.
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
    """DOFs that move each frame; those that move all frames alike are left out where that changes no row."""
    moving = [robot.moves(body) for body in bodies]
    if stated.common_motion_cancels:
        common = np.logical_and.reduce(moving)
        moving = [mask & ~common for mask in moving]
    return moving


def _frame_support(robot: RobotIndices, stated: StatedRows, frame: int, moving: BoolArray) -> BoolArray:
    """Rows by DOFs, shape [row_count, joint_dof_count]: a row that only sees a frame turn ignores the linear DOFs."""
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


@dataclass(frozen=True)
class ElementBlock:
    """The elements of one group, as arrays that its kernels read; see `ElementTable`."""

    table: ElementTable
    integers: wp.array[wp.int32]
    frame_offsets: wp.array[wp.transformf]
    constants: wp.array[wp.float32]
    moving_dofs: wp.array[wp.int32]

    @classmethod
    def on_device(cls, table: ElementTable, device: Any) -> "ElementBlock":
        """Copy a table to a device."""
        return cls(
            table,
            wp.array(table.integers, dtype=wp.int32, device=device),
            wp.array(table.frame_offsets.astype(np.float32), dtype=wp.transformf, device=device),
            wp.array(table.constants, dtype=wp.float32, device=device),
            wp.array(table.moving_dofs, dtype=wp.int32, device=device),
        )

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
        """Write what a kernel of the group gives; the first of the inputs has a line for each instance."""
        body_q = inputs[0]
        wp.launch(kernel, dim=(body_q.shape[0], self.threads), inputs=inputs, outputs=[output], device=body_q.device)

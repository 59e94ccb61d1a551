"""Columns of a caller's joint arrays, in an order of joints of the caller's own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.robots.kinematic_robot import KinematicRobot
from objectives.errors import InputError


class CallerOrder:
    """Where a caller's columns stand among the robot's.

    Args:
        robot: The robot.
        joint_order: Names of joints; None is the robot's own order. Locked joints and those that follow others may be
            left out.

    Attributes:
        coordinates: Coordinate of the robot in each of the caller's columns of joint_q; all of them in the robot's own
            order.
        dofs: DOF of the robot in each of the caller's columns of joint_qd, alike.
        joint_names: Names of the caller's joints.
        coordinate_names: Names of the caller's columns of joint_q.
        dof_names: Names of the caller's columns of joint_qd.
        is_own: Whether the order is the robot's own.

    Raises:
        UnknownNameError: The robot has no joint of a name.
        InputError: A joint is named twice, or one that can move is missing.
    """

    def __init__(self, robot: KinematicRobot, joint_order: Sequence[str] | None) -> None:
        if isinstance(joint_order, str):
            raise InputError(f"joint_order is {joint_order!r}. Allowed: a list of names of joints.")
        names = robot.joint_names if joint_order is None else tuple(joint_order)
        joints = [robot.joint_index(name) for name in names]
        if len(set(joints)) < len(joints):
            raise InputError(f"joint_order names a joint twice: {', '.join(names)}.")
        movable = {int(np.searchsorted(robot.joint_qd_start, dof, side="right")) - 1 for dof in robot.active_dof}
        missing = [robot.joint_names[joint] for joint in sorted(movable - set(joints))]
        if missing:
            raise InputError(
                f"joint_order lacks {', '.join(missing)}. Allowed: all joints that can move; or lock them."
            )
        self.joint_names = names
        self.coordinates = _columns(robot.joint_q_start, joints)
        self.dofs = _columns(robot.joint_qd_start, joints)
        self.coordinate_names = tuple(robot.coordinate_names[c] for c in self.coordinates)
        self.dof_names = tuple(robot.dof_names[dof] for dof in self.dofs)
        self.is_own = list(self.coordinates) == list(range(robot.joint_coord_count))

    def coordinates_of(self, joint_q: NDArray[Any]) -> NDArray[Any]:
        """Return the caller's columns of arrays [..., joint_coord_count]: the array itself in the robot's own order."""
        return joint_q if self.is_own else joint_q[..., self.coordinates]

    def dofs_of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the caller's columns of arrays [..., joint_dof_count] alike."""
        return values if self.is_own else values[..., self.dofs]


def _columns(start: NDArray[Any], joints: Sequence[int]) -> NDArray[np.intp]:
    return np.array([column for joint in joints for column in range(start[joint], start[joint + 1])], dtype=np.intp)

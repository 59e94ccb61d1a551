"""Columns of joint arrays in the caller's order of joints."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError


class CallerOrder:
    """Map from the caller's columns to the robot's coordinates and DOFs.

    `joint_order` has names of joints, None for the robot's order; locked joints and mimic joints may be left out.
    UnknownNameError for an unknown joint, InputError for a joint named twice, or missing though it can move.
    """

    def __init__(self, robot: KinematicRobot, joint_order: Sequence[str] | None) -> None:
        if isinstance(joint_order, str):
            raise InputError(f"joint_order is {joint_order!r}. Allowed: a list of names of joints.")
        names = robot.joint_names if joint_order is None else tuple(joint_order)
        joints = [robot.joint_index(name) for name in names]
        if len(set(joints)) < len(joints):
            raise InputError(f"joint_order names a joint twice: {', '.join(names)}.")
        movable = set(robot.dof_joint[robot.active_dof].tolist())
        missing = [robot.joint_names[joint] for joint in sorted(movable - set(joints))]
        if missing:
            raise InputError(
                f"joint_order lacks {', '.join(missing)}. Allowed: all joints that can move; or lock them."
            )
        self.joint_names = names  # names of the caller's joints
        # coordinate of the robot for each column of the caller's joint_q
        self.coordinates = _columns(robot.joint_q_start, joints)
        self.dofs = _columns(robot.joint_qd_start, joints)  # DOF of the robot for each column of the caller's joint_qd
        # names of the caller's columns of joint_q
        self.coordinate_names = tuple(robot.coordinate_names[c] for c in self.coordinates)
        self.dof_names = tuple(robot.dof_names[dof] for dof in self.dofs)  # names of the caller's columns of joint_qd
        # whether the order is the robot's own
        self.is_own = list(self.coordinates) == list(range(robot.joint_coord_count))
        scalar = {int(c): int(dof) for dof, c in enumerate(robot.dof_coordinate) if c >= 0}
        dof_at = {int(dof): column for column, dof in enumerate(self.dofs)}
        columns = [(k, dof_at[scalar[c]]) for k, c in enumerate(self.coordinates.tolist()) if c in scalar]
        self._scalar = np.array(columns, np.intp).reshape(-1, 2).T
        starts = {first: int(robot.joint_qd_start[joint + 1]) - 3 for joint, first in robot.quaternion_starts.items()}
        self._quaternions = [(k, dof_at[starts[c]]) for k, c in enumerate(self.coordinates.tolist()) if c in starts]

    def coordinates_of(self, joint_q: NDArray[Any]) -> NDArray[Any]:
        """Pick the caller's columns of an array [..., joint_coord_count]; no copy if the order is the robot's own."""
        return joint_q if self.is_own else joint_q[..., self.coordinates]

    def dofs_of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Pick the caller's columns of an array [..., joint_dof_count]; no copy if the order is the robot's own."""
        return values if self.is_own else values[..., self.dofs]

    def coordinate_rates(self, joint_q: Float64Array, dof_rates: Float64Array) -> Float64Array:
        """Turn rates of the caller's DOFs [n, DOFs, ...] into rates of columns of joint_q [n, coordinates, ...]."""
        found = np.zeros((len(joint_q), len(self.coordinates), *dof_rates.shape[2:]))
        coordinate, dof = self._scalar
        found[:, coordinate] = dof_rates[:, dof]
        for first, turn in self._quaternions:  # half of (w, 0) q
            x, y, z, w = (joint_q[:, first + k].reshape(-1, *[1] * (dof_rates.ndim - 2)) for k in range(4))
            a, b, c = (0.5 * dof_rates[:, turn + k] for k in range(3))
            parts = a * w + b * z - c * y, b * w + c * x - a * z, c * w + a * y - b * x, -a * x - b * y - c * z
            found[:, first : first + 4] = np.stack(parts, axis=1)
        return found


def _columns(start: NDArray[Any], joints: Sequence[int]) -> NDArray[np.intp]:
    return np.array([column for joint in joints for column in range(start[joint], start[joint + 1])], dtype=np.intp)

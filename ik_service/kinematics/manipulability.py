"""Yoshikawa's manipulability of a frame in float64 on the host, for many configurations at once.

Arrays have components first, as in `host_poses`: a Jacobian is [rows, DOFs, n].
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ik_service.kinematics.host_poses import BodyPose, blocks_of, poses_of_bodies, rotated, shifted, world_pose
from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from ik_service.mechanism.trees import joints_to
from objectives.errors import InputError

Motion = Literal["pose", "position", "orientation"]
ROWS: Mapping[str, slice] = {"pose": slice(0, 6), "position": slice(0, 3), "orientation": slice(3, 6)}


def manipulability(
    robot: KinematicRobot, joint_q: ArrayLike, link: str, motion: Motion = "pose", offset: ArrayLike | None = None
) -> Float64Array:
    """Give sqrt(det(J J^T)) of a frame, shape [n]; see ``RobotModel.manipulability``."""
    if motion not in ROWS:
        raise InputError(f"motion is {motion!r}. Allowed: {', '.join(ROWS)}.")
    configurations = checked_joint_q(robot, joint_q)
    n, (body, T_body_link) = len(configurations), robot.link_frame(link)
    point = T_body_link[:3] + quaternion_rotate(T_body_link[3:], _tool_positions(offset, n))
    way, start = joints_to(robot, body), robot.joint_qd_start
    moving = [joint for joint in way if (robot.dof_active[start[joint] : start[joint + 1]] >= 0).any()]
    found = np.full(n, np.nan)
    if not moving:
        return found
    between = [joint for joint in way if joint > moving[0]]
    length = float(np.linalg.norm(robot.joint_X_p[between, :3], axis=1).sum() + np.linalg.norm(T_body_link[:3]))
    for block in blocks_of(n):
        poses = poses_of_bodies(robot, configurations[block], way)
        tool = shifted(poses[body], point[0] if len(point) == 1 else point[block].T)
        found[block] = _volume(_jacobian(robot, poses, moving, tool, length or 1.0)[ROWS[motion]])
    return found


def _tool_positions(offset: ArrayLike | None, n: int) -> Float64Array:
    """Check tool frames and give their positions [m], shape [1 or n, 3]."""
    if offset is None:
        return np.zeros((1, 3))
    tool = np.atleast_2d(np.asarray(offset, np.float64))
    if tool.shape not in ((1, 7), (n, 7)) or not np.isfinite(tool).all():
        raise InputError(f"offset has shape {list(np.shape(offset))}. Allowed: finite numbers, [7] or [{n}, 7].")
    return tool[:, :3]


def _jacobian(
    robot: KinematicRobot, poses: Mapping[int, BodyPose], moving: list[int], tool: Float64Array, length: float
) -> Float64Array:
    """Give the Jacobian of a tool by active DOFs, velocities over a length, shape [6, DOFs, n]."""
    n, columns = tool.shape[1], dict[int, Float64Array]()
    for joint in moving:
        step, first = robot.joint_steps[joint], int(robot.joint_qd_start[joint])
        parent = poses[step.parent] if step.parent >= 0 else world_pose(n)
        x, y, z = tool - poses[joint].position
        for dof, local_axis in enumerate(step.axes, first):
            if robot.dof_active[dof] < 0:
                continue
            axis = rotated(parent.q_xyzw, robot.dof_multiplier[dof] * local_axis)
            column = columns.setdefault(int(robot.dof_active[dof]), np.zeros((6, n)))  # shared by followers
            if dof < first + step.joint_type.linear_dof_count:
                column[:3] += axis / length
                continue
            a, b, c = axis
            column[:3] += np.stack([b * z - c * y, c * x - a * z, a * y - b * x]) / length
            column[3:] += axis
    return np.stack([*columns.values()], axis=1)


def _volume(rows: Float64Array) -> Float64Array:
    """Give sqrt(det(J J^T)) of Jacobians [rows, DOFs, n], shape [n], by Gram-Schmidt on the rows.

    J J^T itself would square the numbers and halve the digits.
    """
    volume = np.ones(rows.shape[2])
    if rows.shape[1] < rows.shape[0]:
        return np.zeros_like(volume)
    for k, row in enumerate(rows):
        length = np.sqrt((row * row).sum(axis=0))
        volume *= length
        direction = row / np.where(length > 0.0, length, 1.0)
        for later in range(k + 1, len(rows)):
            rows[later] -= (rows[later] * direction).sum(axis=0) * direction
    return volume

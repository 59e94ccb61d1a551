"""Yoshikawa's manipulability of a frame in float64 on the host, for many configurations at once."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ik_service.kinematics.host_poses import blocks_of, with_ancestors
from ik_service.kinematics.host_tangent import body_motion, moved
from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.coupling import coupling_matrix
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from ik_service.mechanism.trees import joints_to, moving_dofs
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
    found = np.full(n, np.nan)
    if not _moving_joints(robot, body):
        return found
    length = lever_length(robot, link)
    needed, dofs = with_ancestors(robot, [body]), moving_dofs(robot, body)
    to_all = coupling_matrix(robot)[:, np.unique(robot.dof_active[dofs & (robot.dof_active >= 0)])]
    for block in blocks_of(n):
        moving = body_motion(robot, configurations[block], needed)
        T_world_body = moving.T_world_body[:, body]
        tool = point if len(point) == 1 else point[block]
        origin = T_world_body[:, :3] + quaternion_rotate(T_world_body[:, 3:], tool)
        rows = moved(moving.S, origin, dofs) @ to_all
        rows[:, :3] /= length
        found[block] = _volume(rows[:, ROWS[motion]])
    return found


def lever_length(robot: KinematicRobot, link: str) -> float:
    """Give the divisor of velocities of a link [m]: the length from the first moving joint, 1 for 0."""
    body, T_body_link = robot.link_frame(link)
    between = [joint for joint in joints_to(robot, body) if joint > _moving_joints(robot, body)[0]]
    length = np.linalg.norm(robot.joint_X_p[between, :3], axis=1).sum() + np.linalg.norm(T_body_link[:3])
    return float(length) or 1.0


def _moving_joints(robot: KinematicRobot, body: int) -> list[int]:
    start, way = robot.joint_qd_start, joints_to(robot, body)
    return [joint for joint in way if (robot.dof_active[start[joint] : start[joint + 1]] >= 0).any()]


def _tool_positions(offset: ArrayLike | None, n: int) -> Float64Array:
    """Check tool frames and give their positions [m], shape [1 or n, 3]."""
    if offset is None:
        return np.zeros((1, 3))
    tool = np.atleast_2d(np.asarray(offset, np.float64))
    if tool.shape not in ((1, 7), (n, 7)) or not np.isfinite(tool).all():
        raise InputError(f"offset has shape {list(np.shape(offset))}. Allowed: finite numbers, [7] or [{n}, 7].")
    return tool[:, :3]


def _volume(rows: Float64Array) -> Float64Array:
    """Give sqrt(det(J J^T)) of Jacobians [n, rows, DOFs], shape [n]; J J^T itself would halve the digits."""
    if rows.shape[2] < rows.shape[1]:
        return np.zeros(len(rows))
    sizes = np.asarray(np.linalg.qr(rows.swapaxes(1, 2), mode="r")).diagonal(axis1=1, axis2=2)
    return np.asarray(np.abs(sizes).prod(axis=1), np.float64)

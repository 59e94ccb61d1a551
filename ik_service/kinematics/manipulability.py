"""Yoshikawa's manipulability of a frame in float64 on the host, for many configurations at once.

Arrays have components first, as in `host_poses`: a Jacobian is [rows, DOFs, n].
"""

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
    way, start = joints_to(robot, body), robot.joint_qd_start
    first = [joint for joint in way if (robot.dof_active[start[joint] : start[joint + 1]] >= 0).any()][:1]
    found = np.full(n, np.nan)
    if not first:
        return found
    between = [joint for joint in way if joint > first[0]]
    length = float(np.linalg.norm(robot.joint_X_p[between, :3], axis=1).sum() + np.linalg.norm(T_body_link[:3]))
    needed, dofs = with_ancestors(robot, [body]), moving_dofs(robot, body)
    to_all = coupling_matrix(robot)[:, np.unique(robot.dof_active[dofs & (robot.dof_active >= 0)])]
    for block in blocks_of(n):
        moving = body_motion(robot, configurations[block], needed)
        tool = point if len(point) == 1 else point[block]
        origin = moving.T_world_body[:, body, :3] + quaternion_rotate(moving.T_world_body[:, body, 3:], tool)
        rows = np.ascontiguousarray((moved(moving.S, origin, dofs) @ to_all).transpose(1, 2, 0))
        rows[:3] /= length or 1.0
        found[block] = _volume(rows[ROWS[motion]])
    return found


def _tool_positions(offset: ArrayLike | None, n: int) -> Float64Array:
    """Check tool frames and give their positions [m], shape [1 or n, 3]."""
    if offset is None:
        return np.zeros((1, 3))
    tool = np.atleast_2d(np.asarray(offset, np.float64))
    if tool.shape not in ((1, 7), (n, 7)) or not np.isfinite(tool).all():
        raise InputError(f"offset has shape {list(np.shape(offset))}. Allowed: finite numbers, [7] or [{n}, 7].")
    return tool[:, :3]


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

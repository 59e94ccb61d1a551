"""Kinematic trees over the active DOFs: bodies that no active DOF moves are static and connect nothing."""

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel


def active_trees(robot: RobotModel) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the tree of every active DOF and of every body.

    A body belongs to the tree of the nearest active DOF above it; DOFs on one path, of one joint, or moved together by
    a mimic coupling are in one tree. Trees are numbered by their first active DOF.

    Args:
        robot: The robot.

    Returns:
        Tree of every active DOF, shape [active_dof_count], and of every body, shape [body_count], -1 if it is static.
    """
    parent = np.arange(robot.active_dof_count)

    def find(a: int) -> int:
        while parent[a] != a:
            a = int(parent[a])
        return a

    nearest = np.full(robot.body_count, -1, dtype=np.int64)  # some active DOF at or above each body
    for joint in range(robot.joint_count):
        body = int(robot.joint_parent[joint])
        above = int(nearest[body]) if body >= 0 else -1
        dofs = robot.dof_active[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]]
        for a in [int(a) for a in dofs if a >= 0]:
            if above >= 0:
                low, high = sorted((find(a), find(above)))
                parent[high] = low
            above = a
        nearest[joint] = above
    roots = np.array([find(a) for a in range(robot.active_dof_count)], dtype=np.int64)
    dof_tree = np.unique(roots, return_inverse=True)[1].astype(np.int32).reshape(-1)
    if not dof_tree.size:
        return dof_tree, np.full(robot.body_count, -1, dtype=np.int32)
    return dof_tree, np.where(nearest >= 0, dof_tree[nearest], -1).astype(np.int32)

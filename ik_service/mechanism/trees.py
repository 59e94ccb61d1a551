"""Kinematic trees over the active DOFs of a robot.

A body belongs to the tree of the nearest active DOF above it; bodies that no active DOF moves are static and belong to
none, so the world, a base and a locked torso connect nothing. DOFs on one path, of one joint, or moved together by a
mimic coupling are in one tree. Field names are those of MuJoCo.
"""

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.arrays import Int32Array
from ik_service.mechanism.kinematic_robot import KinematicRobot, KinematicTrees


def kinematic_trees(robot: KinematicRobot) -> KinematicTrees:
    """Give the trees of a robot."""
    representative, nearest = _joined(robot)
    active_treeid = np.unique(representative, return_inverse=True)[1].astype(np.int32).reshape(-1)
    ntree = int(active_treeid.max()) + 1 if active_treeid.size else 0
    tree_dof = np.argsort(active_treeid, kind="stable").astype(np.int32)
    tree_dofnum = np.bincount(active_treeid, minlength=ntree).astype(np.int32)
    coordinate_treeid = np.full(robot.joint_coord_count, -1, dtype=np.int32)
    for joint in range(robot.joint_count):
        first = robot.dof_active[robot.joint_qd_start[joint]]
        if first >= 0:
            own = slice(robot.joint_q_start[joint], robot.joint_q_start[joint + 1])
            coordinate_treeid[own] = active_treeid[first]
    return KinematicTrees(
        ntree=ntree,
        tree_dofadr=(np.cumsum(tree_dofnum) - tree_dofnum).astype(np.int32),
        tree_dofnum=tree_dofnum,
        tree_dof=tree_dof,
        dof_place=np.argsort(tree_dof).astype(np.int32),
        active_treeid=active_treeid,
        dof_treeid=_looked_up(active_treeid, robot.dof_active),
        body_treeid=_looked_up(active_treeid, nearest),
        coordinate_treeid=coordinate_treeid,
    )


def _looked_up(values: Int32Array, index: NDArray[np.int32]) -> Int32Array:
    """Values by index, -1 where the index is negative."""
    padded = np.append(values, np.int32(-1))
    return np.asarray(padded[np.where(index >= 0, index, len(values))], dtype=np.int32)


def _joined(robot: KinematicRobot) -> tuple[Int32Array, Int32Array]:
    """Give the lowest active DOF of each active DOF's tree, and some active DOF at or above each body (-1: none)."""
    parent = np.arange(robot.active_dof_count, dtype=np.int32)

    def find(a: int) -> int:
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = int(parent[a])
        return a

    nearest = np.full(robot.body_count, -1, dtype=np.int32)
    for joint in range(robot.joint_count):
        body = int(robot.joint_parent[joint])
        above = int(nearest[body]) if body >= 0 else -1
        for a in robot.dof_active[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]]:
            if a >= 0:
                if above >= 0:
                    low, high = sorted((find(int(a)), find(above)))
                    parent[high] = low
                above = int(a)
        nearest[joint] = above
    return np.array([find(a) for a in range(len(parent))], dtype=np.int32), nearest

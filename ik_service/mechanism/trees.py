"""Kinematic trees over the active DOFs of a robot.

A body belongs to the tree of the nearest active DOF above the body; static bodies belong to no tree, so the world, a
base and a locked torso connect nothing. DOFs on one path, of one joint, or coupled by mimic joints are in one tree.
Field names follow MuJoCo. Also here: paths of links, links of constraints, reach and unit of length of a robot.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.arrays import Int32Array, RobotArrays
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.kinematic_robot import KinematicRobot, KinematicTrees, host_model
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.model import RobotIndices


def kinematic_trees(robot: KinematicRobot) -> KinematicTrees:
    """Compute the trees of a robot."""
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
    padded = np.append(values, np.int32(-1))
    return np.asarray(padded[np.where(index >= 0, index, len(values))], dtype=np.int32)


def _joined(robot: KinematicRobot) -> tuple[Int32Array, Int32Array]:
    """Give the lowest active DOF of each active DOF's tree, and an active DOF at or above each body (-1: none)."""
    lowest = np.arange(robot.active_dof_count, dtype=np.int32)
    nearest = np.full(robot.body_count, -1, dtype=np.int32)
    for joint in range(robot.joint_count):
        body = int(robot.joint_parent[joint])
        above = int(nearest[body]) if body >= 0 else -1
        for a in robot.dof_active[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]]:
            if a >= 0:
                if above >= 0:
                    low, high = sorted((lowest[a], lowest[above]))
                    lowest[lowest == high] = low
                above = int(a)
        nearest[joint] = above
    return lowest, nearest


def joints_to(robot: KinematicRobot, body: int) -> list[int]:
    """Give the joints from the world to a body, -1 the world; a body has the number of its joint."""
    return RobotIndices(host_model(robot)).way_to(body)


def path_to_root(robot: KinematicRobot, link: int) -> list[int]:
    """Give a link and its ancestors, the root last."""
    path = []
    while link >= 0:
        path.append(link)
        link = int(robot.link_parent[link])
    return path


def path_between(robot: KinematicRobot, first: int, second: int) -> tuple[list[int], int]:
    """Give the path of links from one link to another, both included, and the lowest common ancestor."""
    up, down = path_to_root(robot, first), path_to_root(robot, second)
    common = next(link for link in up if link in down)
    return [*up[: up.index(common)], common, *reversed(down[: down.index(common)])], common


Constraint: TypeAlias = LoopConstraint | VelocityConstraint | CoordinateConstraint


def constraints_of(robot: RobotArrays) -> tuple[Constraint, ...]:
    """Give loops, then velocity constraints, then coordinate constraints."""
    return (*robot.loops, *robot.velocity_constraints, *robot.coordinate_constraints)


def constraint_ends(robot: KinematicRobot, constraint: Constraint) -> tuple[int, int]:
    """Give the links of both frames, the root for the world; of a coordinate constraint the child links of joints."""
    if isinstance(constraint, CoordinateConstraint):
        joint, reference_joint = map(robot.joint_index, constraint.joints)
        return moved_link(robot, joint), moved_link(robot, reference_joint)
    reference = constraint.reference_link
    return robot.link_index(constraint.link), 0 if reference is None else robot.link_index(reference)


def moved_link(robot: RobotArrays, joint: int) -> int:
    """Give the child link of a joint: the first link on the joint's body."""
    return int(np.argmax(robot.link_body == joint))


USUAL_REACH = 64.0  # [m]: robots with a reach from 1 / USUAL_REACH to USUAL_REACH are of usual size


def reach(robot: KinematicRobot) -> float:
    """Give the longest path from the first joint of a chain to a link, summed joint by joint [m].

    Locked joints count; the position of the first joint and travels of prismatic joints do not.
    """
    length = np.zeros(robot.joint_count)
    for joint, parent in enumerate(robot.joint_parent):
        if parent >= 0:
            length[joint] = length[parent] + np.linalg.norm(robot.joint_X_p[joint, :3])
    moving = robot.link_body >= 0
    ways = length[robot.link_body[moving]] + np.linalg.norm(robot.link_X_body[moving, :3], axis=1)
    return float(ways.max(initial=0.0))


def length_unit(robot: KinematicRobot) -> float:
    """Give the robot's unit of length [m]: 1 for usual sizes, else the power of two nearest the reach."""
    size = reach(robot)
    if size == 0.0 or 1.0 / USUAL_REACH <= size <= USUAL_REACH:
        return 1.0
    return math.ldexp(1.0, round(math.log2(size)))


def moving_dofs(robot: KinematicRobot, body: int) -> NDArray[np.bool_]:
    """Give a mask of the DOFs that move a body, shape [joint_dof_count]; none move the world, body -1."""
    return RobotIndices(host_model(robot)).moves(body)

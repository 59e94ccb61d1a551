"""Kinematic trees over the active DOFs."""

import numpy as np

import ik_service
from tests.robots.urdf_text import joint, urdf

LIMIT = (-1, 1, 1)
LIFT = joint("lift", "prismatic", "base", "torso", axis="0 0 1", limit=(0, 0.3, 1))


def arm(side, mimic=()):
    """An arm of three joints, of which the last may follow another joint."""
    names = ("torso", f"{side}1", f"{side}2", f"{side}3")
    return [
        joint(
            f"{side}_j{k}", "revolute", names[k - 1], names[k], axis="0 1 0", limit=LIMIT, mimic=mimic if k == 3 else ()
        )
        for k in (1, 2, 3)
    ]


def load(arms, **arguments):
    return ik_service.load_robot(urdf("arms", "base", LIFT, *arms), **arguments)


def joints_of(robot, tree):
    treeid = robot.trees.dof_treeid
    return {robot.dof_names[d] for d in np.flatnonzero(treeid == tree)}


def interleaved(left, right):
    return [joint for pair in zip(left, right, strict=True) for joint in pair]


def test_a_torso_joins_the_arms_and_a_locked_one_does_not():
    arms = interleaved(arm("l"), arm("r"))
    free = load(arms).trees
    assert (free.ntree, free.tree_dofnum.tolist()) == (1, [7])
    robot = load(arms, locked={"lift": 0.1})
    trees = robot.trees
    assert trees.ntree == 2
    assert joints_of(robot, 0) == {"l_j1", "l_j2", "l_j3"}
    assert joints_of(robot, 1) == {"r_j1", "r_j2", "r_j3"}
    assert trees.dof_treeid[robot.joint_qd_start[robot.joint_index("lift")]] == -1
    assert trees.body_treeid[robot.link_frame("torso")[0]] == -1
    assert trees.body_treeid[robot.link_frame("r3")[0]] == 1


def test_trees_are_contiguous_and_maps_lead_both_ways():
    robot = load(interleaved(arm("l"), arm("r")), locked={"lift": 0.0})
    trees = robot.trees
    for tree, (first, count) in enumerate(zip(trees.tree_dofadr, trees.tree_dofnum, strict=True)):
        members = trees.tree_dof[first : first + count]
        assert (trees.active_treeid[members] == tree).all()
        assert (np.diff(members) == 1).all()
    np.testing.assert_array_equal(trees.tree_dof[trees.dof_place], np.arange(6))


def test_a_lock_in_mid_tree_keeps_the_tree_whole():
    robot = load(arm("l"), locked={"l_j2": 0.2, "lift": 0.0})
    assert robot.trees.ntree == 1
    assert joints_of(robot, 0) == {"l_j1", "l_j3"}


def test_a_mimic_across_trees_joins_them():
    robot = load(arm("l") + arm("r", ("l_j3", 2)), locked={"lift": 0.0})
    assert robot.trees.ntree == 1
    assert joints_of(robot, 0) == {f"{side}_j{k}" for side in "lr" for k in (1, 2, 3)}
    middle = load(arm("l") + arm("m") + arm("r", ("l_j3",)), locked={"lift": 0.0})
    assert (middle.trees.ntree, middle.trees.tree_dofnum.tolist()) == (2, [5, 3])
    assert joints_of(middle, 1) == {"m_j1", "m_j2", "m_j3"}
    np.testing.assert_array_equal(middle.trees.coordinate_treeid[middle.dof_coordinate], middle.trees.dof_treeid)

"""The arrays of a robot: order, names, folded links, hash, immutability; and the readings of odd but sound files."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import JointType, RobotModel, builtin_robot_names, load_robot, load_urdf
from objectives.errors import InputError, UnknownNameError
from tests.robots.urdf_text import joint, urdf

TOLERANCE = 1e-12

TREE = """<?xml version="1.0" encoding="iso-8859-1"?>
<robot name="tree" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <gazebo><plugin name="p"><joint name="a">x</joint></plugin></gazebo>
  <link name="tip"><visual><geometry><mesh filename="package://nowhere/x.dae"/></geometry></visual></link>
  <joint name="b" type="continuous"><parent link="trunk"/><child link="right"/></joint>
  <link name="root"/>
  <transmission name="t"><joint name="a"><hardwareInterface/></joint></transmission>
  <joint name="c" type="prismatic"><parent link="left"/><child link="tip"/><axis xyz="0 3 4"/>
    <limit lower="0" upper="0.5" velocity="0" effort="0"/></joint>
  <joint name="mount" type="fixed"><parent link="root"/><child link="trunk"/><origin xyz="0 0 1" rpy="0 0 0"/></joint>
  <joint name="a" type="revolute"><parent link="trunk"/><child link="left"/><origin xyz="0 2 0"/>
    <limit lower="-1" upper="1" velocity="3" effort="4"/></joint>
  <link name="left"/><link name="right"/><link name="trunk"/><link name="ear"/>
  <joint name="d" type="floating"><parent link="root"/><child link="drone"/></joint><link name="drone"/>
  <joint name="e" type="fixed"><parent link="left"/><child link="ear"/><origin rpy="0 0 1.5707963267948966"/></joint>
</robot>
"""


@pytest.fixture(scope="module")
def tree() -> RobotModel:
    return load_urdf(TREE)


def test_bodies_stand_depth_first_children_in_document_order(tree: RobotModel) -> None:
    assert tree.joint_names == ("b", "a", "c", "d")
    assert tree.link_names == ("root", "trunk", "right", "left", "tip", "ear", "drone")
    assert (tree.joint_parent.tolist(), tree.joint_child.tolist()) == ([-1, -1, 1, -1], [0, 1, 2, 3])
    assert (tree.joint_ancestor.tolist(), tree.joint_articulation.tolist()) == ([-1, -1, 1, -1], [0, 1, 1, 2])
    assert tree.link_parent.tolist() == [-1, 0, 1, 1, 3, 3, 0]
    assert tree.link_body.tolist() == [-1, -1, 0, 1, 2, 1, 3]
    kinds = [JointType.CONTINUOUS, JointType.REVOLUTE, JointType.PRISMATIC, JointType.FLOATING]
    assert tree.joint_type.tolist() == kinds


@pytest.mark.parametrize("name", builtin_robot_names())
def test_parents_come_first_and_subtrees_are_contiguous(name: str) -> None:
    robot = load_robot(name)
    parent = robot.joint_parent
    assert (parent < np.arange(robot.joint_count)).all()
    for body in range(robot.body_count):
        below = [body]
        for other in range(body + 1, robot.body_count):
            if parent[other] in below:
                below.append(other)
        assert below == list(range(body, body + len(below)))
    assert robot.joint_count >= {"four_bar": 3, "five_bar": 4}.get(name, 6)


def test_coordinates_and_dofs_are_counted_apart(tree: RobotModel) -> None:
    assert (tree.joint_q_start.tolist(), tree.joint_qd_start.tolist()) == ([0, 1, 2, 3, 10], [0, 1, 2, 3, 9])
    assert tree.joint_dof_dim.tolist() == [[0, 1], [0, 1], [1, 0], [3, 3]]
    assert tree.dof_coordinate.tolist() == [0, 1, 2, 3, 4, 5, -1, -1, -1]
    assert tree.coordinate_names == ("b", "a", "c", "d/px", "d/py", "d/pz", "d/qx", "d/qy", "d/qz", "d/qw")
    assert tree.dof_names == ("b", "a", "c", "d/vx", "d/vy", "d/vz", "d/wx", "d/wy", "d/wz")
    assert (tree.joint_count, tree.body_count, tree.joint_coord_count, tree.joint_dof_count) == (4, 4, 10, 9)


def test_dofs_tell_what_they_are(tree: RobotModel) -> None:
    assert dataclasses.astuple(tree.dof_at(1)) == ("a", "a", "", -1.0, 1.0, True)
    assert dataclasses.astuple(tree.dof_at(7)) == ("d/wy", "d", "wy", -np.inf, np.inf, True)
    for outside in (-1, 9):
        with pytest.raises(InputError, match=f"DOF {outside} is not in robot 'tree': it has DOFs 0 to 8"):
            tree.dof_at(outside)


def test_limits_are_kept_and_zero_speeds_mean_none(tree: RobotModel) -> None:
    assert tree.joint_limit_lower[:4].tolist() == [-np.inf, -1.0, 0.0, -np.inf]
    assert tree.joint_limit_upper[:4].tolist() == [np.inf, 1.0, 0.5, np.inf]
    assert tree.joint_velocity_limit[:3].tolist() == [np.inf, 3.0, np.inf]
    assert tree.joint_effort_limit[:3].tolist() == [np.inf, 4.0, np.inf]
    assert tree.joint_axis[2].tolist() == [0.0, 0.6, 0.8]
    assert tree.mid_joint_q.tolist() == [0.0, 0.0, 0.25, 0, 0, 0, 0, 0, 0, 1.0]


def test_links_behind_folded_joints_stay_addressable(tree: RobotModel) -> None:
    body, T_world_trunk = tree.link_frame("trunk")
    assert body == -1
    assert T_world_trunk.tolist() == [0, 0, 1, 0, 0, 0, 1]
    body, T_left_ear = tree.link_frame("ear")
    assert body == 1
    assert T_left_ear == pytest.approx([0, 0, 0, 0, 0, np.sqrt(0.5), np.sqrt(0.5)])
    assert tree.joint_X_p[1].tolist() == [0, 2, 1, 0, 0, 0, 1]
    with pytest.raises(UnknownNameError, match=r"Link 'ears' is not in robot 'tree'. Did you mean 'ear'\?.*: root"):
        tree.link_frame("ears")
    with pytest.raises(UnknownNameError, match="Joint 'mount' is not in robot 'tree'"):
        tree.joint_index("mount")


def test_a_floating_base_stands_under_the_root() -> None:
    fixed, floating = load_robot("ur5e"), load_robot("ur5e", floating_base=True)
    assert floating.joint_names == ("floating_base", *fixed.joint_names)
    assert floating.link_names == ("world", *fixed.link_names)
    q = fixed.random_joint_q(np.random.default_rng(0), 3)
    at_rest = np.concatenate([np.tile([1.0, 2.0, 3.0, 0, 0, 0, 1], (3, 1)), q], axis=1)
    ours, theirs = floating.forward_kinematics(at_rest, ["tool0"]), fixed.forward_kinematics(q, ["tool0"])
    assert np.abs(ours.positions - theirs.positions - [1, 2, 3]).max() < TOLERANCE


def test_a_floating_base_takes_another_name_where_its_own_is_taken_and_coordinates_share_none() -> None:
    assert load_urdf(urdf("one", "world"), floating_base=True).link_names == ("world_", "world")
    twice = load_urdf(urdf("two", "a", joint("floating_base", "fixed", "a", "b")), floating_base=True)
    assert twice.joint_names == ("floating_base_",)
    twins = joint("base", "planar", "a", "b") + joint("base/x", "continuous", "b", "c")
    with pytest.raises(RobotFileError, match="joint 'base/x': a joint of several coordinates"):
        load_urdf(urdf("twins", "a", twins))


def test_every_array_is_read_only_also_after_pickling(tree: RobotModel) -> None:
    names = [name for name in dir(tree) if not name.startswith("_")]
    arrays = {name: value for name in names if isinstance(value := getattr(tree, name), np.ndarray)}
    assert len(arrays) > 24
    for name, array in arrays.items():
        assert not array.flags.writeable, name
    untyped: Any = tree
    with pytest.raises(dataclasses.FrozenInstanceError):
        untyped.name = "other"
    with pytest.raises(TypeError):
        untyped.locked["a"] = (0.0,)
    with pytest.raises(ValueError, match="read-only"):
        tree.link_frame("ear")[1][0] = 1.0
    robot = load_robot("panda", locked={"panda_joint3": 0.2})
    robot.on_device("cpu")
    copy = pickle.loads(pickle.dumps(robot))
    assert copy.content_hash == robot.content_hash
    assert not copy.joint_X_p.flags.writeable
    assert copy.mid_joint_q.tolist() == robot.mid_joint_q.tolist()


def test_the_content_hash_is_stable_and_sees_every_change() -> None:
    robot = load_robot("panda_gripper")
    hashes = {robot.content_hash}
    assert load_robot("panda_gripper").content_hash == robot.content_hash
    assert dataclasses.replace(robot, name="another name").content_hash == robot.content_hash
    count = 1
    for item in dataclasses.fields(robot):
        value = getattr(robot, item.name)
        if isinstance(value, np.ndarray):
            changed = value.copy()
            changed.flat[-1] = changed.flat[-1] + 1 if np.isfinite(changed.flat[-1]) else 1.0
        elif item.name in ("joint_names", "link_names"):
            changed = (*value[:-1], "new")
        else:
            continue
        hashes.add(dataclasses.replace(robot, **{item.name: changed}).content_hash)
        count += 1
    hashes |= {robot.lock({"panda_joint1": value}).content_hash for value in (0.0, 0.5)}
    assert len(hashes) == count + 2 > 15
    one = robot.lock({"panda_joint1": 0.0, "panda_joint2": 0.5})
    other = robot.lock({"panda_joint2": 0.5}).lock({"panda_joint1": -0.0})
    assert one.content_hash == other.content_hash  # in whatever order joints are locked


def test_files_that_give_no_position_limits_have_none() -> None:
    """URDF would fill in 0 and 0; files of wheels and legs that leave both out mean no limits."""
    for given, ends in (
        ('effort="1" velocity="2"', (-np.inf, np.inf)),
        ('upper="2" effort="1" velocity="2"', (0.0, 2.0)),
        ('lower="0" upper="0"', (0.0, 0.0)),
    ):
        robot = load_urdf(urdf("one", "a", joint("j", "revolute", "a", "b", inside=f"<limit {given}/>")))
        assert (robot.joint_limit_lower[0], robot.joint_limit_upper[0]) == ends


def test_a_robot_may_have_nothing_that_moves() -> None:
    single = load_urdf('<robot name="stone"><link name="stone"/></robot>')
    assert (single.body_count, single.joint_dof_count, single.active_dof_count) == (0, 0, 0)
    assert single.forward_kinematics([]).positions.tolist() == [[[0.0, 0.0, 0.0]]]
    assert single.body_poses(np.zeros((2, 0))).shape == (2, 0, 7)
    assert single.motion_subspace([]).shape == (1, 0, 6)
    assert single.integrate([], []).shape == (1, 0)
    assert single.clamp_joint_q(np.zeros((2, 0))).shape == (2, 0)
    assert single.random_joint_q(np.random.default_rng(0), 4).shape == (4, 0)
    assert single.on_device("cpu").joint_X_p.shape == (0,)
    assert single.lock({}).subrobot("stone").link_names == ("stone",)
    assert load_urdf('<robot><link name="a"/></robot>', floating_base=True).active_dof_count == 6


def test_robots_load_by_path_and_unknown_ones_are_refused_with_the_names_there_are(tmp_path: Path) -> None:
    path, folder = tmp_path / "tree.URDF", tmp_path / "folder.urdf"
    path.write_text(TREE)
    assert load_robot(path).content_hash == load_robot(str(path)).content_hash == load_urdf(TREE).content_hash
    names = r"Robot 'pandas' is neither.* mean 'panda'.*robots: allegro, delta, dual"
    with pytest.raises(UnknownNameError, match=names):
        load_robot("pandas")
    for ending in ("none.urdf", "none.xml"):
        with pytest.raises(UnknownNameError, match=rf"Robot file '.*{ending}' does not exist"):
            load_robot(tmp_path / ending)
    folder.mkdir()
    with pytest.raises(RobotFileError, match="cannot be read"):
        load_robot(folder)

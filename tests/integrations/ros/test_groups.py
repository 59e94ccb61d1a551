"""Planning groups and robots from the texts that a ROS system has of them."""

import re
from itertools import pairwise

import pytest

from ik_service import load_robot
from ik_service.errors import RobotFileError
from ik_service.integrations.ros.described_robot import DescriptionSettings, groups_of_lines, read_described_robot
from ik_service.robots import builtin_urdf
from objectives import InputError, UnknownNameError
from tests.robots.urdf_text import joint, urdf

ARM = {f"panda_joint{k}" for k in range(1, 8)}
FINGERS = {"panda_finger_joint1", "panda_finger_joint2"}  # the second follows the first
SRDF = """
<robot name="panda">
  <virtual_joint name="fixed_to" type="fixed" parent_frame="cell" child_link="panda_link0"/>
  <virtual_joint name="elsewhere" type="fixed" parent_frame="shelf" child_link="panda_link3"/>
  <virtual_joint name="floats" type="floating" parent_frame="map" child_link="panda_link0"/>
  <group name="chain"><chain base_link="panda_link2" tip_link="panda_hand"/></group>
  <group name="joints"><joint name="panda_joint1"/><joint name="panda_joint2"/><joint name="panda_hand_joint"/></group>
  <group name="links"><link name="panda_link1"/><link name="panda_link2"/><link name="panda_link0"/></group>
  <group name="hand"><link name="panda_hand"/><joint name="panda_finger_joint1"/></group>
  <group name="upper"><joint name="panda_joint6"/><joint name="panda_joint7"/></group>
  <group name="all"><group name="chain"/><group name="hand"/></group>
  <end_effector name="gripper" parent_link="panda_link8" group="hand" parent_group="upper"/>
  <disable_collisions link1="panda_link5" link2="panda_hand" reason="Never"/>
</robot>
"""


def urdf_of(name):
    return builtin_urdf(name).decode()


@pytest.fixture(scope="module")
def described():
    return read_described_robot(urdf_of("panda_gripper"), SRDF)


@pytest.mark.parametrize(
    ("name", "joints", "tips"),
    [
        ("chain", ARM - {"panda_joint1", "panda_joint2"}, ("panda_hand",)),
        ("joints", {"panda_joint1", "panda_joint2"}, ("panda_link2",)),
        ("links", {"panda_joint1", "panda_joint2"}, ("panda_link2",)),
        ("upper", {"panda_joint6", "panda_joint7"}, ("panda_link8",)),
        ("hand", FINGERS, ("panda_leftfinger",)),
        ("all", (ARM - {"panda_joint1", "panda_joint2"}) | FINGERS, ("panda_hand",)),
    ],
)
def test_groups_of_an_srdf(described, name, joints, tips):
    assert (described.groups[name].joints, described.groups[name].tips) == (joints, tips)


def test_the_frame_that_holds_the_root_is_known(described):
    assert described.root_frames == {"cell"}


def test_lines_come_before_groups_of_the_srdf():
    settings = DescriptionSettings(groups=["chain=panda_link4", "hand_only = panda_link5 : panda_hand"])
    groups = read_described_robot(urdf_of("panda_gripper"), SRDF, settings).groups
    assert groups["chain"].joints == {"panda_joint1", "panda_joint2", "panda_joint3", "panda_joint4"}
    assert groups["hand_only"].joints == {"panda_joint6", "panda_joint7"}
    assert groups["hand_only"].tips == ("panda_hand",)
    assert groups["upper"].joints == {"panda_joint6", "panda_joint7"}


@pytest.mark.parametrize("line", ["arm", "arm=", "=panda_hand", "arm=:panda_hand", "arm=panda_hand:panda_link0"])
def test_lines_that_are_no_groups_are_refused(line):
    with pytest.raises(InputError, match=r"Allowed|chain goes"):
        groups_of_lines(load_robot("panda"), [line])


def test_unknown_links_and_other_documents_are_refused():
    robot = load_robot("panda")
    with pytest.raises(UnknownNameError, match="toe"):
        groups_of_lines(robot, ["leg=toe"])
    for text in ("<sdf/>", '<robot><group name="a"><group name="a"/></group></robot>', "<robot>"):
        with pytest.raises(RobotFileError):
            read_described_robot(urdf_of("panda"), text)
    with pytest.raises(InputError, match="does not begin"):
        read_described_robot("panda")
    with pytest.raises(InputError, match="Allowed"):
        read_described_robot(urdf_of("panda"), settings=DescriptionSettings(collision="meshes"))


def test_a_collision_model_is_made_of_shapes_or_spheres(tmp_path):
    ball = r'<link name="\1"><collision><geometry><sphere radius="0.05"/></geometry></collision></link>'
    options = {"axis": "0 1 0", "limit": (-3, 3, 1)}
    joints = (joint(a + b, "revolute", a, b, "0 0 0.3", **options) for a, b in pairwise("abcd"))
    text = re.sub(r'<link name="(\w)"/>', ball, urdf("three", "a", *joints))
    pairs = read_described_robot(text).robot.collision_model.pairs
    assert ("a", "d") in pairs
    srdf = '<robot><disable_collisions link1="a" link2="d"/></robot>'
    assert ("a", "d") not in read_described_robot(text, srdf).robot.collision_model.pairs
    assert read_described_robot(text, settings=DescriptionSettings(collision="ignore")).robot.collision_model is None
    spheres = tmp_path / "three.collision.json"
    spheres.write_text('{"spheres": {"a": [[0, 0, 0, 0.02]], "c": [[0, 0, 0, 0.02]], "d": [[0, 0, 0, 0.02]]}}')
    model = read_described_robot(text, settings=DescriptionSettings(collision_spheres=str(spheres))).robot
    assert set(model.collision_model.spheres) == {"a", "c", "d"}

"""Files that are no robots: each is refused with an error that names the element and the line."""

import random
import re
import tracemalloc
from importlib.resources import files

import numpy as np
import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import load_urdf
from tests.robots.urdf_text import joint, urdf

ROBOT = """<robot name="arm">
  <link name="base"/>
  <link name="upper"/>
  <link name="lower"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/>
    <child link="upper"/>
    <origin xyz="0 0 1" rpy="0 0 0"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" velocity="2" effort="3"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/>
    <child link="lower"/>
    <limit lower="-2" upper="2"/>
    <mimic joint="shoulder" multiplier="2" offset="0"/>
  </joint>
</robot>
"""


def _changed(old: str, new: str) -> bytes:
    assert ROBOT.count(old) >= 1, old
    return ROBOT.replace(old, new, 1).encode()


def _third(parent: str, child: str) -> bytes:
    joint = f'<joint name="third" type="fixed"><parent link="{parent}"/><child link="{child}"/></joint></robot>'
    return _changed("</robot>", joint)


def _turned(rotation: str) -> bytes:
    return _changed('rpy="0 0 0"', rotation)


PARENT = '<parent link="base"/>'
ORIGIN = '<origin xyz="0 0 1" rpy="0 0 0"/>'
SHOULDER_LIMIT = '<limit lower="-1" upper="1" velocity="2" effort="3"/>'
ELBOW_MIMIC = '<mimic joint="shoulder" multiplier="2" offset="0"/>'

SHOULDER, ELBOW = "joint 'shoulder'", "joint 'elbow'"
ORIGIN_OF, LIMIT_OF, AXIS_OF, MIMIC_OF = (
    f"<origin> of {SHOULDER}",
    f"<limit> of {SHOULDER}",
    f"<axis> of {SHOULDER}",
    f"<mimic> of {ELBOW}",
)
BOTH_LIMITS = 'lower="-1" upper="1"'
CIRCLE = (
    '<link name="hand"/>\n<joint name="wrist" type="continuous"><parent link="lower"/><child link="hand"/>'
    '<mimic joint="finger"/></joint><link name="tip"/>\n<joint name="finger" type="continuous">'
    '<parent link="hand"/><child link="tip"/><mimic joint="wrist"/></joint></robot>'
)
BAD = {  # the text, the element and the line that are named, and the reason
    "empty": (b"", None, None, "empty"),
    "blank": (b" \n ", None, None, "empty"),
    "not xml": (b"hello", None, 1, "not well-formed XML"),
    "cut off": (ROBOT[:-10].encode(), None, 17, "not well-formed XML"),
    "latin-1": (_changed('"upper"', '"\xfcpper"').decode().encode("latin-1"), None, 3, "not UTF-8"),
    "utf-16": (ROBOT.encode("utf-16"), None, 1, "not UTF-8"),
    "too large": (b"<robot>" + b" " * 2_000_000 + b"</robot>", None, None, "more than 2000000 bytes"),
    "doctype": (b'<!DOCTYPE robot SYSTEM "file:///etc/passwd">\n<robot/>', "<!DOCTYPE>", 1, "refused"),
    "entities": (b'<!DOCTYPE r [<!ENTITY a "b">]>\n<robot name="&a;"/>', "<!DOCTYPE>", 1, "refused"),
    "unknown entity": (b'<robot name="&a;"/>', None, 1, "undefined entity"),
    "too deep": (b"<robot>\n" + b"<a>" * 64 + b"</a>" * 64 + b"</robot>", "<a>", 2, "deeper than 64"),
    "too many elements": (b"<robot>\n" + b"<a/>" * 70_000 + b"</robot>", "<a>", 2, "more than 65536 elements"),
    "long attribute": (_changed('"upper"', f'"{"u" * 1025}"'), "<link>", 3, "1025 characters"),
    "other root": (b"<mujoco/>", "<mujoco>", 1, "must be <robot>"),
    "xacro": (b'<robot xmlns:xacro="x">\n<xacro:macro name="m"/></robot>', "xacro:macro 'm'", 2, "expand it"),
    "no links": (b"<robot/>", None, None, "no <link>"),
    "too many links": (b"<robot>\n" + b'<link name="a"/>' * 2049 + b"</robot>", "link 'a'", 2, "more than 2048 <link>"),
    "link without name": (_changed('<link name="upper"/>', "<link/>"), "<link>", 3, "'name' is missing"),
    "two links of one name": (_changed('"upper"', '"base"'), "link 'base'", 3, "stands twice (first in line 2)"),
    "two joints of one name": (_changed('"elbow"', '"shoulder"'), SHOULDER, 12, "stands twice"),
    "joint without name": (_changed('name="elbow" ', ""), "<joint>", 12, "'name' is missing"),
    "joint without type": (_changed('name="elbow" type="revolute"', 'name="elbow"'), ELBOW, 12, "'type'"),
    "unknown type": (_changed("revolute", "screw"), SHOULDER, 5, "joint type 'screw' is unknown"),
    "no parent": (_changed(PARENT, ""), SHOULDER, 5, "<parent> is missing"),
    "no child": (_changed('<child link="upper"/>', ""), SHOULDER, 5, "<child> is missing"),
    "parent without link": (_changed(PARENT, "<parent/>"), f"<parent> of {SHOULDER}", 6, "'link'"),
    "unknown parent": (_changed(PARENT, '<parent link="b"/>'), SHOULDER, 5, "link 'b' does not"),
    "unknown child": (_changed('<child link="lower"/>', '<child link="l"/>'), ELBOW, 12, "link 'l' does not"),
    "to itself": (_changed('<parent link="upper"/>', '<parent link="lower"/>'), ELBOW, 12, "to itself"),
    "two parents": (_third("base", "lower"), "joint 'third'", 18, "'lower' has two parents, through joint 'elbow' too"),
    "cycle": (_third("lower", "base"), SHOULDER, 5, "cycle"),
    "cycle beside the root": (
        _changed(PARENT, '<parent link="lower"/>'),
        "link 'upper'",
        3,
        "not connected to the root",
    ),
    "two roots": (_changed("</robot>", '<link name="loose"/></robot>'), "link 'loose'", 18, "no joint connects it"),
    "two numbers": (_changed('"0 0 1"', '"0 1"'), ORIGIN_OF, 8, "3 finite numbers, got '0 1'"),
    "words": (_changed('"0 0 1"', '"a b c"'), ORIGIN_OF, 8, "got 'a b c'"),
    "digit groups": (_changed('"0 0 1"', '"0 0 1_0"'), ORIGIN_OF, 8, "finite numbers"),
    "nan": (_changed('rpy="0 0 0"', 'rpy="nan 0 0"'), ORIGIN_OF, 8, "finite numbers"),
    "overflow": (_changed('"0 0 1"', '"0 0 1e999"'), ORIGIN_OF, 8, "finite numbers"),
    "far away": (_changed('"0 0 1"', '"0 0 1e7"'), ORIGIN_OF, 8, "must not exceed"),
    "two rotations": (_turned('rpy="0 0 1" quat_xyzw="0 0 0 1"'), ORIGIN_OF, 8, "are two rotations"),
    "zero quaternion": (_turned('quat_xyzw="0 0 0 0"'), ORIGIN_OF, 8, "must not be zero"),
    "short quaternion": (_turned('quat_xyzw="0 0 1"'), ORIGIN_OF, 8, "4 finite numbers"),
    "limit that is no number": (_changed('upper="1"', 'upper="nan"'), LIMIT_OF, 10, "one finite"),
    "lower limit of plus infinity": (_changed(BOTH_LIMITS, 'lower="inf" upper="inf"'), LIMIT_OF, 10, "must leave room"),
    "zero axis": (_changed('"0 1 0"', '"0 0 0"'), AXIS_OF, 9, "must not be zero"),
    "infinite axis": (_changed('"0 1 0"', '"0 inf 0"'), AXIS_OF, 9, "finite numbers"),
    "empty limit": (_changed('upper="1"', 'upper=""'), LIMIT_OF, 10, "one finite number, got ''"),
    "limits out of reach": (_changed(BOTH_LIMITS, 'lower="1e7" upper="1e8"'), LIMIT_OF, 10, "must leave room"),
    "huge multiplier": (_changed('multiplier="2"', 'multiplier="1e9"'), MIMIC_OF, 16, "proportion"),
    "tiny multiplier": (_changed('multiplier="2"', 'multiplier="1e-9"'), MIMIC_OF, 16, "proportion"),
    "follows itself": (_changed('joint="shoulder"', 'joint="elbow"'), MIMIC_OF, 16, "follows itself"),
    "follows a circle": (
        _changed("</robot>", CIRCLE).replace(b'joint="shoulder"', b'joint="wrist"'),
        "<mimic> of joint 'finger'",
        20,
        "follows itself through 'wrist'",
    ),
    "follow each other": (
        _changed(SHOULDER_LIMIT, SHOULDER_LIMIT + '<mimic joint="elbow"/>'),
        MIMIC_OF,
        16,
        "follows itself through 'shoulder'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_by_element_and_line(case: str) -> None:
    data, element, line, words = BAD[case]
    with pytest.raises(RobotFileError) as caught:
        load_urdf(data)
    assert words in caught.value.reason
    assert (caught.value.element, caught.value.line) == (element, line)
    assert str(caught.value).startswith(f"line {line}" if line else caught.value.reason[:5])
    assert element is None or element in str(caught.value)


def test_whatever_values_come_the_answer_is_a_robot_or_a_robot_file_error() -> None:
    """Attribute values of a good file are exchanged, emptied and replaced by hostile ones."""
    whole = (files("ik_service.robots") / "builtin/panda_gripper.urdf").read_text()
    places = [match.span(1) for match in re.finditer(r'"([^"]*)"', whole)]
    hostile = "0|-1|nan|1e400|1e308|-1e308|1e-308|1e5|0 0|0 0 0|1e308 1e308 1e308|1e-308 0 0|1e5 -1e5 1e5|é|\x7f|&#10;"
    hostile += "|planar|ball|floating|fixed|continuous|prismatic|panda_joint2|panda_hand|| "
    source = random.Random(7)
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(400):
        (start, end), (other_start, other_end) = source.choice(places), source.choice(places)
        new = source.choice([*hostile.split("|"), whole[other_start:other_end]])
        try:
            robot = load_urdf(whole[:start] + new + whole[end:])
        except RobotFileError:
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(0), 2))
        assert np.isfinite(poses.positions).all()
        robot.on_device("cpu")
    assert min(outcomes.values()) > 50, outcomes


def test_the_longest_chain_of_joints_and_followers_loads() -> None:
    count = 2047
    mimics = [(), *((f"j{i}",) for i in range(count - 1))]
    joints = (joint(f"j{i}", "continuous", f"l{i}", f"l{i + 1}", mimic=mimic) for i, mimic in enumerate(mimics))
    robot = load_urdf(urdf("chain", "l0", *joints))
    assert (robot.joint_count, robot.active_dof_count) == (count, 1)
    assert (robot.dof_leader == 0).all()


def test_many_elements_below_long_names_take_little_memory():
    nested = "".join(f"<a name='{'n' * 1000}'>" for _ in range(60))
    text = f"<robot name='r'><link name='l'/>{nested}{'<b/>' * 2000}{'</a>' * 60}</robot>"
    tracemalloc.start()
    load_urdf(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * len(text)  # a label of 60 names in each of the elements would be over 1000 times as much

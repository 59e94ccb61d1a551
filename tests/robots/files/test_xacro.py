"""Xacro files: expanded by their path, with arguments, and what beside them belongs to them."""

import subprocess
import sys

import numpy as np
import pytest

from ik_service import RobotFileError, load_robot
from objectives import InputError

ARM = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="reach" default="0.5"/>
  <xacro:property name="reach" value="$(arg reach)"/>
  <xacro:macro name="turn" params="name parent child at">
    <joint name="${name}" type="revolute"><parent link="${parent}"/><child link="${child}"/><origin xyz="${at} 0 0"/>
      <axis xyz="0 0 1"/><limit lower="${-pi / 2}" upper="${pi / 2}" effort="1" velocity="1"/></joint>
  </xacro:macro>
  <link name="base"/><link name="upper"/><link name="fore"/>
  <xacro:turn name="shoulder" parent="base" child="upper" at="0.1"/>
  <xacro:turn name="elbow" parent="upper" child="fore" at="${reach}"/>
</robot>"""
LOOPS = '{"loops": [{"name": "pin", "joint": "point_on_line", "link": "fore"}]}'


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf.xacro"
    path.write_text(ARM)
    return path


def reach(robot):
    return float(robot.forward_kinematics(np.zeros((1, 2)), ["fore"]).positions[0, 0, 0])


def test_macros_arguments_and_expressions_are_expanded(arm):
    robot = load_robot(arm)
    assert robot.joint_names == ("shoulder", "elbow")
    np.testing.assert_allclose(robot.joint_limit_upper, np.pi / 2.0)
    assert reach(robot) == pytest.approx(0.6)
    assert reach(load_robot(str(arm), xacro_arguments={"reach": "0.8"})) == pytest.approx(0.9)


def test_files_beside_it_are_named_like_the_robot(arm, tmp_path):
    (tmp_path / "arm.constraints.json").write_text(LOOPS)
    assert load_robot(arm).constraint_names == ("pin",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARM.replace("${reach}", "${reach"), "cannot be expanded"),
        (ARM.replace("${at}", "${1 / 0}"), "division by zero"),
        (ARM.replace("<robot", "<robot <"), "cannot be expanded"),
        (ARM.replace('link name="fore"', 'link name="arm"'), "fore"),
    ],
)
def test_what_cannot_be_expanded_or_read_says_why(arm, text, message):
    arm.write_text(text)
    with pytest.raises(RobotFileError, match=message):
        load_robot(arm)


def test_arguments_are_for_xacro_files_alone(tmp_path):
    for source in ("panda", ARM, tmp_path / "arm.urdf"):
        with pytest.raises(InputError, match=r"for the path of a \.xacro file"):
            load_robot(source, xacro_arguments={"reach": "1"})
    with pytest.raises(RobotFileError, match=r"load it by its path, which ends in \.xacro"):
        load_robot(ARM)


def test_without_xacro_its_extra_is_named(arm):
    program = f"import sys; sys.modules['xacro'] = None; import ik_service; ik_service.load_robot({str(arm)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "Install the extra 'xacro': pip install '.[xacro]'" in done.stderr.strip().splitlines()[-1]

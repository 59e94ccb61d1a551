"""Xacro files: expanded by their path, with arguments, and what beside them belongs to them."""

import os
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


def test_macros_arguments_and_expressions_are_expanded_and_files_beside_it_are_read(arm, tmp_path):
    robot = load_robot(arm)
    assert robot.joint_names == ("shoulder", "elbow")
    np.testing.assert_allclose(robot.joint_limit_upper, np.pi / 2.0)
    assert reach(robot) == pytest.approx(0.6)
    assert reach(load_robot(str(arm), xacro_arguments={"reach": "0.8"})) == pytest.approx(0.9)
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


@pytest.mark.parametrize("given", [{"xacro_arguments": {"reach": "1"}}, {"package_dirs": ["."]}])
def test_arguments_and_folders_of_packages_are_for_xacro_files_alone(tmp_path, given):
    for source in ("panda", ARM, tmp_path / "arm.urdf"):
        with pytest.raises(InputError, match=r"for the path of a \.xacro file"):
            load_robot(source, **given)
    with pytest.raises(RobotFileError, match=r"load it by its path, which ends in \.xacro"):
        load_robot(ARM)


NEEDS = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:include filename="$(find {package})/urdf/parts.xacro"/></robot>"""
PACKAGE = "<?xml version='1.0'?><package format='3'><name>{}</name><version>1.0.0</version></package>"


def written_package(folder, name):
    """Write a package with a macro file, and give the path of a robot that stands in it and needs it."""
    (folder / "urdf").mkdir(parents=True)
    (folder / "package.xml").write_text(PACKAGE.format(name))
    (folder / "urdf" / "parts.xacro").write_text(ARM.replace('<robot name="arm"', "<robot"))
    path = folder / "urdf" / "arm.urdf.xacro"
    path.write_text(NEEDS.format(package=name))
    return path


@pytest.fixture
def no_ros(monkeypatch):
    for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(variable, raising=False)
    assert "ament_index_python" not in sys.modules


@pytest.mark.parametrize("folder", ["arm_description", "arm_ros-1.2", "src/vendor/arm_description"])
def test_a_package_is_found_above_the_file_or_beside_its_own_by_its_name_without_ros(tmp_path, no_ros, folder):
    path = written_package(tmp_path / folder, "arm_description")
    assert reach(load_robot(path, xacro_arguments={"reach": "0.8"})) == pytest.approx(0.9)
    beside = written_package((tmp_path / folder).with_name("own"), "arm_bringup")
    beside.write_text(NEEDS.format(package="arm_description"))
    assert reach(load_robot(beside)) == pytest.approx(0.6)
    assert not any(name.startswith("ament_index_python") for name in sys.modules)


@pytest.mark.parametrize("inside", ["arm", "urdf/arm"])
def test_a_folder_called_like_the_package_is_not_taken_for_it(tmp_path, no_ros, inside):
    """A repository is often called like one of its packages, and a folder inside a package like the robot."""
    package = tmp_path / "arm" / "arm"
    path = written_package(package, "arm")
    other = (tmp_path / "arm" / "bringup" if inside == "arm" else package / inside) / "other.xacro"
    other.parent.mkdir(parents=True)
    other.write_text(path.read_text())
    assert load_robot(other).joint_names == ("shoulder", "elbow")


@pytest.mark.parametrize("way", ["ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "its folder", "a folder of packages"])
def test_packages_elsewhere_are_found_by_the_environment_or_by_argument(tmp_path, no_ros, monkeypatch, way):
    place = tmp_path / "install" / "share" if way == "AMENT_PREFIX_PATH" else tmp_path / "src" / "vendor"
    written_package(place / "arm_parts", "arm_parts")
    path = tmp_path / "robots" / "arm.xacro"
    path.parent.mkdir()
    path.write_text(NEEDS.format(package="arm_parts"))
    given = {"its folder": [place / "arm_parts"], "a folder of packages": [str(place)]}.get(way, [])
    with pytest.raises(RobotFileError, match="package 'arm_parts' is not found"):
        load_robot(path)
    if not given:
        first = tmp_path / "none"
        prefix = tmp_path / "install" if way == "AMENT_PREFIX_PATH" else tmp_path / "src"
        monkeypatch.setenv(way, f"{first}{os.pathsep}{prefix}")
    assert load_robot(path, package_dirs=given).joint_names == ("shoulder", "elbow")


def test_what_was_given_comes_before_what_stands_around(tmp_path, no_ros):
    path = written_package(tmp_path / "arm_description", "arm_description")
    written_package(tmp_path / "newer" / "arm_description", "arm_description")
    parts = tmp_path / "newer" / "arm_description" / "urdf" / "parts.xacro"
    parts.write_text(parts.read_text().replace('default="0.5"', 'default="0.7"'))
    assert reach(load_robot(path)) == pytest.approx(0.6)
    assert reach(load_robot(path, package_dirs=[tmp_path / "newer"])) == pytest.approx(0.8)


def test_a_package_that_is_not_found_is_named_with_where_it_was_looked_for(tmp_path, no_ros, monkeypatch):
    path = tmp_path / "arm.xacro"
    path.write_text(NEEDS.format(package="arm_parts"))
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "nowhere"))
    with pytest.raises(RobotFileError) as caught:
        load_robot(path, package_dirs=[tmp_path / "given"])
    for place in ("arm_parts", str(path), f"({tmp_path / 'given'})", f"({tmp_path / 'nowhere'})", "(not set)"):
        assert place in str(caught.value)
    assert "ament" not in str(caught.value).replace("AMENT_PREFIX_PATH", "")


def test_without_xacro_its_extra_is_named(arm):
    program = f"import sys; sys.modules['xacro'] = None; import ik_service; ik_service.load_robot({str(arm)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "Install the extra 'xacro': pip install '.[xacro]'" in done.stderr.strip().splitlines()[-1]

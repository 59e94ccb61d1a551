"""What `load_robot` takes beside names and paths: texts, compiled models, and the chain between two links."""

import mujoco
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.errors import RobotFileError
from ik_service.mechanism.names import ROWS_MOST
from ik_service.robots import builtin_urdf
from objectives import InputError
from objectives.errors import UnknownNameError

MJCF = """<?xml version="1.0"?>
<!-- <robot name="none"/> -->
<mujoco model="two">
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 0 1" range="-90 90"/><geom size="0.05"/>
      <body name="fore" pos="1 0 0"><joint name="elbow" axis="0 0 1" range="-120 120"/><geom size="0.05"/>
        <site name="tip" pos="1 0 0"/></body></body>
  </worldbody>
  <equality><joint joint1="elbow" joint2="shoulder" polycoef="0 2 0 0 0"/></equality>
</mujoco>"""


def test_a_text_is_the_robot_of_its_file(tmp_path):
    text = builtin_urdf("panda").decode()
    path = tmp_path / "panda.urdf"
    path.write_text(text)
    expected = load_robot(path)
    for given in (text, f"\ufeff\n<!-- <mujoco/> -->\n{text.partition('?>')[2] if text.startswith('<?') else text}"):
        assert load_robot(given).content_hash == expected.content_hash
    assert expected.collision_model is None
    assert load_robot(text, locked={"panda_joint1": 0.5}).active_dof_count == 6


def test_mjcf_as_text_and_as_a_compiled_model_is_the_robot_of_its_file(tmp_path):
    path = tmp_path / "two.xml"
    path.write_text(MJCF)
    expected, model = load_robot(path), mujoco.MjModel.from_xml_string(MJCF)
    of_text, of_model = load_robot(MJCF), load_robot(model)
    joint_q = expected.random_joint_q(np.random.default_rng(0), 20)
    for robot in (of_text, of_model):
        assert robot.joint_names == expected.joint_names
        np.testing.assert_array_equal(robot.dof_multiplier, expected.dof_multiplier)
        poses = robot.forward_kinematics(joint_q, ["tip"])
        np.testing.assert_array_equal(poses.positions, expected.forward_kinematics(joint_q, ["tip"]).positions)
    assert expected.dof_multiplier.tolist() != [1.0, 1.0]
    assert load_robot(model, constraints="ignore").dof_multiplier.tolist() == [1.0, 1.0]
    assert model.eq_active0.tolist() == [1]  # the caller's model stays as it is


def test_what_is_no_robot_says_so():
    with pytest.raises(InputError, match="Robot is of type dict"):
        load_robot({})
    for text in ("<robot", "<!-- nothing -->", "<sdf/>", "<"):
        with pytest.raises(RobotFileError):
            load_robot(text)
    with pytest.raises(RobotFileError, match="MuJoCo cannot compile"):
        load_robot("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")


def test_a_chain_between_two_links():
    arms = load_robot("dual_panda")
    arm = load_robot("dual_panda", base="left_panda_link0", tip="left_panda_link7")
    assert arm.joint_names == tuple(f"left_panda_joint{k}" for k in range(1, 8))
    part = arms.subrobot("left_panda_link0", ["left_panda_link7"], ["left_panda_link7"])
    assert arm.content_hash == part.content_hash
    below = load_robot("dual_panda", tip="right_panda_link7")
    assert set(below.joint_names) == {f"right_panda_joint{k}" for k in range(1, 8)}
    assert below.link_names[0] == arms.link_names[0]
    from_base = load_robot("dual_panda", base="right_panda_link0", locked={"right_panda_joint1": 0.3})
    assert from_base.active_dof_count == 6
    with pytest.raises(UnknownNameError, match="'hand'"):
        load_robot("panda", tip="hand")
    with pytest.raises(InputError, match="below"):
        load_robot("dual_panda", base="left_panda_link0", tip="right_panda_link7")


def test_a_printed_robot_is_a_table_that_fits_a_screen():
    gripper = str(load_robot("panda_gripper", locked={"panda_joint2": 0.1})).splitlines()
    assert gripper[0].startswith("<RobotModel 'panda_gripper'")
    assert gripper[1].split() == ["DOF", "type", "lower", "upper", "moved", "by"]
    row = {line.split()[0]: line for line in gripper[2:]}
    assert row["panda_joint1"].split() == ["panda_joint1", "revolute", "-2.897", "2.897", "the", "solver"]
    assert row["panda_joint2"].endswith("nothing: locked")
    assert row["panda_finger_joint2"].endswith("1 x panda_finger_joint1")
    humanoid = load_robot("humanoid")
    lines = str(humanoid).splitlines()
    assert len(lines) == ROWS_MOST + 4
    assert lines[-2] == f"... and {humanoid.joint_dof_count - ROWS_MOST} more DOFs"
    assert str(load_robot(MJCF)).splitlines()[3].endswith("2 x shoulder")


def test_a_printed_robot_says_whether_collision_is_checked():
    panda, unchecked = load_robot("panda"), "Collision: not checked; no collision model. 'ik-service spheres'"
    model = panda.collision_model
    figures = f"{model.sphere_count} spheres on {len(model.spheres)} links, {len(model.pairs)} pairs checked"
    assert str(panda).splitlines()[-1] == f"Collision: {figures}."
    for robot in (load_robot(MJCF), load_robot("delta"), load_robot("panda", collision="ignore")):
        assert str(robot).splitlines()[-1].startswith(unchecked)

"""Classes of arms by their axes, and bounds of how far a robot is from its nominal arm."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.compiler.closed_form import ArmClass, arm_of, nominal_arm
from ik_service.mechanism.transforms import quaternion_from_axis_angle, quaternion_multiply, quaternion_rotate
from tests.compiler.closed_form.arms import JOINTS, robot_of, text_of

OF_BUILTIN = {"panda": ArmClass.SEVEN, "iiwa14": ArmClass.SEVEN, "ur5e": ArmClass.PARALLEL}


def reached(arm, joint_q):
    """The link of an arm by the product of turns about its axes, [n, 7]."""
    position = np.tile(arm.T_world_link[:3], (len(joint_q), 1))
    orientation = np.tile(arm.T_world_link[3:], (len(joint_q), 1))
    for k in reversed(range(len(arm.dofs))):
        turn = quaternion_from_axis_angle(arm.axes[k], joint_q[:, arm.dofs[k]])
        position = arm.points[k] + quaternion_rotate(turn, position - arm.points[k])
        orientation = quaternion_multiply(turn, orientation)
    return position, orientation


def rotations_between(a, b):
    return 2.0 * np.arccos(np.minimum(np.abs((a * b).sum(axis=1)), 1.0))


@pytest.mark.parametrize("name", [*JOINTS, *OF_BUILTIN])
def test_the_class_is_found_and_the_axes_move_the_link_as_the_robot_does(name):
    robot, link = robot_of(name)
    arm = arm_of(robot, link)
    nominal = nominal_arm(arm)
    assert nominal.kind is (OF_BUILTIN[name] if name in OF_BUILTIN else ArmClass(name))
    joint_q = robot.random_joint_q(np.random.default_rng(0), 200)
    poses = robot.forward_kinematics(joint_q, [link])
    for one, tolerance in ((arm, 1e-9), (nominal.arm, 1e-7)):
        position, orientation = reached(one, joint_q[:, robot.dof_coordinate[robot.active_dof]])
        assert np.abs(position - poses.positions[:, 0]).max() < tolerance
        assert rotations_between(orientation, poses.orientations_xyzw[:, 0]).max() < 1e-7


@pytest.mark.parametrize("name", list(JOINTS))
def test_the_bounds_of_a_disturbed_arm_hold(name):
    robot, link = robot_of(name, 1e-3, 5e-4)
    arm = arm_of(robot, link)
    nominal = nominal_arm(arm)
    assert nominal.kind is ArmClass(name)
    joint_q = robot.random_joint_q(np.random.default_rng(1), 2000)
    position, orientation = reached(arm, joint_q)
    of_nominal = reached(nominal.arm, joint_q)
    apart = np.linalg.norm(position - of_nominal[0], axis=1).max()
    assert 1e-4 < apart <= nominal.arm.length_noise < 0.06
    assert rotations_between(orientation, of_nominal[1]).max() <= nominal.arm.rotation_noise < 0.03


@pytest.mark.parametrize(
    ("name", "link"),
    [("humanoid", "left_grasp"), ("allegro", "index_tip"), ("panda", "panda_link4"), ("delta", "platform")],
)
def test_other_chains_have_no_arm(name, link):
    robot = load_robot(name, collision="ignore")
    link = link if link in robot.link_names else robot.link_names[-1]
    arm = arm_of(robot, link)
    assert arm is None or nominal_arm(arm) is None


def test_locked_joints_are_held_and_leave_the_arm_the_others():
    robot, link = robot_of("panda")
    arm = arm_of(robot.lock({"panda_joint4": -1.5}), link)
    assert (len(arm.dofs), arm.held) == (6, (3,))


@pytest.mark.parametrize("name", list(JOINTS))
def test_axes_far_from_those_of_a_class_have_none(name):
    robot, link = robot_of(name, 0.1, 0.1)
    assert nominal_arm(arm_of(robot, link)) is None


@pytest.mark.parametrize(("name", "joint"), [("spherical", 2), ("parallel", 2), ("searched", 2), ("seven", 3)])
def test_an_elbow_without_a_link_has_no_class(name, joint, monkeypatch):
    joints = list(JOINTS[name])
    joints[joint] = (tuple(0.0 if axis != 1 else x for axis, x in enumerate(joints[joint][0])), joints[joint][1])
    monkeypatch.setitem(JOINTS, name, joints)
    robot = load_robot(text_of(name))
    nominal = nominal_arm(arm_of(robot, "tip"))
    assert nominal is None or nominal.kind is not ArmClass(name)

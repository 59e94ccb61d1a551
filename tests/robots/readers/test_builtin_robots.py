"""The built-in robots against the numbers that their makers publish, by formulas that are not ours."""

from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from ik_service.robots import JointType, builtin_robot_names, load_robot

Float64Array = NDArray[np.float64]

TOLERANCE = 1e-9

HALF = np.pi / 2
# a, d, alpha: classic Denavit-Hartenberg
UR5E_DH = [(0, 0.1625, HALF), (-0.425, 0, 0), (-0.3922, 0, 0), (0, 0.1333, HALF), (0, 0.0997, -HALF), (0, 0.0996, 0)]
# a, d, alpha: Craig's, of the frame before
PANDA_DH = [(0, 0.333, 0), (0, 0, -HALF), (0, 0.316, HALF), (0.0825, 0, HALF), (-0.0825, 0.384, -HALF), (0, 0, HALF)]
PANDA_DH.append((0.088, 0, HALF))


def _about(axis: int, angle: float) -> Float64Array:
    T = np.eye(4)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    T[i, i] = T[j, j] = np.cos(angle)
    T[j, i], T[i, j] = np.sin(angle), -np.sin(angle)
    return T


def _along(x: float, y: float, z: float) -> Float64Array:
    return np.block([[np.eye(3), np.array([[x], [y], [z]])], [0, 0, 0, 1]])


def _matrices(name: str, joint_q: Float64Array, link: str) -> Float64Array:
    """Give ``T_world_link`` as matrices, shape [n, 4, 4]."""
    poses = load_robot(name).forward_kinematics(joint_q, [link])
    rows = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)[:, 0]
    return np.array([pin.XYZQUATToSE3(row).homogeneous for row in rows])


def test_the_names_are_those_of_the_design() -> None:
    arms = ("iiwa14", "panda", "panda_gripper", "ur5e")
    mechanisms = ("delta", "five_bar", "four_bar", "stewart")
    assert builtin_robot_names() == tuple(sorted((*arms, *mechanisms, "allegro", "dual_panda", "humanoid")))
    for name in builtin_robot_names():
        assert load_robot(name).name == name


def test_ur5e_stands_where_its_denavit_hartenberg_table_says() -> None:
    joint_q = load_robot("ur5e").random_joint_q(np.random.default_rng(0), 10)
    tool = _matrices("ur5e", joint_q, "tool0")
    base = _matrices("ur5e", joint_q, "base")
    for row, q in enumerate(joint_q):
        T = np.eye(4)
        for angle, (a, d, alpha) in zip(q, UR5E_DH, strict=True):
            T = T @ _about(2, angle) @ _along(0, 0, d) @ _along(a, 0, 0) @ _about(0, alpha)
        assert np.abs(np.linalg.inv(base[row]) @ tool[row] - T).max() < TOLERANCE


def test_panda_stands_where_its_denavit_hartenberg_table_says() -> None:
    joint_q = load_robot("panda").random_joint_q(np.random.default_rng(0), 10)
    flange, hand = _matrices("panda", joint_q, "panda_link8"), _matrices("panda", joint_q, "panda_hand")
    for row, q in enumerate(joint_q):
        T = np.eye(4)
        for angle, (a, d, alpha) in zip(q, PANDA_DH, strict=True):
            T = T @ _about(0, alpha) @ _along(a, 0, 0) @ _about(2, angle) @ _along(0, 0, d)
        T = T @ _along(0, 0, 0.107)
        assert np.abs(flange[row] - T).max() < TOLERANCE
        assert np.abs(hand[row] - T @ _about(2, -np.pi / 4)).max() < TOLERANCE


def test_iiwa_has_the_lengths_of_its_data_sheet() -> None:
    robot = load_robot("iiwa14")
    joint_q = robot.random_joint_q(np.random.default_rng(0), 10)
    tool = _matrices("iiwa14", joint_q, "iiwa_link_ee")
    for row, q in enumerate(joint_q):
        T = np.eye(4)  # axes z y z -y z y z along 0.36, 0.42, 0.4 and 0.126 m
        for angle, lean, length in zip(q, (0, 1, 0, -1, 0, 1, 0), (0.36, 0, 0.42, 0, 0.4, 0, 0.126), strict=True):
            T = T @ (_about(1, lean * angle) if lean else _about(2, angle)) @ _along(0, 0, length)
        assert np.abs(tool[row] - T).max() < TOLERANCE
    assert np.degrees(robot.joint_limit_upper) == pytest.approx([170, 120, 170, 120, 170, 120, 175])
    assert np.degrees(robot.joint_velocity_limit) == pytest.approx([85, 85, 100, 75, 130, 135, 135])


FOREIGN = [
    ("iiwa14", "frax", "assets/iiwa/iiwa14.urdf", 8),
    ("panda", "frax", "assets/franka_panda/panda.urdf", 10),
    ("panda_gripper", "example-robot-data", "robots/panda_description/urdf/panda.urdf", 13),
    ("allegro", "example-robot-data", "allegro_hand_description/urdf/allegro_right_hand.urdf", 21),
]


@pytest.mark.parametrize(("name", "distribution", "ending", "shared"), FOREIGN, ids=[case[0] for case in FOREIGN])
def test_the_public_descriptions_agree(name: str, distribution: str, ending: str, shared: int) -> None:
    file = next(file for file in metadata.files(distribution) or [] if str(file).endswith(ending))
    ours, theirs = load_robot(name), load_robot(Path(str(file.locate())))
    links = [link for link in ours.link_names if link in theirs.link_names]
    assert len(links) == shared
    q_theirs = theirs.random_joint_q(np.random.default_rng(0), 10)
    q_ours = np.tile(ours.mid_joint_q, (10, 1))
    for column, joint in enumerate(theirs.coordinate_names):
        if joint in ours.coordinate_names:
            q_ours[:, ours.coordinate_names.index(joint)] = q_theirs[:, column]
            dof, other = ours.dof_names.index(joint), theirs.dof_names.index(joint)
            assert ours.joint_limit_lower[dof] == pytest.approx(theirs.joint_limit_lower[other], abs=1e-3)
            assert ours.joint_limit_upper[dof] == pytest.approx(theirs.joint_limit_upper[other], abs=1e-3)
    np.testing.assert_array_equal(ours.complete_joint_q(q_ours), q_ours)  # fingers follow as theirs do
    poses, others = ours.forward_kinematics(q_ours, links), theirs.forward_kinematics(q_theirs, links)
    assert np.abs(poses.positions - others.positions).max() < TOLERANCE
    cosine = np.abs((poses.orientations_xyzw * others.orientations_xyzw).sum(axis=-1))
    assert np.abs(cosine - 1).max() < TOLERANCE


def test_both_arms_of_dual_panda_are_pandas() -> None:
    arm = load_robot("panda")
    both = load_robot("dual_panda")
    q = arm.random_joint_q(np.random.default_rng(0), 5)
    expected = arm.forward_kinematics(q, ["panda_hand"]).positions
    found = both.forward_kinematics(np.hstack([q, q]), ["left_panda_hand", "right_panda_hand"]).positions
    assert np.abs(found[:, :1] - expected - [0, 0.3, 0]).max() < TOLERANCE
    assert np.abs(found[:, 1:] - expected - [0, -0.3, 0]).max() < TOLERANCE
    assert both.joint_articulation.tolist() == [0] * 7 + [1] * 7


def test_the_humanoid_is_symmetric_and_floats() -> None:
    robot = load_robot("humanoid")
    assert (robot.joint_type[0], robot.joint_names[0], robot.joint_count) == (JointType.FLOATING, "floating_base", 29)
    q = robot.random_joint_q(np.random.default_rng(0), 5)
    q[:, :7] = [0, 0, 0, 0, 0, 0, 1]
    mirrored = q.copy()
    for column, name in enumerate(robot.coordinate_names[7:], start=7):
        partner = name.replace("left", "*").replace("right", "left").replace("*", "right")
        axis = robot.joint_axis[robot.dof_names.index(name)]
        sign = 1 if axis[1] else -1  # pitch stays, roll and yaw change sides
        mirrored[:, robot.coordinate_names.index(partner)] = sign * q[:, column]
    assert (np.abs(robot.clamp_joint_q(mirrored) - mirrored) < TOLERANCE).all(), "limits are mirrored too"
    compared = 0
    for link in robot.link_names:
        partner = link.replace("left", "*").replace("right", "left").replace("*", "right")
        here = robot.forward_kinematics(q, [link]).positions[:, 0]
        there = robot.forward_kinematics(mirrored, [partner]).positions[:, 0]
        assert np.abs(here * [1, -1, 1] - there).max() < TOLERANCE, link
        compared += partner != link
    assert compared == 28


def test_limits_speeds_and_torques_are_given_for_every_hinge() -> None:
    for name in builtin_robot_names():
        robot = load_robot(name)
        hinge = robot.dof_coordinate >= 0
        if name in ("humanoid", "stewart"):
            hinge[:6] = False
        assert hinge.sum() >= {"four_bar": 3, "five_bar": 4}.get(name, 6)
        for array in (robot.joint_limit_lower, robot.joint_limit_upper):
            assert np.isfinite(array[hinge]).all() == (name != "four_bar")  # whose joints are continuous
        for array in (robot.joint_velocity_limit, robot.joint_effort_limit):
            assert (np.isfinite(array[hinge]) & (array[hinge] > 0)).all()

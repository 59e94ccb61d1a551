"""Manipulability of frames beside differences of their poses, whatever joints carry them."""

import numpy as np
import pytest

from ik_service.robots import load_robot, load_urdf
from objectives.errors import InputError, UnknownNameError
from tests.objectives.conftest import FLOATING
from tests.robots.urdf_text import joint, urdf

STEP, TOLERANCE = 1e-5, 1e-6  # of central differences, and the relative error that they leave
MIMIC = urdf(
    "mimic",
    "base",
    joint("turn", "revolute", "base", "a", axis="0 0 1", limit=(-2, 2, 1)),
    joint("lift", "prismatic", "a", "b", "0.1 0 0.3", axis="1 0 1", limit=(0, 0.5, 1)),
    joint("bend", "revolute", "b", "c", "0.3 0 0", "0.3 0.2 0", "0 1 0", (-2, 2, 1)),
    joint("follow", "revolute", "c", "d", "0.3 0.1 0", "", "1 0 1", (-2, 2, 1), ("bend", -0.5, 0.2)),
    joint("mount", "fixed", "d", "tool", "0.2 0.1 0", "0 0.7 0.2"),
)
TOOL = np.array([0.1, -0.2, 0.3, 0.0, 0.0, 0.6, 0.8])
CASES = {
    "arm": ("panda", "panda_hand", 0.316 + 0.0825 + np.hypot(0.0825, 0.384) + 0.088 + 0.107),
    "floating": (FLOATING, "d", None),
    "ball": (FLOATING, "f", None),
    "mimic": (MIMIC, "tool", None),
}


def robot_of(name):
    return load_urdf(name) if "<" in name else load_robot(name)


def length_of(robot, link):
    """Sum the offsets from the first joint to a link [m]."""
    body, offset = robot.link_frame(link)
    found = np.linalg.norm(offset[:3])
    while robot.joint_parent[body] >= 0:
        found += np.linalg.norm(robot.joint_X_p[body, :3])
        body = int(robot.joint_parent[body])
    return found


def differences(robot, link, joint_q, motion):
    """Give the Jacobian of a frame by active DOFs from differences of poses, velocities over the chain's length."""
    columns = []
    for dof in robot.active_dof:
        own = np.zeros(robot.joint_dof_count)
        own[dof] = STEP
        ends = [robot.complete_joint_q(robot.integrate(joint_q, sign * own)) for sign in (1.0, -1.0)]
        ahead, behind = (robot.forward_kinematics(end, [link]) for end in ends)
        velocity = (ahead.positions - behind.positions)[:, 0] / (2.0 * STEP)
        x, y, z, w = ahead.orientations_xyzw[:, 0].T
        a, b, c, d = (behind.orientations_xyzw[:, 0] * [-1, -1, -1, 1]).T
        turn = np.stack([w * a + x * d + y * c - z * b, w * b - x * c + y * d + z * a, w * c + x * b - y * a + z * d])
        turn *= np.sign(w * d - x * a - y * b - z * c) / STEP
        columns.append(np.concatenate([velocity.T / length_of(robot, link), turn]))
    part = {"pose": slice(6), "position": slice(3), "orientation": slice(3, 6)}[motion]
    return np.array(columns).transpose(2, 1, 0)[:, part]


@pytest.mark.parametrize("motion", ["pose", "position", "orientation"])
@pytest.mark.parametrize("case", CASES)
def test_the_measure_is_that_of_differences_of_poses(case, motion):
    name, link, length = CASES[case]
    robot = robot_of(name)
    assert length is None or length_of(robot, link) == pytest.approx(length)
    joint_q = robot.random_joint_q(np.random.default_rng(0), 40)
    jacobian = differences(robot, link, joint_q, motion)
    found = robot.manipulability(joint_q, link, motion)
    expected = np.sqrt(np.maximum(np.linalg.det(jacobian @ jacobian.transpose(0, 2, 1)), 0.0))
    if case == "mimic" and motion != "position":  # three DOFs, of which two turn
        expected = np.zeros(len(joint_q))
    assert (found > 0.0).any() == (expected > 0.0).any()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE)


def test_a_tool_counts_for_positions_alone_and_may_differ_by_configuration():
    robot = load_robot("panda")
    joint_q, still = robot.random_joint_q(np.random.default_rng(1), 3000), np.array([0.0, 0, 0, 0, 0, 0, 1])
    tools = np.where(np.arange(3000)[:, None] % 2, TOOL, still)
    plain, moved, each = (robot.manipulability(joint_q, "panda_hand", "position", tool) for tool in (None, TOOL, tools))
    np.testing.assert_array_equal(each, np.where(np.arange(3000) % 2, moved, plain))
    assert (np.abs(moved / plain - 1.0) > 0.01).mean() > 0.9
    whole = robot.manipulability(joint_q, "panda_hand")
    np.testing.assert_allclose(robot.manipulability(joint_q, "panda_hand", "pose", TOOL), whole, rtol=1e-9, atol=1e-12)


def test_locked_joints_do_not_count_and_a_link_that_nothing_moves_has_none():
    robot = load_robot("panda")
    joint_q = robot.random_joint_q(np.random.default_rng(2), 20)
    assert np.isnan(robot.manipulability(joint_q, "panda_link0")).all()
    five = robot.lock({"panda_joint1": 0.0, "panda_joint7": 0.0})
    assert (five.manipulability(joint_q, "panda_hand") == 0.0).all()
    assert np.isnan(five.manipulability(joint_q, "panda_link1")).all()
    straight = robot.manipulability(np.zeros(7), "panda_hand")  # the elbow is stretched, the wrist in line
    assert straight[0] < 1e-6 * robot.manipulability(joint_q, "panda_hand").max()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("elbow",), UnknownNameError, "elbow"),
        (("panda_hand", "twist"), InputError, "motion is 'twist'. Allowed: pose, position, orientation"),
        (("panda_hand", "pose", [0.0] * 6), InputError, r"offset has shape \[6\]"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        load_robot("panda").manipulability(np.zeros((2, 7)), *arguments)

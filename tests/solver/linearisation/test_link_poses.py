"""Poses on packets and gradients by them, beside the host's kinematics and differences."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.solver.linearisation.link_poses import LinkChains

CASES = {
    "panda": ["panda_hand"],
    "dual_panda": ["left_panda_hand", "right_panda_hand", "right_panda_link3"],
    "panda_gripper": ["panda_leftfinger", "panda_link0"],
    "humanoid": ["left_grasp", "head"],
}
COUNT, STEP = 5, 1e-6


@pytest.mark.parametrize("name", CASES)
def test_poses_are_those_of_the_host(name):
    robot, links = load_robot(name, collision="ignore"), CASES[name]
    joint_q = robot.random_joint_q(np.random.default_rng(0), COUNT)
    found, expected = LinkChains(robot, links).poses(joint_q), robot.forward_kinematics(joint_q, links)
    np.testing.assert_allclose(found[..., :3], expected.positions, atol=1e-13)
    np.testing.assert_allclose(found[..., 3:], expected.orientations_xyzw, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences_of_poses(name):
    robot, links = load_robot(name, collision="ignore"), CASES[name]
    rng = np.random.default_rng(1)
    joint_q, chains = robot.random_joint_q(rng, COUNT), LinkChains(robot, links)
    by_poses = rng.normal(size=(COUNT, len(links), 7))
    poses = chains.poses(joint_q)
    along = (by_poses[..., 3:] * poses[..., 3:]).sum(axis=-1, keepdims=True)
    by_poses[..., 3:] -= along * poses[..., 3:]  # a quaternion does not change its length
    found = chains.pull_back(joint_q, by_poses)
    for column, move in enumerate(STEP * np.eye(robot.joint_coord_count)):
        apart = chains.poses(joint_q + move) - chains.poses(joint_q - move)
        expected = (by_poses * apart).sum(axis=(1, 2)) / (2.0 * STEP)
        np.testing.assert_allclose(found[:, column], expected, atol=1e-8)


def test_a_configuration_has_the_same_bytes_alone():
    robot, links = load_robot("humanoid", collision="ignore"), CASES["humanoid"]
    joint_q, chains = robot.random_joint_q(np.random.default_rng(0), COUNT), LinkChains(robot, links)
    poses = chains.poses(joint_q)
    assert np.array_equal(chains.poses(joint_q[3:4])[0], poses[3])
    assert np.array_equal(chains.pull_back(joint_q[3:4], poses[3:4])[0], chains.pull_back(joint_q, poses)[3])

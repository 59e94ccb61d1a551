"""Poses on packets and gradients by them, beside the host's kinematics and differences."""

import numpy as np
import pytest

from ik_service.solver.derivatives.link_poses import LinkChains
from tests.solver.conftest import bare_robot
from tests.solver.derivatives.chain_robot import chain_robot

CASES = {
    "panda": ["panda_hand"],
    "dual_panda": ["left_panda_hand", "right_panda_hand", "right_panda_link3"],
    "panda_gripper": ["panda_leftfinger", "panda_link0"],
    "humanoid": ["left_grasp", "head"],
    "chain": ["tip", "base", "c"],
}
COUNT, STEP = 5, 1e-6


def robot_named(name):
    return chain_robot() if name == "chain" else bare_robot(name)


@pytest.mark.parametrize("name", CASES)
def test_poses_are_those_of_the_host(name):
    robot, links = robot_named(name), CASES[name]
    joint_q = robot.random_joint_q(np.random.default_rng(0), COUNT)
    found, expected = LinkChains(robot, links).poses(joint_q), robot.forward_kinematics(joint_q, links)
    np.testing.assert_allclose(found[..., :3], expected.positions, atol=1e-13)
    np.testing.assert_allclose(found[..., 3:], expected.orientations_xyzw, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences_of_poses(name):
    robot, links = robot_named(name), CASES[name]
    rng = np.random.default_rng(1)
    joint_q, chains = robot.random_joint_q(rng, COUNT), LinkChains(robot, links)
    for first in robot.quaternion_starts.values():  # whose lengths count for nothing
        joint_q[:, first : first + 4] *= rng.uniform(0.5, 2.0, size=(COUNT, 1))
    by_poses = rng.normal(size=(COUNT, len(links), 7))
    poses = chains.poses(joint_q)
    along = (by_poses[..., 3:] * poses[..., 3:]).sum(axis=-1, keepdims=True)
    by_poses[..., 3:] -= along * poses[..., 3:]  # a quaternion does not change its length
    found = chains.pull_back(joint_q, by_poses)
    for column, move in enumerate(STEP * np.eye(robot.joint_coord_count)):
        apart = chains.poses(joint_q + move) - chains.poses(joint_q - move)
        expected = (by_poses * apart).sum(axis=(1, 2)) / (2.0 * STEP)
        np.testing.assert_allclose(found[:, column], expected, atol=1e-8)


def test_a_configuration_has_the_same_bytes_alone_and_a_link_that_nothing_moves_stands_still(panda, humanoid):
    links = CASES["humanoid"]
    joint_q, chains = humanoid.random_joint_q(np.random.default_rng(0), COUNT), LinkChains(humanoid, links)
    poses = chains.poses(joint_q)
    assert np.array_equal(chains.poses(joint_q[3:4])[0], poses[3])
    assert np.array_equal(chains.pull_back(joint_q[3:4], poses[3:4])[0], chains.pull_back(joint_q, poses)[3])
    still, joint_q = LinkChains(panda, ["panda_link0"]), panda.random_joint_q(np.random.default_rng(0), 2)
    assert np.array_equal(still.poses(joint_q), np.tile([0, 0, 0, 0, 0, 0, 1.0], (2, 1, 1)))
    assert not still.pull_back(joint_q, np.ones((2, 1, 7))).any()

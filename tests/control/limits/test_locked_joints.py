"""Locked joints are held where the controller is told that they are, robot by robot."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import IKController
from tests.control.conftest import LINK, begun, last_of, pose_of

HELD = [1, 4]
REACHED = 1e-6  # [m] where a hundred ticks lead a target that stands still
ROUNDING = 1e-12  # of float64 kinematics


@pytest.fixture(scope="module")
def locked():
    return load_robot("panda", locked={"panda_joint2": 0.3, "panda_joint5": -0.4})


def elsewhere(robot, robots, random_seed=0):
    """Configurations whose held joints stand elsewhere than the robot is locked, and poses near there."""
    rng = np.random.default_rng(random_seed)
    start = np.tile(robot.mid_joint_q, (robots, 1))
    start[:, HELD] = rng.uniform(-1.0, 1.0, (robots, 2))
    goal = start + rng.uniform(-0.2, 0.2, start.shape)
    goal[:, HELD] = start[:, HELD]
    return start, np.stack([pose_of(robot, q, LINK)[None] for q in goal])


def errors(robot, joint_q, poses):
    reached = robot.forward_kinematics(joint_q, [LINK]).positions[:, 0]
    return np.linalg.norm(reached - poses[:, 0, :3], axis=1)


@pytest.mark.parametrize("robots", [1, 3])
def test_a_reset_says_where_they_are(locked, robots):
    start, poses = elsewhere(locked, robots)
    controller = begun(locked, [LINK], start, robots=robots)
    result = last_of(controller, 500, poses, dt=1e-2)
    np.testing.assert_array_equal(result.joint_q[:, HELD], start[:, HELD])
    np.testing.assert_array_equal(result.joint_qd[:, HELD], 0.0)
    assert errors(locked, result.joint_q, poses).max() < REACHED
    np.testing.assert_allclose(result.position_error[:, 0], errors(locked, result.joint_q, poses), atol=ROUNDING)
    controller.reset(locked.mid_joint_q)  # and nothing of it stays behind
    np.testing.assert_array_equal(controller.step(poses).joint_q[:, HELD], np.tile([0.3, -0.4], (robots, 1)))


def test_a_measured_configuration_says_where_they_are_now(locked):
    start, poses = elsewhere(locked, 1, 1)
    controller = begun(locked, [LINK], locked.mid_joint_q)
    result = last_of(controller, 3, poses, start)
    np.testing.assert_array_equal(result.joint_q[:, HELD], start[:, HELD])
    np.testing.assert_allclose(result.position_error[:, 0], errors(locked, result.joint_q, poses), atol=ROUNDING)
    result = last_of(controller, 500, dt=1e-2)  # they are still there
    np.testing.assert_array_equal(result.joint_q[:, HELD], start[:, HELD])
    assert errors(locked, result.joint_q, poses).max() < REACHED


@pytest.mark.evidence
def test_a_locked_base_may_stand_anywhere():
    robot = load_robot("panda", floating_base=True, locked={"floating_base": [0, 0, 0, 0, 0, 0, 1]})
    start = np.array([1.0, -2.0, 0.5, 0.0, 0.6, 0.0, 0.8, *robot.mid_joint_q[7:]])
    pose = pose_of(robot, start + np.repeat([0.0, 0.1], 7), LINK)[None, None]
    result = last_of(begun(robot, [LINK], start), 500, pose, dt=1e-2)
    np.testing.assert_allclose(result.joint_q[0, :7], start[:7], atol=ROUNDING)
    assert errors(robot, result.joint_q, pose).max() < REACHED


def test_a_path_begins_where_its_start_holds_them(locked):
    (start, poses), n = elsewhere(locked, 1, 2), 400
    positions, orientations = (np.repeat(poses[0, :, part], n, axis=0) for part in (slice(3), slice(3, 7)))
    path = IKController(locked, [LINK]).follow(positions, orientations, 1e-2, start_joint_q=start[0])
    np.testing.assert_array_equal(path.joint_q[:, HELD], np.repeat(start[:, HELD], n, axis=0))
    assert errors(locked, path.joint_q[-1:], poses).max() < REACHED

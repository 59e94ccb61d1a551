"""Commands that follow a moving pose: within limits, to the end, and to a stop where poses stop coming."""

import dataclasses

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.integrations.ros.command_stream import CommandStream, StreamSettings
from ik_service.integrations.ros.described_robot import groups_of_lines
from ik_service.integrations.ros.error_codes import RequestRefusedError
from objectives import InputError
from tests.integrations.ros.plain_messages import message, stamped_pose

READY = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
RATE = 500.0  # [Hz]
MET = 1e-4  # [m] the controller's tolerance of positions
ROUNDING = 1e-9  # of differences of float64 over a tick
STILL = 1e-4  # [rad/s]


def pose_of(robot, joint_q, offset=(0.0, 0.0, 0.0)):
    poses = robot.forward_kinematics(joint_q, ["panda_hand"])
    return [*(poses.positions[0, 0] + offset), *poses.orientations_xyzw[0, 0]]


def heard(stream, joint_q=READY):
    names = [f"panda_joint{k + 1}" for k in range(7)]
    stream.hear(message("sensor_msgs/JointState", name=names, position=list(joint_q)))


@pytest.fixture
def robot():
    return load_robot("panda")


def stream_of(robot, **settings):
    group = groups_of_lines(robot, ["arm=panda_hand"])["arm"]
    return CommandStream(robot, group, StreamSettings(rate=RATE, **settings))


def commands(stream, start=0.0, most=5000):
    found = []
    for tick in range(most):
        command = stream.tick(start + tick / RATE)
        if command is None:
            break
        found.append(command)
    return np.array([position for position, _ in found]), np.array([speed for _, speed in found])


@pytest.mark.parametrize(("of_robot", "most"), [(np.inf, 5.0), (2.0, 2.0)], ids=["asked for", "of the robot"])
def test_the_tip_arrives_within_limits_and_commands_end(robot, of_robot, most):
    robot = dataclasses.replace(robot, joint_acceleration_limit=np.full(robot.joint_dof_count, of_robot))
    stream = stream_of(robot, velocity_scaling=0.5)
    heard(stream)
    goal = pose_of(robot, READY, (0.05, 0.1, -0.1))
    stream.take_target(stamped_pose(goal, "panda_link0"), 0.0)
    positions, speeds = commands(stream)
    assert 100 < len(positions) < 5000
    assert np.linalg.norm(np.subtract(pose_of(robot, positions[-1])[:3], goal[:3])) < MET
    assert np.abs(speeds[-1]).max() < STILL
    steps = np.diff(np.vstack((READY, positions)), axis=0)
    assert (np.abs(steps) * RATE <= 0.5 * robot.joint_velocity_limit + ROUNDING * RATE).all()
    changes = np.diff(np.vstack((np.zeros(7), steps * RATE)), axis=0) * RATE
    assert 0.95 * most < np.abs(changes).max() <= most + 0.01  # rounding of positions, twice differentiated
    assert not stream.is_moving


def test_nothing_is_commanded_before_joints_and_a_pose_are_known(robot):
    stream = stream_of(robot)
    assert stream.tick(0.0) is None
    with pytest.raises(RequestRefusedError, match="panda_joint1"):
        stream.take_target(stamped_pose(pose_of(robot, READY)), 0.0)
    heard(stream)
    assert stream.tick(0.0) is None
    with pytest.raises(RequestRefusedError, match="map"):
        stream.take_target(stamped_pose(pose_of(robot, READY), "map"), 0.0)
    with pytest.raises(RequestRefusedError, match="panda_joint1"):
        stream.take_target(stamped_pose(pose_of(robot, READY), "panda_link5"), 0.0)
    assert stream.tick(0.0) is None


def test_joints_brake_where_poses_stop_coming(robot):
    stream = stream_of(robot, target_timeout=0.1)
    heard(stream)
    goal = pose_of(robot, READY, (0.0, 0.4, 0.0))
    stream.take_target(stamped_pose(goal), 0.0)
    positions, speeds = commands(stream)
    assert 100 < len(positions) < 5000
    assert np.abs(speeds).max() > 0.1
    assert np.abs(speeds[-1]).max() < STILL
    assert np.linalg.norm(np.subtract(pose_of(robot, positions[-1])[:3], goal[:3])) > 0.1


def test_a_new_pose_starts_from_measured_positions_once_commands_have_ended(robot):
    stream = stream_of(robot)
    heard(stream)
    stream.take_target(stamped_pose(pose_of(robot, READY)), 0.0)
    positions, _ = commands(stream)
    np.testing.assert_allclose(positions[-1], READY, atol=MET)
    moved = READY + 0.1
    heard(stream, moved)
    stream.take_target(stamped_pose(pose_of(robot, moved, (0.0, 0.0, 0.05))), 0.0)
    first, _ = stream.tick(0.0)
    np.testing.assert_allclose(first, moved, atol=5.0 / RATE**2 + ROUNDING)


@pytest.mark.parametrize(
    "settings", [{"rate": 0.0}, {"rate": 1e5}, {"velocity_scaling": 0.0}, {"target_timeout": -1.0}, {"rate": np.nan}]
)
def test_settings_that_are_not_allowed_are_refused(settings):
    with pytest.raises(InputError, match="Allowed"):
        StreamSettings(**settings)


def test_a_tip_must_be_named_and_be_moved_by_the_group(robot):
    group = groups_of_lines(robot, ["arm=panda_hand,panda_link4", "wrist=panda_link5:panda_hand"])
    with pytest.raises(RequestRefusedError, match="panda_hand, panda_link4"):
        CommandStream(robot, group["arm"], StreamSettings())
    with pytest.raises(RequestRefusedError, match="moves link"):
        CommandStream(robot, group["wrist"], StreamSettings(tip="panda_link2"))

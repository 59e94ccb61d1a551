"""The kernels against the float64 host functions, and the tape against the motion subspace."""

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service.kinematics.device_kinematics import forward_kinematics, integrate, motion_subspace
from ik_service.mechanism.joint_type import JointType
from tests.objectives.conftest import FLOATING

FLOAT32_POSE = 1e-5  # [m, quaternion]: a few roundings per joint over chains of up to thirty joints
ROBOTS = ["panda", "dual_panda", "allegro", "humanoid", "panda_gripper"]


@pytest.fixture(params=[*ROBOTS, "all_joints"])
def robot(request):
    if request.param == "all_joints":
        robot = ik_service.load_robot(FLOATING)
        assert set(robot.joint_type) == set(JointType) - {JointType.FIXED}
        return robot
    return ik_service.load_robot(request.param, collision="ignore")


def configurations(robot, count=20):
    return robot.random_joint_q(np.random.default_rng(3), count).astype(np.float32)


def body_poses(robot, joint_q):
    model = robot.on_device("cpu")
    body_q = wp.zeros((len(joint_q), model.body_count), dtype=wp.transform, device="cpu")
    forward_kinematics(model, wp.array(joint_q, dtype=float, device="cpu"), body_q)
    return model, body_q


def test_body_poses_and_motion_subspace_equal_the_float64_host_functions(robot):
    joint_q = configurations(robot)
    model, body_q = body_poses(robot, joint_q)
    actual, expected = body_q.numpy(), robot.body_poses(joint_q)
    assert np.ptp(expected[..., :3]) > 0.1
    sign = np.sign((actual[..., 3:] * expected[..., 3:]).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(actual[..., :3], expected[..., :3], atol=FLOAT32_POSE)
    np.testing.assert_allclose(actual[..., 3:] * sign, expected[..., 3:], atol=FLOAT32_POSE)
    joint_S_s = wp.zeros((len(joint_q), model.joint_dof_count), dtype=wp.spatial_vector, device="cpu")
    motion_subspace(model, body_q, joint_S_s)
    expected = robot.motion_subspace(joint_q)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(joint_S_s.numpy(), expected, atol=FLOAT32_POSE)


def test_integration_equals_the_float64_host_function_and_keeps_quaternions_unit(robot):
    joint_q = configurations(robot)
    model = robot.on_device("cpu")
    dq = np.random.default_rng(4).uniform(-2.0, 2.0, (len(joint_q), model.joint_dof_count)).astype(np.float32)
    out = wp.zeros(joint_q.shape, dtype=float, device="cpu")
    integrate(model, wp.array(joint_q, device="cpu"), wp.array(dq, device="cpu"), out)
    assert np.abs(out.numpy() - joint_q).max() > 0.5
    np.testing.assert_allclose(out.numpy(), robot.integrate(joint_q, dq), atol=FLOAT32_POSE)


def test_a_tape_through_integration_and_kinematics_gives_the_motion_subspace(robot):
    joint_q = configurations(robot, 3)
    model = robot.on_device("cpu")
    n, body = len(joint_q), model.body_count - 1
    start = wp.array(joint_q, dtype=float, device="cpu")
    dq = wp.zeros((n, model.joint_dof_count), dtype=float, device="cpu", requires_grad=True)
    moved = wp.zeros(joint_q.shape, dtype=float, device="cpu", requires_grad=True)
    body_q = wp.zeros((n, model.body_count), dtype=wp.transform, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        integrate(model, start, dq, moved)
        forward_kinematics(model, moved, body_q)
    position = body_q.numpy()[:, body, :3]
    subspace = robot.motion_subspace(joint_q)
    velocity = subspace[..., :3] + np.cross(subspace[..., 3:], position[:, None, :])
    moves = np.zeros(model.joint_dof_count, dtype=bool)
    joint = body
    while joint >= 0:
        moves[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]] = True
        joint = int(robot.joint_ancestor[joint])
    for axis in range(3):
        seed = np.zeros((n, model.body_count, 7), np.float32)
        seed[:, body, axis] = 1.0
        tape.backward(grads={body_q: wp.array(seed, dtype=wp.transform, device="cpu")})
        expected = np.where(moves, velocity[:, :, axis], 0.0)
        np.testing.assert_allclose(dq.grad.numpy(), expected, atol=1e-4)
        tape.zero()
    assert np.abs(velocity[:, moves]).max() > 0.05

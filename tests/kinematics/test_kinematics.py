"""The kernels against the float64 host functions, and the tape against the motion subspace."""

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service.kinematics.forward_kinematics import forward_kinematics
from ik_service.kinematics.integrate import integrate
from ik_service.kinematics.motion_subspace import motion_subspace
from ik_service.mechanism.joint_type import JointType

FLOAT32_POSE = 1e-5  # [m, quaternion]: a few roundings per joint over chains of up to thirty joints
ROBOTS = ["panda", "dual_panda", "allegro", "humanoid", "panda_gripper"]
ALL_JOINTS = """
<robot name="all_joints">
  <link name="world"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/><link name="e"/><link name="f"/>
  <joint name="base" type="floating"><parent link="world"/><child link="a"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/></joint>
  <joint name="slide" type="planar"><parent link="a"/><child link="b"/>
    <origin xyz="0 0 0.2" rpy="0.5 0 0"/><axis xyz="0 1 1"/></joint>
  <joint name="turn" type="continuous"><parent link="b"/><child link="c"/>
    <origin xyz="0.1 0 0.2"/><axis xyz="1 2 3"/></joint>
  <joint name="lift" type="prismatic"><parent link="c"/><child link="d"/><axis xyz="0 1 1"/>
    <limit lower="-0.2" upper="0.4" effort="1" velocity="1"/></joint>
  <joint name="bend" type="revolute"><parent link="b"/><child link="e"/><origin xyz="0 0.3 0"/><axis xyz="0 -1 0"/>
    <limit lower="-1" upper="2" effort="1" velocity="1"/></joint>
  <joint name="round" type="ball"><parent link="e"/><child link="f"/><origin xyz="0 0 0.3" rpy="0 0.4 0"/></joint>
</robot>
"""


@pytest.fixture(params=[*ROBOTS, "all_joints"])
def robot(request, tmp_path):
    if request.param == "all_joints":
        path = tmp_path / "all_joints.urdf"
        path.write_text(ALL_JOINTS)
        return ik_service.load_robot(path)
    return ik_service.load_robot(request.param, collision="ignore")


def configurations(robot, count=20):
    return robot.random_joint_q(np.random.default_rng(3), count).astype(np.float32)


def body_poses(robot, joint_q):
    model = robot.on_device("cpu")
    body_q = wp.zeros((len(joint_q), model.body_count), dtype=wp.transform, device="cpu")
    forward_kinematics(model, wp.array(joint_q, dtype=float, device="cpu"), body_q)
    return model, body_q


def test_every_type_of_joint_is_among_those_compared():
    assert set(ik_service.load_robot(ALL_JOINTS).joint_type) == set(JointType) - {JointType.FIXED}


def test_body_poses_equal_the_float64_host_function(robot):
    joint_q = configurations(robot)
    actual, expected = body_poses(robot, joint_q)[1].numpy(), robot.body_poses(joint_q)
    assert np.ptp(expected[..., :3]) > 0.1
    sign = np.sign((actual[..., 3:] * expected[..., 3:]).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(actual[..., :3], expected[..., :3], atol=FLOAT32_POSE)
    np.testing.assert_allclose(actual[..., 3:] * sign, expected[..., 3:], atol=FLOAT32_POSE)


def test_motion_subspace_equals_the_float64_host_function(robot):
    joint_q = configurations(robot)
    model, body_q = body_poses(robot, joint_q)
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

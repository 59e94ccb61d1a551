"""The float32 kernels against Pinocchio on robots that nobody here wrote."""

import numpy as np
import pytest
import warp as wp

from ik_service.kinematics.forward_kinematics import forward_kinematics
from ik_service.kinematics.motion_subspace import motion_subspace
from ik_service.mechanism.transforms import quaternion_multiply, quaternion_rotate
from tests.foreign_robots import CASES, Witness, link_jacobian, load_foreign

FLOAT32 = 1e-5  # [m, quaternion, unit twist]: a rounding of 1e-7 per joint on chains of forty, 2 m away from the origin
CONFIGURATIONS = 3


@pytest.mark.parametrize(("distribution", "ending", "floating"), CASES)
def test_device_poses_and_jacobians_equal_those_of_pinocchio(distribution, ending, floating):
    robot, theirs = load_foreign(distribution, ending, floating)
    witness, model = Witness(robot, theirs), robot.on_device("cpu")
    joint_q = robot.random_joint_q(np.random.default_rng(6), CONFIGURATIONS)
    joint_q = robot.clamp_joint_q(np.clip(joint_q, -np.pi, np.pi))  # some limits are a thousand turns or metres wide
    joint_q = joint_q.astype(np.float32).astype(np.float64)  # both sides get the same
    body_q = wp.zeros((CONFIGURATIONS, model.body_count), dtype=wp.transform, device="cpu")
    joint_S_s = wp.zeros((CONFIGURATIONS, model.joint_dof_count), dtype=wp.spatial_vector, device="cpu")
    forward_kinematics(model, wp.array(joint_q, dtype=float, device="cpu"), body_q)
    motion_subspace(model, body_q, joint_S_s)
    bodies, subspace = body_q.numpy().astype(np.float64), joint_S_s.numpy().astype(np.float64)
    compared = 0
    for row in range(CONFIGURATIONS):
        witness.place(joint_q[row])
        for link in robot.link_names:
            body, offset = robot.link_frame(link)
            if body < 0:
                continue
            position = bodies[row, body, :3] + quaternion_rotate(bodies[row, body, 3:], offset[:3])
            rotation = quaternion_multiply(bodies[row, body, 3:], offset[3:])
            expected = witness.pose(link)
            np.testing.assert_allclose(position, expected.translation, atol=FLOAT32, err_msg=link)
            matrix = np.array([quaternion_rotate(rotation, axis) for axis in np.eye(3)]).T
            np.testing.assert_allclose(matrix, expected.rotation, atol=FLOAT32, err_msg=link)
            jacobian = link_jacobian(robot, subspace[row], link, position)
            np.testing.assert_allclose(jacobian, witness.jacobian(link), atol=FLOAT32, err_msg=link)
            compared += 1
    assert compared >= CONFIGURATIONS * robot.body_count

"""Success rates on random reachable targets, judged apart from the solver, and the honesty of `success`."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_multiply
from ik_service.robots import load_urdf
from objectives import IKObjectiveRotation
from tests.solver.conftest import cpu_solver

pytestmark = pytest.mark.usefixtures("each_engine")


def test_the_nearest_pose_of_an_unreachable_target_points_at_it_or_stands_at_the_limit_in_the_way(planar_2r):
    robot = planar_2r()
    result = cpu_solver(robot, ["tip"]).solve([[3.0, 4.0, 0.0]], options={"max_iterations": 200})
    tip = robot.forward_kinematics(result.joint_q, ["tip"]).positions[0, 0]
    np.testing.assert_allclose(tip, [1.2, 1.6, 0.0], atol=1e-2)
    assert result.position_error[0, 0] == pytest.approx(3.0, abs=1e-3)
    result = cpu_solver(planar_2r(elbow_lower=0.5, elbow_upper=2.0), ["tip"]).solve([[2.0, 0.0, 0.0]])  # cannot stretch
    assert result.status_names == ["blocked_by_limits"]
    assert result.active_limits[0].tolist() == [False, True]
    assert 0.5 <= result.joint_q[0, 1] == pytest.approx(0.5, abs=1e-6)


def test_continuous_joints_come_back_on_the_turn_nearest_the_start():
    robot = load_urdf("""<robot name="wheel"><link name="base"/><link name="rim"/><joint name="spin" type="continuous">
      <parent link="base"/><child link="rim"/><axis xyz="0 0 1"/></joint></robot>""")
    half, start = 0.5 * np.array([0.4, 0.4, 3.0]), np.array([[20.0], [-7.0], [3.5]])
    orientations = np.stack([0 * half, 0 * half, np.sin(half), np.cos(half)], axis=1)
    result = cpu_solver(robot, ["rim"]).solve(None, orientations, initial_joint_q=start)
    assert result.success.all()
    assert (np.abs(result.joint_q - start) <= np.pi + 1e-6).all()
    np.testing.assert_allclose(np.cos(result.joint_q[:, 0] - [0.4, 0.4, 3.0]), 1.0, atol=1e-5)


@pytest.mark.evidence_cases("auto")
def test_a_start_turned_by_half_a_turn_is_not_the_answer(panda):
    start = panda.forward_kinematics(panda.mid_joint_q, ["panda_hand"]).orientations_xyzw[:, 0]
    flipped = quaternion_multiply(np.array([[1.0, 0.0, 0.0, 0.0]]), start)
    turned = cpu_solver(panda, objectives=[IKObjectiveRotation("panda_hand", flipped)])
    result = turned.solve(problem_count=1)
    assert result.success[0]
    assert result.cost[0] < 1e-9


@pytest.mark.evidence_cases("auto")
def test_a_floating_base_gets_to_targets_far_away(humanoid):
    result = cpu_solver(humanoid, ["left_grasp"]).solve([[3.0, 0.1, 1.0], [30.0, 0.1, 1.0], [100.0, 0.1, 1.0]])
    assert result.success.all()
    assert result.iterations.max() <= 20

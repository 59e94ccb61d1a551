"""Objects of newton.ik run unchanged, and the cases of its Levenberg-Marquardt tests hold here.

Cases of its suite for joints that we do not have (D6, DISTANCE, loop joints) and for L-BFGS have no counterpart; those
on residual and Jacobian kernels are in tests/objectives, those on forward kinematics in tests/kinematics.
"""

import newton.ik
import numpy as np
import pytest
import warp as wp

import ik_service
from objectives import IKObjectivePose, IKObjectivePosition
from tests.solver.conftest import Reachable

MODES = ["analytic", "autodiff", "mixed"]
FREE_AND_REVOLUTE = """
<robot name="free_and_revolute">
  <link name="world"/><link name="body"/><link name="arm"/>
  <joint name="free" type="floating"><parent link="world"/><child link="body"/></joint>
  <joint name="hinge" type="revolute"><parent link="body"/><child link="arm"/><origin xyz="0.5 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>
"""
DESCENDANT_FREE = """
<robot name="descendant_free">
  <link name="world"/><link name="base"/><link name="body"/>
  <joint name="turn" type="continuous"><parent link="world"/><child link="base"/>
    <origin xyz="0.2 -0.1 0.3" rpy="0.15 0.1 0.5"/><axis xyz="0 0 1"/></joint>
  <joint name="free" type="floating"><parent link="base"/><child link="body"/>
    <origin xyz="0.7 -0.2 0.4" rpy="0.1 0.6 -0.2"/></joint>
</robot>
"""


def load(tmp_path, text):
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    return ik_service.load_robot(path)


def options(mode, **changes):
    return ik_service.SolverOptions(jacobian_mode=mode, **changes)


@pytest.mark.parametrize("mode", MODES)
def test_newton_position_and_rotation_objectives_converge(panda, mode):
    problems = Reachable.draw(panda, ["panda_hand"], 20)
    body, offset = panda.link_frame("panda_hand")
    pose = [
        newton.ik.IKObjectivePosition(
            body, wp.vec3(*offset[:3]), wp.array(problems.positions[:, 0], dtype=wp.vec3, device="cpu")
        ),
        newton.ik.IKObjectiveRotation(
            body, wp.quat(*offset[3:]), wp.array(problems.orientations_xyzw[:, 0], dtype=wp.vec4, device="cpu")
        ),
    ]
    solver = ik_service.IKSolver(panda, objectives=pose, device="cpu", options=options(mode, seeds=1))
    near = problems.joint_q + np.random.default_rng(1).uniform(-0.15, 0.15, problems.joint_q.shape)
    result = solver.solve(problem_count=20, initial_joint_q=near)
    start = problems.errors(panda.clamp_joint_q(near))
    distance, angle = problems.errors(result.joint_q)
    assert start[0].max() > 0.05
    assert distance.max() < 1e-4
    assert angle.max() < 1e-3
    assert result.success.all()


@pytest.mark.parametrize("mode", MODES)
def test_newton_limit_objective_holds_back_a_target_past_the_limit(planar_2r, mode):
    robot = planar_2r(elbow_lower=-2.0, elbow_upper=1.0)
    model = robot.on_device("cpu")
    target = wp.array([[0.0, 1.2, 0.0]] * 3, dtype=wp.vec3, device="cpu")  # asks for an elbow of 1.85
    body, offset = robot.link_frame("tip")

    def solve(weight):
        objectives = [
            newton.ik.IKObjectivePosition(body, wp.vec3(*offset[:3]), target),
            newton.ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=weight),
        ]
        chosen = options(mode, joint_limits="off", seeds=1)
        solver = ik_service.IKSolver(robot, objectives=objectives, device="cpu", options=chosen)
        return solver.solve(problem_count=3, initial_joint_q=[0.3, 0.5])

    free, held = solve(1e-6), solve(100.0)
    assert (free.joint_q[:, 1] > 1.5).all()
    np.testing.assert_allclose(held.joint_q[:, 1], 1.0, atol=1e-3)
    assert held.success.all()


@pytest.mark.parametrize("mode", MODES)
def test_planar_arm_converges_from_zero(planar_2r, mode):
    robot = planar_2r()
    target = IKObjectivePosition("tip", np.tile([1.5, 1.0, 0.0], (3, 1)))
    solver = ik_service.IKSolver(robot, objectives=[target], device="cpu", options=options(mode, seeds=1))
    result = solver.solve(problem_count=3, initial_joint_q=[0.0, 0.0])
    tip = robot.forward_kinematics(result.joint_q, ["tip"]).positions[:, 0]
    np.testing.assert_allclose(tip, np.tile([1.5, 1.0, 0.0], (3, 1)), atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_free_base_with_a_hinge_converges(tmp_path, mode):
    robot = load(tmp_path, FREE_AND_REVOLUTE)
    solver = ik_service.IKSolver(
        robot, [ik_service.Target("arm", offset=(1, 0, 0, 0, 0, 0, 1))], device="cpu", options=options(mode)
    )
    result = solver.solve(np.tile([1.0, 1.0, 0.0], (3, 1)))
    assert result.success.all()
    assert result.position_error.max() < 1e-3
    np.testing.assert_allclose(np.linalg.norm(result.joint_q[:, 3:7], axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_free_joint_below_a_rotated_anchor_converges(tmp_path, mode):
    robot = load(tmp_path, DESCENDANT_FREE)
    tool = (0.15, -0.05, 0.2, 0.0, 0.0, np.sin(0.45), np.cos(0.45))
    pose = IKObjectivePose("body", [0.3, 0.5, 0.8], [0.0, np.sin(0.6), 0.0, np.cos(0.6)], offset=tool)
    solver = ik_service.IKSolver(robot, objectives=[pose], device="cpu", options=options(mode, seeds=1))
    result = solver.solve(problem_count=1)
    assert result.success.all()
    assert result.cost[0] < 1e-10


def test_frozen_joints_stay_to_the_bit_and_the_free_one_reaches_its_optimum(planar_2r):
    start = np.array([[0.4, 0.0], [-0.2, 0.1]], np.float32)
    targets = np.array([[1.0, 1.0, 0.0], [0.5, 1.2, 0.0]])
    for k in range(2):
        robot = planar_2r().lock({"shoulder": float(start[k, 0])})
        solver = ik_service.IKSolver(robot, ["tip"], device="cpu")
        result = solver.solve(targets[k : k + 1], initial_joint_q=start[k])
        assert result.joint_q[0, 0] == start[k, 0]
        elbow = np.linspace(-3.1, 3.1, 20001)
        x = np.cos(start[k, 0]) + np.cos(start[k, 0] + elbow)
        y = np.sin(start[k, 0]) + np.sin(start[k, 0] + elbow)
        best = np.hypot(x - targets[k, 0], y - targets[k, 1]).min()
        assert best - 1e-6 <= result.position_error[0, 0] < best + 1e-3


def test_all_joints_active_equals_no_choice_at_all(planar_2r):
    robot = planar_2r()
    answers = [
        ik_service.IKSolver(r, ["tip"], device="cpu").solve([[0.7, 0.9, 0.0]]).joint_q
        for r in (robot, robot.activate(["shoulder", "elbow"]))
    ]
    np.testing.assert_array_equal(*answers)


def test_a_locked_free_joint_keeps_its_pose_while_the_hinge_moves(tmp_path):
    half = 0.35 * np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    rotation = np.append(np.sin(0.35) * half / 0.35, np.cos(0.35))
    pose = np.concatenate([[0.1, -0.2, 0.3], rotation])
    robot = load(tmp_path, FREE_AND_REVOLUTE).lock({"free": pose})
    solver = ik_service.IKSolver(robot, [ik_service.Target("arm", offset=(1, 0, 0, 0, 0, 0, 1))], device="cpu")
    result = solver.solve([[1.0, 0.5, 0.0]], initial_joint_q=robot.mid_joint_q)
    np.testing.assert_allclose(result.joint_q[0, :7], pose, atol=1e-6)
    assert abs(result.joint_q[0, 7]) > 1e-3

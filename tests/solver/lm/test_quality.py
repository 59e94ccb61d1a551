"""Success rates on random reachable targets, judged apart from the solver, and the honesty of `success`."""

import numpy as np
import pytest

from ik_service import SolverOptions, Target
from ik_service.mechanism.transforms import quaternion_multiply
from ik_service.robots import load_urdf
from objectives import IKObjectivePose, IKObjectiveRotation
from tests.solver.conftest import ORIENTATION, POSITION, Reachable, bare_robot, cpu_solver, inside_limits

pytestmark = pytest.mark.usefixtures("each_engine")


def test_unreachable_targets_are_never_called_a_success(panda):
    positions = np.random.default_rng(0).uniform(2.0, 3.0, (50, 3))
    solver = cpu_solver(panda, ["panda_hand"], options=SolverOptions(seeds=4))
    result = solver.solve(positions)
    assert not result.success.any()
    assert set(result.status_names) <= {"stalled", "max_iterations", "blocked_by_limits", "unreachable"}
    assert (result.position_error > 1.0).all()
    assert np.isfinite(result.joint_q).all()
    assert inside_limits(panda, result.joint_q).all()


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


@pytest.mark.evidence_cases("auto-soft")
@pytest.mark.parametrize("limits", ["soft", "off"])
def test_limits_that_are_not_hard_may_be_left(planar_2r, limits):
    robot = planar_2r(elbow_lower=0.5, elbow_upper=2.0)
    solver = cpu_solver(robot, ["tip"], options=SolverOptions(joint_limits=limits))
    result = solver.solve([[2.0, 0.0, 0.0]])
    elbow = float(result.joint_q[0, 1])
    if limits == "off":
        assert result.success[0]
        assert abs(elbow) < 0.1
    else:  # the penalty and the target meet half-way
        assert 0.1 < elbow < 0.5


def test_continuous_joints_come_back_on_the_turn_nearest_the_start():
    robot = load_urdf("""<robot name="wheel"><link name="base"/><link name="rim"/><joint name="spin" type="continuous">
      <parent link="base"/><child link="rim"/><axis xyz="0 0 1"/></joint></robot>""")
    half, start = 0.5 * np.array([0.4, 0.4, 3.0]), np.array([[20.0], [-7.0], [3.5]])
    orientations = np.stack([0 * half, 0 * half, np.sin(half), np.cos(half)], axis=1)
    result = cpu_solver(robot, ["rim"]).solve(None, orientations, initial_joint_q=start)
    assert result.success.all()
    assert (np.abs(result.joint_q - start) <= np.pi + 1e-6).all()
    np.testing.assert_allclose(np.cos(result.joint_q[:, 0] - [0.4, 0.4, 3.0]), 1.0, atol=1e-5)


@pytest.mark.parametrize("engine", ["staged", "compiled"])
@pytest.mark.parametrize("weights", [[1e-3] * 6, [1e3] * 6, [1, 1, 1, 1e-2, 1e-2, 1e-2], [0.1, 0.1, 0.1, 1, 1, 1]])
def test_success_does_not_hang_on_the_scale_of_the_weights(panda_targets, engine, weights):
    few, target = panda_targets.part(slice(100)), Target("panda_hand", row_weights=weights)
    result = cpu_solver(few.robot, [target], engine=engine).solve(*few.targets)
    few.check_honest(result)
    assert result.success.mean() >= 0.95


@pytest.mark.evidence_cases("auto-0.001", "auto-1.0", "auto-1000.0")
@pytest.mark.parametrize("weight", [1.0, 1e-3, 1e3])
def test_objectives_alone_take_the_best_of_all_seeds(weight):
    problems = Reachable.draw(bare_robot("ur5e"), ["tool0"], 100, random_seed=0)
    pose = IKObjectivePose("tool0", problems.positions[:, 0], problems.orientations_xyzw[:, 0], weight=weight)
    result = cpu_solver(problems.robot, objectives=[pose]).solve(problem_count=100)
    distance, angle = problems.errors(result.joint_q)
    assert min((distance < POSITION).mean(), (angle < ORIENTATION).mean()) >= 0.98


@pytest.mark.evidence_cases("auto")
def test_a_start_turned_by_half_a_turn_is_not_the_answer(panda):
    """There the cost is greatest and its gradient zero."""
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

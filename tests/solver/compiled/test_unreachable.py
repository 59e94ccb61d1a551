"""Targets that are proven out of reach: their status, and that no reachable target has it."""

import numpy as np
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.solver.lm.status import IKStatus
from tests.compiler.closed_form.arms import BUILTIN, NAMES, anywhere, configurations, disturbed, robot_of, text_of
from tests.solver.conftest import cpu_solver

FAR = np.array([3.0, 0.0, 0.5])
UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])
COUNT = 1000


def limits_of(robot):
    lower = np.where(np.isfinite(robot.active_limit_lower), robot.active_limit_lower, -np.pi)
    return lower, np.where(np.isfinite(robot.active_limit_upper), robot.active_limit_upper, np.pi)


def reachable(robot, link, rng, count=COUNT):
    joint_q = np.tile(robot.mid_joint_q, (count, 1))
    joint_q[:, robot.dof_coordinate[robot.active_dof]] = configurations(robot, count, rng, *limits_of(robot))
    poses = robot.forward_kinematics(joint_q, [link])
    return disturbed(poses.positions[:, 0], poses.orientations_xyzw[:, 0], rng, 1e-3, 1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_no_target_within_tolerance_of_a_reachable_one_is_called_unreachable(name):
    robot, link = robot_of(name)
    result = cpu_solver(robot, [link]).solve(*reachable(robot, link, np.random.default_rng(3)), options={"seeds": 16})
    assert not (result.status == IKStatus.UNREACHABLE).any()
    assert result.success.mean() > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_unreachable_targets_are_not_met_by_many_seeds(name):
    robot, link = robot_of(name)
    targets = anywhere(robot, link, np.random.default_rng(4), COUNT)
    solver = cpu_solver(robot, [link])
    proven = solver.solve(*targets).status == IKStatus.UNREACHABLE
    assert proven.mean() > 0.5
    all_seeds = solver.solve(*targets, options={"best_of": "cost", "seeds": 64})
    assert not all_seeds.success[proven].any()
    assert (all_seeds.status[proven] == IKStatus.UNREACHABLE)[all_seeds.seed_index[proven] >= 0].mean() > 0.5


def test_a_proven_target_gets_one_attempt_from_its_start():
    robot, link = robot_of("panda")
    start = 0.5 * robot.mid_joint_q
    result = cpu_solver(robot, [link]).solve(FAR[None], UPRIGHT[None], initial_joint_q=start)
    assert result.status_names == ["unreachable"]
    assert not result.success[0]
    assert result.seed_index[0] == 0
    assert 1.5 < result.position_error[0, 0] < 3.0
    lower, upper = limits_of(robot)
    assert (result.joint_q[0, :7] >= lower - 1e-6).all()
    assert (result.joint_q[0, :7] <= upper + 1e-6).all()


def test_limits_and_tools_of_each_problem_count():
    robot, link = robot_of("ur5e")
    joint_q = np.array([0.3, -1.2, 1.4, -0.8, 0.9, 0.2])
    poses = robot.forward_kinematics(joint_q[None], [link])
    positions, orientations = (np.repeat(one[:, 0], 2, axis=0) for one in (poses.positions, poses.orientations_xyzw))
    solver = cpu_solver(robot, [link])
    lower, upper = np.tile(robot.joint_limit_lower, (2, 1)), np.tile(robot.joint_limit_upper, (2, 1))
    lower[1, 2], upper[1, 2] = -0.1, 0.1  # an elbow that stays stretched
    result = solver.solve(positions, orientations, joint_limits=(lower, upper))
    assert result.status_names == ["converged", "unreachable"]
    tools = np.array([[0.0, 0.0, 0.0, *UPRIGHT], [0.0, 0.0, 2.0, *UPRIGHT]])
    result = cpu_solver(robot, [Target(link, offset=tools)]).solve(positions, orientations)
    assert result.status_names == ["converged", "unreachable"]


RAIL = """<link name="floor"/><link name="cart"/><joint name="rail" type="prismatic"><parent link="floor"/>
<child link="cart"/><origin xyz="0.3 0 0.1" rpy="0.2 0 0"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="2" effort="1" velocity="1"/></joint><joint name="swivel" type="revolute">
<parent link="cart"/><child link="l0"/><origin xyz="0 0.1 0.2" rpy="0 0.3 0"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint><link name="l0"/>"""
OPTIONS = [
    {},
    {"want": "success"},
    {"solutions": 3},
    {"best_of": "cost"},
    {"deadline_s": 5.0},
    {"precision": "float64"},
]
LOCKED = {"rail": 0.4, "swivel": -0.6}


@pytest.mark.parametrize("name", ["spherical", "seven"])
def test_an_arm_on_locked_joints_has_branches_and_proofs_where_they_are_locked(name):
    whole = load_robot(text_of(name).replace('<link name="l0"/>', RAIL, 1))
    robot, rng = whole.lock(LOCKED), np.random.default_rng(8)
    solver, targets = cpu_solver(robot, ["tip"]), reachable(robot, "tip", rng)
    result = solver.solve(*targets)
    assert result.success.mean() > 0.8  # the others are at ends of limits and tolerances
    assert (result.proof == 0).all()
    assert name != "spherical" or (result.seed_index == -1).mean() > 0.7
    far = targets[0] + np.array([0.0, 2.5, 0.0])
    assert (solver.solve(far, targets[1]).proof > 0).mean() > 0.9
    moved = whole.lock({"rail": 1.9, "swivel": 1.0})  # a start locks the joints elsewhere
    beyond = reachable(moved, "tip", rng)
    assert (solver.solve(*beyond).proof > 0).any()
    found = solver.solve(*beyond, initial_joint_q=moved.mid_joint_q)
    assert (found.proof == 0).all()
    assert found.success.mean() > 0.8


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("links", [["tool0", "forearm_link"], ["forearm_link", "tool0"]])
def test_a_proof_of_one_target_stays_whatever_the_others_are(links, options):
    robot, _ = robot_of("ur5e")
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(5), 10), links)
    positions = poses.positions.copy()
    positions[:, links.index("forearm_link"), 0] += 9.0
    result = cpu_solver(robot, links).solve(positions, poses.orientations_xyzw, options=options)
    assert result.status_names == ["unreachable"] * 10
    assert (result.proof == 1).all()


@pytest.mark.parametrize("links", [["l3", "tip"], ["tip", "l3"]])
def test_a_start_that_locks_joints_elsewhere_takes_no_proof_of_another_target(links):
    robot = load_robot(text_of("spherical").replace('<link name="l0"/>', RAIL, 1)).lock(LOCKED)
    moved = np.tile(robot.mid_joint_q, (10, 1))
    moved[:5, 0] += 0.5
    poses = robot.forward_kinematics(np.tile(robot.mid_joint_q, (10, 1)), links)
    positions = poses.positions.copy()
    positions[:, links.index("l3")] += 9.0
    for options in OPTIONS[:3]:
        given = positions, poses.orientations_xyzw
        result = cpu_solver(robot, links).solve(*given, initial_joint_q=moved, options=options)
        assert (result.status_names, result.proof.tolist()) == (["unreachable"] * 10, [1] * 10)


def test_targets_with_free_rows_and_relative_ones_have_no_proof():
    robot, link = robot_of("panda")
    free = cpu_solver(robot, [Target(link, free=["rz"])]).solve(FAR[None], UPRIGHT[None])
    assert free.status_names != ["unreachable"]
    relative = cpu_solver(robot, [Target(link, reference_link="panda_link2")]).solve(FAR[None], UPRIGHT[None])
    assert relative.status_names != ["unreachable"]


def test_wide_tolerances_and_limits_that_are_off_are_respected():
    robot, link = robot_of("panda")
    solver = cpu_solver(robot, [link])
    wide = solver.solve(FAR[None], UPRIGHT[None], options={"position_tolerance": 5.0})
    assert wide.status_names != ["unreachable"]
    robot, link = robot_of("spherical")
    joint_q = robot.random_joint_q(np.random.default_rng(6), 50)
    joint_q[:, 2] = robot.joint_limit_upper[2] + 0.5
    poses = robot.forward_kinematics(joint_q, [link])
    targets = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    hard = cpu_solver(robot, [link]).solve(*targets)
    free = cpu_solver(robot, [link], options=SolverOptions(joint_limits="off")).solve(*targets)
    assert (hard.status == IKStatus.UNREACHABLE).sum() > 5
    assert free.success.all()


@pytest.mark.parametrize("name", NAMES)
def test_yes_or_no_is_the_same_without_an_attempt_beside_a_proof(name):
    robot, link = robot_of(name)
    rng = np.random.default_rng(14)
    some, others = anywhere(robot, link, rng, COUNT), reachable(robot, link, rng)
    targets = [np.concatenate(pair) for pair in zip(some, others, strict=True)]
    solver = cpu_solver(robot, [link])
    answer, asked = solver.solve(*targets), solver.solve(*targets, options={"want": "success"})
    np.testing.assert_array_equal(answer.success, asked.success)
    np.testing.assert_array_equal(answer.status, asked.status)
    assert answer.joint_q[answer.success].tobytes() == asked.joint_q[asked.success].tobytes()
    without = np.isnan(asked.cost)
    assert without.sum() > COUNT / 3
    assert (asked.status[without] == IKStatus.UNREACHABLE).all()
    assert (asked.joint_q[without] == robot.mid_joint_q.astype(np.float32)).all()


@pytest.mark.parametrize("name", [*BUILTIN, "seven"])
def test_a_search_without_a_proof_ends_early_unless_the_number_of_seeds_is_given(name):
    robot, link = robot_of(name)
    targets = anywhere(robot, link, np.random.default_rng(15), 4 * COUNT)
    solver = cpu_solver(robot, [link])
    result = solver.solve(*targets)
    left = ~result.success & (result.status != IKStatus.UNREACHABLE)
    seeds = solver._core.work.problems.searches.next_seed.numpy()[: len(left), 0]
    assert left.any()
    assert (seeds[left] <= 300).mean() > 0.5
    some = [one[left] for one in targets]
    solver.solve(*some, options={"seeds": 400})
    assert (solver._core.work.problems.searches.next_seed.numpy()[: left.sum(), 0] == 400).all()

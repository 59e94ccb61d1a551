"""Whole turns: of the angles that give the same pose, the one nearest the start that the limits hold comes back."""

import itertools

import numpy as np
import pytest

from ik_service import SolverOptions
from ik_service.robots import load_urdf
from ik_service.solver.arrays.limit_arrays import coordinates_read
from objectives import IKObjectivePosture
from tests.solver.conftest import Reachable, bare_robot, cpu_solver, inside_limits
from tests.solver.quick_objective import QuickObjective

TURN = 2.0 * np.pi
ROUNDING = 2e-6  # [rad] of float32 angles of a few turns
REACH = 2.0 * ROUNDING  # [m], by which that moves a tip 2 m away
COUNT = 100
TWO_JOINTS = """
<robot name="two_joints"><link name="base"/><link name="upper"/><link name="fore"/><link name="tip"/>{further}
  <joint name="shoulder" type="{kind}"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit {limits} effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="mount" type="fixed"><parent link="fore"/><child link="tip"/><origin xyz="1 0 0"/></joint>
</robot>
"""
FOLLOWER = """<link name="hand"/>
  <joint name="follower" type="{kind}"><parent link="fore"/><child link="hand"/><origin xyz="1 0 0"/>
    <axis xyz="0 0 1"/><limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>
    <mimic joint="shoulder" multiplier="{multiplier}" offset="0.25"/></joint>
"""
WIDE = 'lower="-7" upper="10"'


def two_joints(kind="revolute", limits=WIDE, further=""):
    return load_urdf(TWO_JOINTS.format(kind=kind, limits=limits, further=further))


def drawn(robot, link="tip", count=COUNT):
    """Targets, and starts anywhere inside the limits."""
    problems = Reachable.draw(robot, [link], count, random_seed=3)
    return problems, robot.random_joint_q(np.random.default_rng(4), count).astype(np.float32)


def solve(problems, start, **options):
    return cpu_solver(problems.robot, problems.links).solve(*problems.targets, initial_joint_q=start, options=options)


def could_turn(robot, joint_q, start):
    """How much nearer the start a turn inside the limits would bring a coordinate at most, [n]."""
    least = np.abs(joint_q - start)
    for turns in (-3, -2, -1, 1, 2, 3):
        turned = joint_q + TURN * turns
        inside = (turned >= robot.joint_limit_lower) & (turned <= robot.joint_limit_upper)
        least = np.where(inside, np.minimum(least, np.abs(turned - start)), least)
    return (np.abs(joint_q - start) - least).max(axis=1)


@pytest.fixture(scope="module")
def ur5e():
    return drawn(bare_robot("ur5e"), "tool0")


@pytest.mark.evidence_cases("threads")
@pytest.mark.usefixtures("each_way")
def test_an_answer_comes_back_on_the_turns_nearest_the_start(ur5e):
    problems, start = ur5e
    result = solve(problems, start)
    problems.check_honest(result)
    assert result.success.mean() > 0.98
    assert could_turn(problems.robot, result.joint_q, start).max() <= ROUNDING
    np.testing.assert_allclose(result.position_error, problems.errors(result.joint_q)[0], atol=1e-9)  # after the turn


@pytest.mark.evidence_cases("threads-float32", "threads-float64")
@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_nearest_is_the_nearest_of_all_solutions_on_all_turns(ur5e, precision):
    problems, start = ur5e
    robot, turns = problems.robot, TURN * np.arange(-2, 3)
    nearest = solve(problems, start, best_of="nearest", precision=precision)
    assert nearest.success.all()
    assert nearest.position_error.max() <= (1e-9 if precision == "float64" else 1e-3)
    assert inside_limits(robot, nearest.joint_q).all()
    every = solve(problems, None, solutions=64, solution_difference=1e-4).solutions
    copies = every[:, :, None, :] + turns[:, None]  # [problems, solutions, turns, coordinates]
    copies[(copies < robot.joint_limit_lower) | (copies > robot.joint_limit_upper)] = np.nan
    gaps = np.nanmin(np.abs(copies - start[:, None, None]), axis=2, initial=np.inf)
    gaps[np.isnan(every)] = np.inf
    least = gaps.max(axis=2).min(axis=1)
    change = np.abs(nearest.joint_q - start).max(axis=1)
    # the seeds of both are the same, but for the start that is tried before them
    assert (change <= least + 1e-3).all()
    assert could_turn(robot, nearest.joint_q, start).max() <= ROUNDING


@pytest.mark.evidence_cases("threads")
@pytest.mark.usefixtures("each_kernel")
def test_solutions_come_back_on_the_turns_nearest_the_start(ur5e):
    problems, start = ur5e
    result = solve(problems, start, solutions=8)
    assert (result.solution_count > 2).mean() > 0.9
    np.testing.assert_array_equal(result.solutions[:, 0], result.joint_q)
    for k in range(8):
        found = result.solution_count > k
        assert could_turn(problems.robot, result.solutions[found, k], start[found]).max(initial=0.0) <= ROUNDING
        assert inside_limits(problems.robot, result.solutions[found, k]).all()
        assert (problems.part(found).errors(result.solutions[found, k])[0] <= 1e-3).all()


@pytest.mark.evidence_cases("threads-False", "threads-True")
@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("started", [False, True])
def test_no_solution_is_a_copy_of_another_a_turn_apart_where_limits_are_wide(ur5e, started):
    problems, start = ur5e
    result = solve(problems, start if started else None, solutions=12, solution_difference=0.2)
    compared = 0
    for found, count in zip(result.solutions, result.solution_count, strict=True):
        for one, other in itertools.combinations(found[:count].astype(np.float64), 2):
            gaps = one - other
            assert np.abs(gaps - TURN * np.round(gaps / TURN)).max() > 0.2 - ROUNDING
            compared += 1
    assert compared > 5 * COUNT
    assert (problems.robot.active_limit_upper > TURN - ROUNDING).any()  # else copies would have had no room


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("kind", ["continuous", "revolute"])
def test_an_elbow_has_two_solutions_half_a_turn_away_from_the_start(kind):
    robot = two_joints(kind, "" if kind == "continuous" else 'lower="-7" upper="7"')
    joint_q = np.stack([np.pi + np.linspace(-2e-6, 2e-6, 40), np.linspace(0.5, 1.5, 40)], axis=1)
    poses = robot.forward_kinematics(joint_q, ["tip"])
    solver = cpu_solver(robot, ["tip"])
    options = {"solutions": 8, "seeds": 64}
    result = solver.solve(poses.positions, initial_joint_q=np.zeros(2), options=options)
    assert (result.solution_count == 2).all()
    shoulder = result.solutions[:, :2, 0]
    behind = np.isclose(np.abs(shoulder), np.pi, atol=1e-4)
    assert behind.any(axis=1).all()
    assert set(np.sign(shoulder[behind])) == {-1.0, 1.0}  # rounding puts them on either turn


def leader_could_turn(robot, joint_q, start):
    """How much nearer the start a turn inside its and its follower's limits would bring the shoulder, [n]."""
    shoulder, least = joint_q[:, 0].astype(np.float64), np.abs(joint_q[:, 0] - start[:, 0])
    for turns in range(-6, 7):
        turned = shoulder + TURN * turns
        inside = (turned >= robot.active_limit_lower[0]) & (turned <= robot.active_limit_upper[0])
        least = np.where(inside, np.minimum(least, np.abs(turned - start[:, 0])), least)
    return np.abs(shoulder - start[:, 0]) - least


def assert_follower_is_led(robot, result, problems, multiplier):
    led = np.float32(multiplier) * result.joint_q[:, 0] + np.float32(0.25)
    np.testing.assert_allclose(result.joint_q[:, 2], led, atol=8.0 * ROUNDING)  # angles of up to eight turns
    assert inside_limits(robot, result.joint_q).all()
    np.testing.assert_allclose(result.position_error, problems.errors(result.joint_q)[0], atol=1e-9)


FOLLOWERS = [("revolute", multiplier) for multiplier in ("-1", "2", "0", "0.5")] + [("prismatic", "1")]
LEADERS = ("revolute", "continuous")


@pytest.mark.quick_cases(*(f"staged-{leader}-{kind}-{factor}" for leader in LEADERS for kind, factor in FOLLOWERS))
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize(("kind", "multiplier"), FOLLOWERS)
@pytest.mark.parametrize("leader", LEADERS)
def test_followers_turn_with_their_leader_where_they_come_round(kind, multiplier, leader):
    turns = multiplier in ("-1", "2", "0")
    further = FOLLOWER.format(kind=kind, lower=-60, upper=60, multiplier=multiplier)
    robot = two_joints(leader, "" if leader == "continuous" else WIDE, further=further)
    problems, _ = drawn(robot, "hand")
    start = np.random.default_rng(5).uniform(-7.0, 10.0, (COUNT, 3)) * [1.0, 0.3, 0.0]
    result = solve(problems, start)
    assert_follower_is_led(robot, result, problems, multiplier)
    nearer = leader_could_turn(robot, result.joint_q, start)
    assert (nearer.max() <= ROUNDING) if turns else (nearer.max() > 0.5)
    if turns:
        assert result.success.mean() > 0.9


@pytest.mark.quick_cases("threads-options0", "threads-options1")
@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("options", [{}, {"best_of": "nearest"}, {"precision": "float64"}])
def test_a_turn_keeps_followers_inside_their_limits(options):
    further = FOLLOWER.format(kind="revolute", lower=-3, upper=7, multiplier="1")
    robot = two_joints("revolute", 'lower="-20" upper="20"', further=further)
    problems, _ = drawn(robot, "hand")
    start = np.random.default_rng(5).uniform(-3.0, 7.0, (COUNT, 3)) * [1.0, 0.3, 0.0]
    result = solve(problems, start, **options)
    assert result.success.mean() > 0.9
    assert_follower_is_led(robot, result, problems, "1")
    assert leader_could_turn(robot, result.joint_q, start).max() <= ROUNDING


@pytest.mark.evidence_cases("auto", "threads")
@pytest.mark.usefixtures("each_way")
def test_a_joint_stays_where_a_row_tells_one_turn_from_another():
    reference = np.array([0.3 + TURN, 1.0])
    solver = cpu_solver(two_joints(), objectives=[IKObjectivePosture(reference)])
    result = solver.solve(problem_count=1, initial_joint_q=[[0.3, 1.0]])
    assert result.success.all()
    np.testing.assert_allclose(result.joint_q[0], reference, atol=1e-4)


@pytest.mark.evidence
@pytest.mark.usefixtures("each_kernel")
def test_the_least_cost_comes_back_on_the_turn_that_has_it():
    robot = two_joints()
    tip = robot.forward_kinematics([[0.3, 1.0]], ["tip"]).positions
    posture = IKObjectivePosture([0.3 + TURN, 1.0], weight=1e-3)
    solver = cpu_solver(robot, ["tip"], objectives=[posture])
    result = solver.solve(tip, initial_joint_q=[[0.3, 1.0]], options={"best_of": "cost"})
    assert result.joint_q[0, 0] == pytest.approx(0.3 + TURN, abs=1e-3)
    assert result.cost[0] < 1e-9


def test_rows_of_which_nothing_is_known_may_read_all_that_they_depend_on(ur5e):
    robot = ur5e[0].robot
    solver = cpu_solver(robot, ["tool0"], objectives=[QuickObjective(3, [[0.1, 0.2, 0.3]])])
    read = coordinates_read(solver._core.layout.rows, solver._core.layout.support.dofs)
    assert read.tolist() == [True, True, True, False, False, False]  # what moves body 3


@pytest.mark.evidence_cases("soft")
@pytest.mark.parametrize("joint_limits", ["soft", "off"])
def test_joints_with_limits_that_are_not_enforced_do_not_turn(joint_limits):
    problems, start = drawn(two_joints())
    solver = cpu_solver(problems.robot, ["tip"], options=SolverOptions(joint_limits=joint_limits))
    result = solver.solve(problems.positions, initial_joint_q=start, options={"best_of": "cost"})
    inside = (result.joint_q[:, 0] > -7.0) & (result.joint_q[:, 0] < 10.0)
    assert leader_could_turn(problems.robot, result.joint_q[inside], start[inside]).max() > 0.5


def test_without_a_start_joints_with_limits_stay_on_their_turns(ur5e):
    problems, _ = ur5e
    middle = problems.robot.mid_joint_q
    drawn = {"sampler": "gauss", "noise_std": 2.0}  # branches in closed form are on the turns nearest the middle
    free, started = solve(problems, None, **drawn), solve(problems, middle, **drawn)
    assert (np.abs(free.joint_q - middle) > np.pi + ROUNDING).any()
    assert (np.abs(started.joint_q - middle) <= np.pi + ROUNDING).all()
    np.testing.assert_allclose(np.cos(started.joint_q - free.joint_q)[free.seed_index == 0], 1.0, atol=1e-6)


@pytest.mark.evidence_cases("float64")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_turn_loses_no_digit_that_the_precision_has(precision):
    problems, start = drawn(two_joints())[0], np.tile([[9.9, 0.0]], (COUNT, 1))
    solver = cpu_solver(problems.robot, ["tip"])
    result = solver.solve(problems.positions, initial_joint_q=start, options={"precision": precision})
    assert result.success.all()
    assert result.position_error.max() <= (1e-9 if precision == "float64" else 1e-5 + REACH)
    assert (result.joint_q[:, 0] >= 10.0 - TURN - ROUNDING).all()

"""Locked joints are held where the caller's start says, problem by problem; without a start, where they were locked."""

import numpy as np
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from objectives import InputError
from tests.objectives.conftest import scene
from tests.solver.conftest import STAGED_QUICK, bare_robot, cpu_solver, inside_limits, poses_of, use_engine

COUNT = 24
HAND, PLANE = ["panda_hand"], [1, 1, 0, 0, 0, 0]
COLUMNS = [1, 4]
APART = 0.2  # [rad] at least so far from where the robot is locked, so that holding it there cannot succeed
TOLERANCE = SolverOptions().position_tolerance
KNOWN_POSE = 1e-6  # roundings of float32 joints, over an arm of about a metre


def held_elsewhere(robot, random_seed=0):
    """Configurations whose held columns differ from problem to problem and from where the robot is locked."""
    free = bare_robot("panda")
    joint_q = free.random_joint_q(np.random.default_rng(random_seed), COUNT)
    away = joint_q[:, COLUMNS] - robot.mid_joint_q[COLUMNS]
    joint_q[:, COLUMNS] += np.where(np.abs(away) < APART, np.where(away < 0.0, -APART, APART), 0.0)
    return free.clamp_joint_q(joint_q).astype(np.float32)


def unit_turns(rng):
    turns = rng.normal(size=(COUNT, 4))
    return turns / np.linalg.norm(turns, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def locked(panda):
    return panda.lock({"panda_joint2": 0.3, "panda_joint5": -0.4})


def check(robot, result, problems):
    assert result.success.mean() > 0.9  # five joints from far away: some targets are hard to find
    np.testing.assert_array_equal(result.joint_q.astype(np.float32)[:, COLUMNS], problems[:, COLUMNS])
    reached, wanted = (poses_of(robot, joint_q, HAND)[0][:, 0] for joint_q in (result.joint_q, problems))
    distance = np.linalg.norm(reached - wanted, axis=-1)
    assert distance[result.success].max() < TOLERANCE
    np.testing.assert_allclose(result.position_error[:, 0], distance, atol=KNOWN_POSE)
    assert inside_limits(robot, result.joint_q).all()


def starts(robot, problems, columns=COLUMNS):
    """Starts that say nothing but where the held joints are."""
    start = np.tile(robot.mid_joint_q, (len(problems), 1))
    start[:, columns] = problems[:, columns]
    return start


@pytest.mark.evidence_cases("threads")
@pytest.mark.parametrize("engine", ["auto", "staged", "threads"])
def test_each_problem_holds_them_where_its_start_says(locked, engine, monkeypatch):
    use_engine(engine, monkeypatch)
    solver, problems = cpu_solver(locked, HAND), held_elsewhere(locked)
    given, start = poses_of(locked, problems, HAND), starts(locked, problems)
    check(locked, solver.solve(*given, initial_joint_q=start), problems)
    # where the robot is locked, hardly any of these targets can be met
    unheld = solver.solve(*given)
    np.testing.assert_array_equal(unheld.joint_q[:, COLUMNS], np.tile(np.float32([0.3, -0.4]), (COUNT, 1)))
    assert unheld.success.mean() < 0.2
    if engine != "staged":
        for _ in range(2):  # values are data: nothing stays behind from one solve to the next
            np.testing.assert_array_equal(solver.solve(*given).joint_q, unheld.joint_q)
            solver.solve(*given, initial_joint_q=start)
    problems[:] = problems[0]  # one start for all holds them too
    check(
        locked, solver.solve(*poses_of(locked, problems, HAND), initial_joint_q=starts(locked, problems)[0]), problems
    )


@pytest.mark.evidence_cases("1-options0", "2-options0")
@pytest.mark.parametrize(
    "options",
    [{"precision": "float64"}, {"best_of": "cost"}, {"best_of": "nearest", "solutions": 3}, {"best_of": "nearest"}],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("small_parts")
def test_every_choice_of_answers_keeps_them(locked, options, threads):
    wanted = [1, 1, 1, 0, 0, 0] if "solutions" in options else None  # of poses there is but one solution
    solver, problems = (
        cpu_solver(locked, [Target(*HAND, row_weights=wanted)], threads=threads),
        held_elsewhere(locked, 1),
    )
    result = solver.solve(*poses_of(locked, problems, HAND), initial_joint_q=starts(locked, problems), options=options)
    check(locked, result, problems)
    if "solutions" in options:
        assert (result.solution_count > 1).any()
        there = np.arange(options["solutions"]) < result.solution_count[:, None]
        held = np.broadcast_to(problems[:, None], result.solutions.shape)[there]
        np.testing.assert_array_equal(result.solutions[there].astype(np.float32)[:, COLUMNS], held[:, COLUMNS])


def test_starts_beyond_limits_are_clamped_as_those_of_other_joints_and_no_numbers_are_refused(locked):
    solver, start = cpu_solver(locked, HAND), np.tile(locked.mid_joint_q, (2, 1))
    start[0, 1], start[1, 4] = 9.0, -9.0
    result = solver.solve([[0.4, 0.1, 0.5]] * 2, initial_joint_q=start)
    assert result.joint_q[0, 1] == pytest.approx(locked.joint_limit_upper[1], abs=1e-6)
    assert result.joint_q[1, 4] == pytest.approx(locked.joint_limit_lower[4], abs=1e-6)
    assert inside_limits(locked, result.joint_q).all()
    for number in (np.nan, 1e12):
        start[0, 1] = number
        with pytest.raises(InputError, match=r"initial_joint_q\[1\] is .* Allowed: finite numbers up to 1e\+09"):
            solver.solve([[0.4, 0.1, 0.5]], initial_joint_q=start[0])


def test_an_order_of_joints_that_leaves_them_out_leaves_them_where_they_are_locked(locked):
    moving = [0, 2, 3, 5, 6]
    solver = cpu_solver(locked, HAND, joint_order=[locked.joint_names[k] for k in moving])
    given = poses_of(locked, locked.random_joint_q(np.random.default_rng(3), 4), HAND)
    result = solver.solve(*given, initial_joint_q=np.tile(locked.mid_joint_q[moving], (4, 1)))
    assert result.success.any()
    full = np.tile(locked.mid_joint_q, (4, 1))
    full[:, moving] = result.joint_q
    distance = np.linalg.norm(poses_of(locked, full, HAND)[0] - given[0], axis=-1)
    np.testing.assert_allclose(result.position_error, distance, atol=KNOWN_POSE)


@STAGED_QUICK
def test_a_base_may_float_to_another_place_in_each_problem(engine):
    robot = load_robot("panda", collision="ignore", floating_base=True).lock({"floating_base": [0, 0, 0, 0, 0, 0, 1]})
    rng = np.random.default_rng(5)
    problems = robot.random_joint_q(rng, COUNT)
    problems[:, :3], problems[:, 3:7] = rng.uniform(-2.0, 2.0, (COUNT, 3)), unit_turns(rng)
    given, start = poses_of(robot, problems, HAND), starts(robot, problems, range(7))
    start[:, 3:7] *= 3.0  # quaternions come out unit
    result = cpu_solver(robot, HAND, engine=engine).solve(*given, initial_joint_q=start)
    assert result.success.all()
    np.testing.assert_allclose(result.joint_q[:, :7], problems[:, :7], atol=3e-7)
    assert np.linalg.norm(poses_of(robot, result.joint_q, HAND)[0] - given[0], axis=-1).max() < TOLERANCE
    assert robot.trees.ntree == 1


@STAGED_QUICK
def test_followers_of_a_held_joint_follow_it(engine):
    robot, rng = scene("two_trees").robot.lock({"left_2": 0.9}), np.random.default_rng(1)
    leader, follower, first = (robot.coordinate_names.index(name) for name in ("left_2", "left_3", "left_1"))
    problems = robot.random_joint_q(rng, COUNT)
    problems[:, leader] = rng.uniform(-0.5, 2.0, COUNT)
    problems = robot.complete_joint_q(problems)
    assert np.ptp(problems[:, leader]) > 1.0
    np.testing.assert_allclose(problems[:, follower], 0.2 - 0.5 * problems[:, leader])
    solver, start = cpu_solver(robot, [Target("l_tool", row_weights=PLANE)], engine=engine), problems.copy()
    start[:, follower] = 77.0 if engine == "compiled" else -5.0  # what is given for a follower is passed over
    start[:, first] = 0.0
    result = solver.solve(poses_of(robot, problems, ["l_tool"])[0], initial_joint_q=start)
    assert result.success.all()
    np.testing.assert_array_equal(result.joint_q[:, leader], problems[:, leader].astype(np.float32))
    np.testing.assert_allclose(result.joint_q[:, follower], problems[:, follower], atol=1e-6)


@STAGED_QUICK
def test_relative_poses_reach_over_them(locked, engine):

    def seen(joint_q):
        T_world_ends = np.concatenate(poses_of(locked, joint_q, ["panda_link1", "panda_link6"]), axis=-1)
        return transform_multiply(transform_inverse(T_world_ends[:, 0]), T_world_ends[:, 1])[:, :3]

    target, problems = Target("panda_link6", reference_link="panda_link1", row_weights=PLANE), held_elsewhere(locked)
    solver, positions = cpu_solver(locked, [target], engine=engine), seen(problems)
    result = solver.solve(positions, initial_joint_q=starts(locked, problems))
    assert result.success.all()
    distance = np.linalg.norm((seen(result.joint_q) - positions)[:, :2], axis=1)
    np.testing.assert_allclose(result.position_error[:, 0], distance, atol=KNOWN_POSE)
    np.testing.assert_array_equal(result.joint_q.astype(np.float32)[:, COLUMNS], problems[:, COLUMNS])

"""Branches in closed form: all solutions of arms of six joints, their numbers and order, and which solves use them."""

import dataclasses

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from objectives import InputError
from tests.compiler.closed_form.arms import anywhere, configurations, robot_of

ARMS = ["spherical", "parallel", "ur5e"]
COUNT = 500
ALL = {"solutions": "all", "solution_difference": 0.01, "collision": "off"}
DRAWN = {"sampler": "gauss", "noise_std": 2.0}  # starts around the middle of the limits, without branches


def reached(name, rng, noise=0.0, length=0.0, hard=False):
    """A robot, its link, configurations and their poses."""
    robot, link = robot_of(name, noise, length)
    lower, upper = robot.active_limit_lower, robot.active_limit_upper
    joint_q = configurations(robot, COUNT, rng, lower, upper) if hard else rng.uniform(lower, upper, (COUNT, 6))
    poses = robot.forward_kinematics(joint_q, [link])
    return robot, link, joint_q, (poses.positions, poses.orientations_xyzw)


def apart(a, b):
    """Largest difference of a joint, angles modulo a turn."""
    return np.abs((a - b + np.pi) % (2 * np.pi) - np.pi).max(axis=-1)


@pytest.mark.parametrize("name", ARMS)
def test_every_configuration_is_among_all_solutions_of_its_pose(name):
    robot, link, joint_q, poses = reached(name, np.random.default_rng(1))
    result = IKSolver(robot, [link]).solve(*poses, options=ALL)
    assert np.nanmin(apart(result.solutions, joint_q[:, None]), axis=1).max() < 0.02
    assert result.complete.mean() > 0.95
    for problem in range(0, COUNT, 50):
        found = result.solutions[problem, : result.solution_count[problem]]
        again = robot.forward_kinematics(found, [link])
        assert np.linalg.norm(again.positions - poses[0][problem], axis=-1).max() < 1e-3


@pytest.mark.parametrize("name", ARMS)
def test_a_complete_set_has_each_solution_that_other_starts_find(name):
    robot, link, _, poses = reached(name, np.random.default_rng(2))
    solver = IKSolver(robot, [link])
    result, drawn = solver.solve(*poses, options=ALL), solver.solve(*poses, options={**ALL, **DRAWN})
    assert (drawn.branch == -1).all()
    assert not drawn.complete.any()
    others = 0
    for p in np.flatnonzero(result.complete):
        for one in drawn.solutions[p, : drawn.solution_count[p]]:
            exact = solver.solve(
                poses[0][p], poses[1][p], initial_joint_q=one, options={"precision": "float64", "collision": "off"}
            )
            is_exact = exact.position_error.max() < 1e-8 and exact.orientation_error.max() < 1e-8
            if is_exact and apart(exact.joint_q[0], one) < 0.05:
                others += 1
                assert apart(result.solutions[p, : result.solution_count[p]], exact.joint_q[0]).min() < 0.02
    assert others > COUNT


@pytest.mark.parametrize("name", ARMS)
def test_branches_have_numbers_that_last_along_small_motions(name):
    rng = np.random.default_rng(3)
    robot, link, joint_q, poses = reached(name, rng)
    solver = IKSolver(robot, [link])
    moved = robot.forward_kinematics(joint_q + 1e-4 * rng.normal(size=joint_q.shape), [link])
    before, after = (
        solver.solve(*poses, options=ALL),
        solver.solve(moved.positions, moved.orientations_xyzw, options=ALL),
    )
    compared = 0
    for p in np.flatnonzero(before.complete & after.complete):
        found, numbers = before.solutions[p, : before.solution_count[p]], before.branch[p, : before.solution_count[p]]
        assert len(set(numbers)) == len(numbers)
        assert (numbers >= 0).all()
        for one, number in zip(found, numbers, strict=True):
            distance = apart(after.solutions[p, : after.solution_count[p]], one)
            if distance.min() < 2e-3:
                compared += 1
                assert after.branch[p, distance.argmin()] == number
    assert compared > COUNT


@pytest.mark.parametrize("name", ARMS)
def test_the_answer_without_a_start_is_furthest_from_the_limits(name):
    robot, link, _, poses = reached(name, np.random.default_rng(4))
    solver = IKSolver(robot, [link])
    result, every = solver.solve(*poses, options={"collision": "off"}), solver.solve(*poses, options=ALL)
    whole = every.complete & (every.solution_count > 1)
    lower, upper = robot.active_limit_lower, robot.active_limit_upper
    # each angle on its turn nearest the middle
    middle = (lower + upper) / 2
    angles = middle + (every.solutions - middle + np.pi) % (2 * np.pi) - np.pi
    margins = np.nanmax(np.minimum(angles - lower, upper - angles).min(axis=-1), axis=1)
    np.testing.assert_allclose(result.limit_margin[whole], margins[whole], atol=2e-3)
    assert (result.seed_index[whole] == -1).all()
    assert whole.sum() > COUNT / 5


def test_after_a_start_that_fails_the_nearest_branch_answers():
    robot, link, joint_q, poses = reached("ur5e", np.random.default_rng(5))
    solver, start = IKSolver(robot, [link]), joint_q + 0.4
    start = np.clip(start, robot.active_limit_lower, robot.active_limit_upper)
    result = solver.solve(*poses, initial_joint_q=start, options={"max_iterations": 1, "collision": "off"})
    every = solver.solve(*poses, options=ALL)
    by_branch = (result.seed_index == -1) & every.complete & result.success
    nearest = np.nanmin(apart(every.solutions, start[:, None]), axis=1)
    np.testing.assert_allclose(apart(result.joint_q, start)[by_branch], nearest[by_branch], atol=5e-3)
    assert by_branch.mean() > 0.8


@pytest.mark.parametrize("name", ARMS)
def test_poses_at_limits_and_near_singularities_are_solved(name):
    robot, link, _, poses = reached(name, np.random.default_rng(6), hard=True)
    result = IKSolver(robot, [link]).solve(*poses, options={"collision": "off"})
    assert result.success.all()


@pytest.mark.parametrize("name", ["spherical", "parallel"])
def test_a_calibrated_arm_uses_nominal_branches_and_claims_no_complete_set(name):
    robot, link, joint_q, poses = reached(name, np.random.default_rng(7), 1e-3, 5e-4)
    result = IKSolver(robot, [link]).solve(*poses, options=ALL)
    assert (result.branch >= 0).any(axis=1).mean() > 0.99
    assert not result.complete.any()
    assert (np.nanmin(apart(result.solutions, joint_q[:, None]), axis=1) < 0.1).mean() > 0.99


def test_a_target_out_of_reach_has_a_complete_set_without_solutions():
    robot, link = robot_of("ur5e")
    positions, orientations_xyzw = anywhere(robot, link, np.random.default_rng(8), COUNT)
    result = IKSolver(robot, [link]).solve(positions, orientations_xyzw, options=ALL)
    proven = result.status == 8
    assert proven.sum() > COUNT / 2
    assert result.complete[proven].all()
    assert (result.solution_count[proven] == 0).all()


@pytest.mark.parametrize("sampler", ["none", "gauss"])
def test_samplers_around_a_configuration_use_no_branches(sampler):
    robot, link, _, poses = reached("ur5e", np.random.default_rng(9))
    result = IKSolver(robot, [link]).solve(*poses, options={"sampler": sampler})
    assert (result.seed_index >= 0).all()


def test_fewer_solutions_than_there_are_make_no_complete_set():
    robot, link, _, poses = reached("ur5e", np.random.default_rng(10))
    result = IKSolver(robot, [link]).solve(*poses, options={"solutions": 2, "collision": "off"})
    every = IKSolver(robot, [link]).solve(*poses, options=ALL)
    assert not result.complete[every.solution_count > 2].any()
    assert (every.solution_count > 2).any()


def test_a_word_other_than_all_is_refused():
    robot, link = robot_of("ur5e")
    with pytest.raises(InputError, match="solutions is 'some'"):
        IKSolver(robot, [link]).solve(np.zeros((1, 1, 3)), options={"solutions": "some"})


@pytest.mark.parametrize("options", [ALL, {}])
def test_bytes_depend_on_the_problem_alone(options):
    robot, link, joint_q, poses = reached("ur5e", np.random.default_rng(11), hard=True)
    start = np.clip(joint_q + 0.3, robot.active_limit_lower, robot.active_limit_upper)
    several, single = IKSolver(robot, [link], threads=2), IKSolver(robot, [link], threads=1)
    for given in (None, start):
        whole = several.solve(*poses, initial_joint_q=given, options=options)
        for p in (0, 17, COUNT - 1):
            own = None if given is None else given[p]
            alone = single.solve(poses[0][p], poses[1][p], initial_joint_q=own, options=options)
            for name in ("joint_q", "success", "status", "cost", "seed_index", "solutions", "branch", "complete"):
                column = getattr(whole, name)
                assert column is None or column[p].tobytes() == getattr(alone, name)[0].tobytes(), name


def test_all_solutions_keep_the_limits_of_each_problem():
    rng = np.random.default_rng(12)
    robot, link, joint_q, poses = reached("spherical", rng)
    half = rng.uniform(0.2, 1.5, (COUNT, 6))
    lower = np.maximum(joint_q - half, robot.active_limit_lower)
    upper = np.minimum(joint_q + half, robot.active_limit_upper)
    result = IKSolver(robot, [link]).solve(*poses, joint_limits=(lower, upper), options=ALL)
    assert result.success.all()
    for p in range(COUNT):
        found = result.solutions[p, : result.solution_count[p]]
        assert (found >= lower[p].astype(np.float32)).all()
        assert (found <= upper[p].astype(np.float32)).all()
    assert result.solution_count.mean() < 2.0 < IKSolver(robot, [link]).solve(*poses, options=ALL).solution_count.mean()


def test_a_start_at_a_solution_stays_there():
    robot, link, joint_q, poses = reached("ur5e", np.random.default_rng(13))
    result = IKSolver(robot, [link]).solve(*poses, initial_joint_q=joint_q, options={"collision": "off"})
    assert (result.seed_index == 0).all()
    np.testing.assert_allclose(result.joint_q, joint_q, atol=2e-5)


def test_a_float64_finish_begins_at_the_answer_not_at_the_first_branch():
    robot, rng = load_robot("ur5e"), np.random.default_rng(14)
    poses = robot.forward_kinematics(rng.uniform(-np.pi, np.pi, (COUNT, 6)), ["tool0"])
    solver, targets = IKSolver(robot, ["tool0"]), (poses.positions, poses.orientations_xyzw)
    short, long = solver.solve(*targets), solver.solve(*targets, options={"precision": "float64"})
    np.testing.assert_array_equal(short.success, long.success)
    assert (apart(short.joint_q, long.joint_q) < 0.01).mean() > 0.99


def test_a_set_is_complete_only_where_each_branch_had_a_seed():
    robot, link, _, poses = reached("ur5e", np.random.default_rng(15))
    solver = IKSolver(robot, [link])
    every = solver.solve(*poses, options=ALL)
    few = solver.solve(*poses, options={**ALL, "seeds": 1})
    assert not few.complete[every.solution_count > 1].any()
    assert every.complete[every.solution_count > 1].any()


@pytest.mark.parametrize("options", [{"best_of": "cost"}, {"solutions": 8, "seeds": 16}, {"solutions": 8, "seeds": 17}])
def test_other_seeds_follow_branches_that_fail(options):
    """Limits so far off that the branches are not turned into them."""
    robot, link = robot_of("ur5e")
    limits = robot.active_limit_lower + 26.0, robot.active_limit_upper + 26.0
    moved = dataclasses.replace(robot, joint_limit_lower=limits[0], joint_limit_upper=limits[1])
    result = IKSolver(moved, [link]).solve([[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]], options=options)
    assert result.success.all()
    assert result.complete is None or not result.complete.any()

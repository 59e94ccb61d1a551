"""Branches in closed form: all solutions of arms of six joints, their numbers and order, and which solves use them."""

import dataclasses

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from tests.compiler.closed_form.arms import anywhere, configurations, robot_of

ARMS = ["spherical", "parallel", "ur5e"]
COUNT = 500
ALL = {"solutions": "all", "solution_difference": 0.01, "collision": "off"}
SAMPLES = {"solutions": 16, "collision": "off"}
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


def test_a_float64_finish_begins_at_the_answer_not_at_the_first_branch():
    robot, rng = load_robot("ur5e"), np.random.default_rng(14)
    poses = robot.forward_kinematics(rng.uniform(-np.pi, np.pi, (COUNT, 6)), ["tool0"])
    solver, targets = IKSolver(robot, ["tool0"]), (poses.positions, poses.orientations_xyzw)
    short, long = solver.solve(*targets), solver.solve(*targets, options={"precision": "float64"})
    np.testing.assert_array_equal(short.success, long.success)
    assert (apart(short.joint_q, long.joint_q) < 0.01).mean() > 0.99


def test_a_set_is_complete_only_where_each_branch_had_a_seed_and_room():
    robot, link, _, poses = reached("ur5e", np.random.default_rng(15))
    solver = IKSolver(robot, [link])
    every = solver.solve(*poses, options=ALL)
    few, some = (solver.solve(*poses, options={**ALL, **fewer}) for fewer in ({"seeds": 1}, {"solutions": 2}))
    assert not few.complete[every.solution_count > 1].any()
    assert not some.complete[every.solution_count > 2].any()
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


def sampled(name, seed, count=100):
    """A robot of seven joints, its solver, and poses within reach."""
    robot, link = robot_of(name)
    joint_q = robot.random_joint_q(np.random.default_rng(seed), count)
    poses = robot.forward_kinematics(joint_q, [link])
    return robot, link, joint_q, (poses.positions, poses.orientations_xyzw)


def test_every_configuration_of_a_searched_arm_is_among_all_solutions_of_its_pose():
    robot, link, joint_q, poses = reached("searched", np.random.default_rng(1))
    result = IKSolver(robot, [link]).solve(*poses, options=ALL)
    assert (np.nanmin(apart(result.solutions, joint_q[:, None]), axis=1) < 0.02).mean() > 0.99
    assert result.success.all()
    assert (result.branch == -1).all()
    assert (result.seed_index == -1).all()


def test_six_joints_have_the_solutions_that_other_starts_find():
    robot, link, _, poses = reached("searched", np.random.default_rng(2))
    solver = IKSolver(robot, [link])
    result, drawn = solver.solve(*poses, options=ALL), solver.solve(*poses, options={**ALL, **DRAWN})
    given = np.isfinite(drawn.solutions[..., 0])
    problem, starts = np.nonzero(given)[0], drawn.solutions[given]
    targets = poses[0][problem], poses[1][problem]
    exact = solver.solve(*targets, initial_joint_q=starts, options={"precision": "float64", "collision": "off"})
    errors = np.maximum(exact.position_error, exact.orientation_error).max(axis=1)
    is_exact = (errors < 1e-8) & (apart(exact.joint_q, starts) < 0.05)
    distance = np.nanmin(apart(result.solutions[problem], exact.joint_q[:, None]), axis=1)
    assert is_exact.sum() > COUNT
    assert (distance[is_exact] < 0.02).mean() > 0.995
    in_complete = is_exact & result.complete[problem]
    assert in_complete.sum() > 0.5 * is_exact.sum()
    assert (distance[in_complete] < 0.02).all()
    assert not drawn.complete.any()


def test_a_set_with_fewer_solutions_than_there_are_is_not_complete():
    robot, link, _, poses = reached("searched", np.random.default_rng(2))
    solver = IKSolver(robot, [link])
    every = solver.solve(*poses, options={**ALL, "solution_difference": 0.1})
    limited = solver.solve(*poses, options={**ALL, "max_iterations": 1, "position_tolerance": 1e-7})
    assert every.complete.mean() > 0.8
    assert (limited.solution_count < every.solution_count).any()
    assert not (limited.complete & (limited.solution_count < every.solution_count)).any()
    assert not solver.solve(*poses, options={**ALL, "solutions": 16}).complete.any()


@pytest.mark.evidence_cases("seven")
@pytest.mark.parametrize("name", ["panda", "seven"])
def test_samples_of_seven_joints_meet_the_pose_far_apart_from_each_other(name):
    robot, link, _, poses = sampled(name, 3)
    result = IKSolver(robot, [link]).solve(*poses, options=SAMPLES)
    assert result.success.all()
    assert result.solution_count.mean() > 12
    spread = np.ptp(result.solutions, axis=1)
    for p, number in enumerate(result.solution_count):
        found = result.solutions[p, :number]
        again = robot.forward_kinematics(found, [link])
        assert np.linalg.norm(again.positions[:, 0] - poses[0][p], axis=-1).max() < 1e-3
        differences = apart(found[:, None], found[None])
        assert (differences + np.eye(number) > 0.1).all()
    assert np.nanmedian(spread.max(axis=-1)) > 1.0


def test_a_finer_spacing_gives_more_samples():
    robot, link, _, poses = sampled("panda", 4, 20)
    solver = IKSolver(robot, [link])
    coarse, fine = (
        solver.solve(*poses, options={"solutions": 256, "solution_difference": spacing, "collision": "off"})
        for spacing in (0.4, 0.1)
    )
    assert (fine.solution_count > 2 * coarse.solution_count).mean() > 0.9


@pytest.mark.parametrize("name", ["panda", "searched", "ur5e"])
def test_after_a_start_the_first_solution_is_the_one_at_the_start(name):
    robot, link, joint_q, poses = sampled(name, 5)
    result = IKSolver(robot, [link]).solve(*poses, initial_joint_q=joint_q, options=SAMPLES)
    assert (result.seed_index == 0).all()
    np.testing.assert_allclose(result.joint_q, joint_q, atol=2e-5)
    assert (result.solution_count > 1).any()


@pytest.mark.parametrize("name", ["panda", "searched", "ur5e"])
def test_bytes_depend_on_the_problem_alone(name):
    robot, link, joint_q, poses = sampled(name, 6, 600)
    several, single = IKSolver(robot, [link], threads=2), IKSolver(robot, [link], threads=1)
    for given in (None, robot.clamp_joint_q(joint_q + 0.3)):
        whole = several.solve(*poses, initial_joint_q=given, options={"solutions": 16})
        for p in (0, 17, 599):
            own = None if given is None else given[p]
            alone = single.solve(poses[0][p], poses[1][p], initial_joint_q=own, options={"solutions": 16})
            for column in (
                "joint_q",
                "success",
                "status",
                "seed_index",
                "solutions",
                "solution_count",
                "branch",
                "complete",
            ):
                assert getattr(whole, column)[p].tobytes() == getattr(alone, column)[0].tobytes(), column


def test_solutions_keep_the_limits_of_each_problem():
    rng = np.random.default_rng(7)
    for name in ("panda", "searched", "spherical"):
        robot, link, joint_q, poses = sampled(name, 8)
        half = rng.uniform(0.2, 1.5, joint_q.shape)
        lower = np.maximum(joint_q - half, robot.active_limit_lower)
        upper = np.minimum(joint_q + half, robot.active_limit_upper)
        result = IKSolver(robot, [link]).solve(*poses, joint_limits=(lower, upper), options=SAMPLES)
        assert result.success.mean() > 0.98
        assert not (result.solutions < lower[:, None].astype(np.float32)).any()
        assert not (result.solutions > upper[:, None].astype(np.float32)).any()


def test_locked_fingers_and_collision_leave_free_solutions():
    robot, link, _, poses = sampled("panda", 9)
    result = IKSolver(robot, [link]).solve(*poses, options={"solutions": 16})
    assert result.success.all()
    free = IKSolver(robot, [link])
    for p in range(0, 100, 20):
        for one in result.solutions[p, : result.solution_count[p]]:
            again = free.solve(poses[0][p], poses[1][p], initial_joint_q=one, options={"seeds": 1})
            assert again.success.all()

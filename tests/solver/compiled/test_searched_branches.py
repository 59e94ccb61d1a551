"""All solutions of arms whose last joint is searched: every solution of six joints, samples of seven."""

import numpy as np
import pytest

from ik_service import IKSolver
from tests.compiler.closed_form.arms import robot_of
from tests.solver.compiled.test_branches import ALL, COUNT, DRAWN, apart, reached

SAMPLES = {"solutions": 16, "collision": "off"}


def sampled(name, seed, count=100):
    """A robot of seven joints, its solver, and poses within reach."""
    robot, link = robot_of(name)
    joint_q = robot.random_joint_q(np.random.default_rng(seed), count)
    poses = robot.forward_kinematics(joint_q, [link])
    return robot, link, joint_q, (poses.positions, poses.orientations_xyzw)


def test_every_configuration_is_among_all_solutions_of_its_pose():
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


@pytest.mark.parametrize("name", ["panda", "searched"])
def test_after_a_start_the_first_solution_is_the_one_at_the_start(name):
    robot, link, joint_q, poses = sampled(name, 5)
    result = IKSolver(robot, [link]).solve(*poses, initial_joint_q=joint_q, options=SAMPLES)
    assert (result.seed_index == 0).all()
    np.testing.assert_allclose(result.joint_q, joint_q, atol=2e-5)
    assert (result.solution_count > 1).any()


@pytest.mark.parametrize("name", ["panda", "searched"])
def test_bytes_depend_on_the_problem_alone(name):
    robot, link, joint_q, poses = sampled(name, 6, 600)
    several, single = IKSolver(robot, [link], threads=2), IKSolver(robot, [link], threads=1)
    for given in (None, robot.clamp_joint_q(joint_q + 0.3)):
        whole = several.solve(*poses, initial_joint_q=given, options={"solutions": 16})
        for p in (0, 17, 599):
            own = None if given is None else given[p]
            alone = single.solve(poses[0][p], poses[1][p], initial_joint_q=own, options={"solutions": 16})
            for column in ("joint_q", "success", "status", "seed_index", "solutions", "solution_count"):
                assert getattr(whole, column)[p].tobytes() == getattr(alone, column)[0].tobytes(), column


def test_solutions_keep_the_limits_of_each_problem():
    rng = np.random.default_rng(7)
    for name in ("panda", "searched"):
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

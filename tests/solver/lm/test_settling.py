"""Answers of objectives alone whose iterations have run out go on, so that nearly all end at a minimum."""

import numpy as np

import ik_service
from benchmarks.problems.weighted_poses import WeightedPoses

LINKS = ("left_panda_hand", "right_panda_hand")
COUNT = 120


def solver_of(threads=1):
    problems = WeightedPoses.draw(ik_service.load_robot("dual_panda"), LINKS, COUNT, 1, away=0.2, weight=0.03)
    return problems, ik_service.IKSolver(
        problems.robot, objectives=problems.objectives(), device="cpu", threads=threads
    )


def test_iterations_that_run_out_are_followed_by_more_of_the_best_attempt():
    problems, solver = solver_of()
    few = solver.solve(problem_count=COUNT, options={"max_iterations": 12, "seeds": 8})
    assert (few.iterations == 12).mean() > 0.5  # of the attempt that won, whatever followed
    cost, least = problems.costs(few.joint_q), problems.least_costs(few.joint_q)
    settled = cost - least <= 1e-4 * cost
    assert settled.mean() > 0.9
    assert not (few.success & ~settled).any()
    assert few.success[settled].mean() > 0.9
    assert (few.islands.seed_index > 0).any()
    np.testing.assert_allclose(few.cost, cost, rtol=1e-4)


def test_without_those_that_have_settled_nothing_goes_on():
    _, solver = solver_of()
    result = solver.solve(problem_count=COUNT)
    assert ik_service.IKStatus.MAX_ITERATIONS not in result.status
    longer = solver.solve(problem_count=COUNT, options={"max_iterations": 160})
    same = (result.iterations < 40) & (longer.iterations == result.iterations)
    assert same.mean() > 0.5
    np.testing.assert_array_equal(result.joint_q[same], longer.joint_q[same])


def test_threads_and_other_problems_change_no_byte():
    _, solver = solver_of()
    expected = solver.solve(problem_count=COUNT, options={"max_iterations": 15})
    _, several = solver_of(threads=2)
    for _ in range(3):
        result = several.solve(problem_count=COUNT, options={"max_iterations": 15})
        np.testing.assert_array_equal(result.joint_q, expected.joint_q)
        np.testing.assert_array_equal(result.status, expected.status)

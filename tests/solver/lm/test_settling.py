"""Answers of objectives alone whose iterations have run out go on, so that nearly all end at a minimum."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service.solver.recording import part_count
from tests.solver.conftest import bare_robot, cpu_solver
from tests.solver.lm.weighted_poses import WeightedPoses

LINKS = ("left_panda_hand", "right_panda_hand")
COUNT = 120
SHARED = 1200  # problems that two threads share


def problems_of(name, links, count):
    problems = WeightedPoses.draw(bare_robot(name), links, count, 1, away=0.2, weight=0.03)
    return problems, lambda **arguments: cpu_solver(problems.robot, objectives=problems.objectives(), **arguments)


@pytest.mark.evidence
def test_iterations_that_run_out_are_followed_by_more_of_the_best_attempt():
    problems, solver_of = problems_of("dual_panda", LINKS, COUNT)
    solver = solver_of()
    few = solver.solve(problem_count=COUNT, options={"max_iterations": 12, "seeds": 8})
    assert (few.iterations == 12).mean() > 0.5  # of the attempt that won, whatever followed
    cost, least = problems.costs(few.joint_q), problems.least_costs(few.joint_q)
    settled = cost - least <= 1e-4 * cost
    assert settled.mean() > 0.9
    assert not (few.success & ~settled).any()
    assert few.success[settled].mean() > 0.9
    assert (few.islands.seed_index > 0).any()
    np.testing.assert_allclose(few.cost, cost, rtol=1e-4)


def test_threads_and_other_problems_change_no_byte():
    problems, solver_of = problems_of("panda", ("panda_hand",), SHARED)
    options, answers = {"max_iterations": 15, "seeds": 8}, []
    for threads in (1, 2):
        solver = solver_of(threads=threads)
        answers += [solver.solve(problem_count=SHARED, options=options) for _ in range(2)]
    assert part_count(SHARED, 2) == 2
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.joint_q, answers[0].joint_q)
        np.testing.assert_array_equal(answer.status, answers[0].status)
    last = {name: getattr(problems, name)[-7:] for name in ("positions", "orientations_xyzw", "posture")}
    few = cpu_solver(problems.robot, objectives=replace(problems, **last).objectives())
    np.testing.assert_array_equal(few.solve(problem_count=7, options=options).joint_q, answers[0].joint_q[-7:])

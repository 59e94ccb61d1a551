"""Several threads, each with solvers of its own on one robot: nothing fails and nothing changes."""

import pytest

from ik_service import SolverOptions
from tests.solver.conftest import cpu_solver, in_threads

THREADS, ROUNDS = 4, 3


@pytest.mark.parametrize(("engine", "mode"), [("staged", "analytic"), ("staged", "autodiff"), ("compiled", "analytic")])
def test_solvers_in_threads_give_the_bytes_of_one_alone(panda_targets, engine, mode):
    problems, options = panda_targets.part(slice(20)), SolverOptions(jacobian_mode=mode, seeds=8)

    def solve():
        solver = cpu_solver(problems.robot, problems.links, engine=engine, options=options)
        return solver.solve(*problems.targets).joint_q

    expected, done = solve(), []

    def work():
        for _ in range(ROUNDS):
            done.append((solve() == expected).all())  # a thread that fails leaves its rounds out

    in_threads(work, THREADS)
    assert done == [True] * (THREADS * ROUNDS)

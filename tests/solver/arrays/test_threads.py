"""Several threads, each with solvers of its own on one robot: nothing fails and nothing changes."""

import threading

import pytest

from ik_service import SolverOptions
from tests.solver.conftest import Reachable, cpu_solver

THREADS, ROUNDS = 4, 3


@pytest.mark.parametrize(("engine", "mode"), [("staged", "analytic"), ("staged", "autodiff"), ("compiled", "analytic")])
def test_solvers_in_threads_give_the_bytes_of_one_alone(panda, engine, mode):
    problems = Reachable.draw(panda, ["panda_hand"], 20, random_seed=4)
    options = SolverOptions(jacobian_mode=mode, seeds=8)

    def solve():
        solver = cpu_solver(panda, ["panda_hand"], engine=engine, options=options)
        return solver.solve(problems.positions, problems.orientations_xyzw).joint_q

    expected, done = solve(), []

    def work():
        for _ in range(ROUNDS):
            done.append((solve() == expected).all())  # a thread that fails leaves its rounds out

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * (THREADS * ROUNDS)

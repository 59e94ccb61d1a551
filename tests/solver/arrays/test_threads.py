"""Several threads, each with solvers of its own on one robot: nothing fails and nothing changes."""

import threading

import pytest

import ik_service
from tests.solver.conftest import Reachable

THREADS, ROUNDS = 4, 3


@pytest.mark.parametrize(("engine", "mode"), [("staged", "analytic"), ("staged", "autodiff"), ("compiled", "analytic")])
def test_solvers_in_threads_give_the_bytes_of_one_alone(panda, engine, mode):
    problems = Reachable.draw(panda, ["panda_hand"], 20, random_seed=4)
    options = ik_service.SolverOptions(jacobian_mode=mode, seeds=8)

    def solve():
        solver = ik_service.IKSolver(panda, ["panda_hand"], device="cpu", engine=engine, options=options)
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

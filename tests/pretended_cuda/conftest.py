"""What the checks share: problems of a Panda, and solvers on the device."""

import pytest

import ik_service
from tests.solver.conftest import Reachable

GPU, CPU = "cuda:0", "cpu"
COUNT = 20


def evidence(*values):
    return pytest.param(*values, marks=pytest.mark.evidence)


def draw(name="panda", links=("panda_hand",), collision="ignore"):
    return Reachable.draw(ik_service.load_robot(name, collision=collision), list(links), COUNT, random_seed=5)


@pytest.fixture(scope="session")
def panda():
    return draw()


def solver_of(problems, engine="compiled", device=GPU, **options):
    chosen = ik_service.SolverOptions(**{"seeds": 4, **options})
    given = {"device": device, "engine": engine, "options": chosen}
    return ik_service.IKSolver(problems.robot, problems.links, threads=2, **given)  # of which a GPU has one


def solve(solver, problems, order=slice(None), **given):
    return solver.solve(problems.positions[order], problems.orientations_xyzw[order], **given)

"""Manipulability beside targets: it never costs one, and it rises; alone it ends where nothing near is better."""

import numpy as np
import pytest

from objectives import IKObjectiveJointCentering, IKObjectiveManipulability
from tests.objectives.manipulability_rows import expected_rows
from tests.solver.conftest import cpu_solver, poses_of

HAND, COUNT = "panda_hand", 150
WEIGHTS = [1e-3, 1e-2, 0.1, 1.0, 10.0]


def manipulability(panda, joint_q):
    return expected_rows(panda, HAND, joint_q.astype(np.float64), {})[1]


@pytest.fixture(scope="module")
def targets(panda):
    return poses_of(panda, panda.random_joint_q(np.random.default_rng(2), COUNT), HAND)


@pytest.fixture(scope="module")
def plain(panda, targets):
    return cpu_solver(panda, [HAND]).solve(*targets)


@pytest.mark.evidence
@pytest.mark.parametrize(("engine", "weight"), [*(("compiled", weight) for weight in WEIGHTS), ("staged", 1.0)])
def test_of_any_weight_it_rises_and_no_target_is_lost(panda, targets, plain, engine, weight):
    count = COUNT if engine == "compiled" else 30
    solver = cpu_solver(panda, [HAND], objectives=[IKObjectiveManipulability(HAND, weight=weight)], engine=engine)
    result = solver.solve(*(column[:count] for column in targets))
    assert (result.success >= plain.success[:count]).all()
    gain = np.log(manipulability(panda, result.joint_q) / manipulability(panda, plain.joint_q[:count]))
    assert gain.mean() > (0.1 if engine == "compiled" else 0.05)
    if engine == "compiled":
        assert np.median(gain) > 0.02
        assert (gain > -1e-6).mean() > 0.8  # where it is lower, another branch was found


def test_centering_takes_what_a_target_leaves(panda, targets, plain):
    result = cpu_solver(panda, [HAND], objectives=[IKObjectiveJointCentering()]).solve(*targets)
    lower, upper = panda.joint_limit_lower, panda.joint_limit_upper
    far, before = (
        np.linalg.norm(2.0 * (one.joint_q - lower) / (upper - lower) - 1.0, axis=1) for one in (result, plain)
    )
    assert (result.success >= plain.success).all()
    assert (far - before).mean() < -0.02
    assert (far <= before + 1e-6).mean() > 0.9  # else another branch was found

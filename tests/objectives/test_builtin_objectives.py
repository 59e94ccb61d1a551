"""The laws that every built-in objective keeps, on every case of the table in `tests.objectives.cases`."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import objectives
from tests.objectives.cases import CASES, REGIMES, make_data
from tests.objectives.conftest import GUARD, POISON, Workplace

PROBLEM_IDX = np.array([2, 0, 1, 1, 0, 2, 1])  # more instances than problems, in no order
STEP = 1e-6  # of central differences in float64: they are then good to about 1e-9
ROUNDING = 2e-5  # of the largest entry: float32 poses behind up to fourteen DOFs, and their derivatives
MATTERING = 0.7  # part of the support that is seen to matter: a row and a DOF may happen to be perpendicular
NEVER_ZERO = {case.name for case in CASES} - {"joint_limit"}


@dataclass
class Outcome:
    """What an objective has written, and what it should have."""

    residuals: np.ndarray
    analytic: np.ndarray
    autodiff: np.ndarray
    support: np.ndarray
    expected_residuals: np.ndarray
    expected_jacobian: np.ndarray


@cache
def outcome(case_name, scene_name, regime):
    (case,) = (case for case in CASES if case.name == case_name)
    data = make_data(scene_name, regime)
    robot, rng = data.scene.robot, np.random.default_rng(5)
    spread = 0.2 if regime == "random" else 1e-3
    step = rng.normal(0.0, spread, (len(PROBLEM_IDX), robot.joint_dof_count))
    joint_q = robot.integrate(data.joint_q[PROBLEM_IDX], step).astype(np.float32)
    place = Workplace(robot, case.make(data), joint_q, PROBLEM_IDX)
    exact = joint_q.astype(np.float64)
    dofs, n = robot.joint_dof_count, len(PROBLEM_IDX)
    steps = np.repeat(STEP * np.stack([np.eye(dofs), -np.eye(dofs)]).reshape(-1, dofs), n, axis=0)
    moved = robot.integrate(np.tile(exact, (2 * dofs, 1)), steps)
    ahead, behind = case.residual(data, moved, np.tile(PROBLEM_IDX, 2 * dofs)).reshape(2, dofs, n, -1)
    return Outcome(
        place.residuals(),
        place.analytic(),
        place.autodiff(),
        place.objective.row_support(place.model),
        case.residual(data, exact, PROBLEM_IDX),
        np.moveaxis((ahead - behind) / (2.0 * STEP), 0, 2),
    )


@pytest.fixture(params=[case.name for case in CASES])
def case_name(request):
    return request.param


@pytest.fixture(params=["fixed", "floating", "two_trees"])
def scene_name(request):
    return request.param


@pytest.fixture
def outcomes(case_name, scene_name):
    return {regime: outcome(case_name, scene_name, regime) for regime in REGIMES}


def test_residuals_follow_the_stated_formula(case_name, outcomes):
    for regime, result in outcomes.items():
        expected = result.expected_residuals
        if case_name in NEVER_ZERO or regime == "on_the_limit":
            assert np.abs(expected).max() > 1e-4, regime
        tolerance = ROUNDING * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(result.residuals[:, GUARD:-GUARD], expected, atol=tolerance, err_msg=regime)


def test_analytic_autodiff_and_central_differences_agree(case_name, outcomes):
    for regime, result in outcomes.items():
        expected = result.expected_jacobian
        if case_name in NEVER_ZERO or regime == "on_the_limit":
            assert np.abs(expected).max() > 0.1, regime
        tolerance = ROUNDING * max(1.0, np.abs(expected).max())
        for jacobian in (result.analytic, result.autodiff):
            np.testing.assert_allclose(jacobian[:, GUARD:-GUARD], expected, atol=tolerance, err_msg=regime)


def test_nothing_is_written_outside_the_block(outcomes):
    for regime, result in outcomes.items():
        for written in (result.residuals, result.analytic, result.autodiff):
            assert (written[:, :GUARD] == POISON).all(), regime
            assert (written[:, -GUARD:] == POISON).all(), regime
            assert (written[:, GUARD:-GUARD] != POISON).all(), regime


def test_the_jacobian_is_zero_outside_the_support_and_the_support_is_not_vacuous(outcomes):
    for regime, result in outcomes.items():
        outside = ~result.support
        assert (result.analytic[:, GUARD:-GUARD][:, outside] == 0.0).all(), regime
        assert np.abs(result.expected_jacobian[:, outside]).max(initial=0.0) < STEP, regime
    support = outcomes[REGIMES[0]].support
    seen = np.any([np.abs(result.expected_jacobian).max(axis=0) > STEP for result in outcomes.values()], axis=0)
    assert seen.sum() > MATTERING * support.sum()
    assert seen.any(axis=1).all()  # every row moves
    assert support.shape == seen.shape


def test_every_public_objective_is_in_the_table():
    made = {type(case.make(make_data("fixed", "random"))).__name__ for case in CASES}
    public = {name for name in objectives.__all__ if name.startswith("IKObjective")} - {"IKObjective"}
    made.add("IKObjectiveManipulability")  # in test_manipulability.py: few links can move in all directions
    assert {name for name in made if name.startswith("IKObjective")} == public

"""Numbers that are not finite, in device arrays or in derivatives, are INVALID: never a success."""

import numpy as np
import pytest
import warp as wp

from ik_service import IKStatus
from ik_service.control import IKController
from objectives import IKObjectivePosition
from objectives.data_field import DataField
from objectives.expression import maximum, sqrt
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.rows import RowGroup
from tests.solver.conftest import EACH_ENGINE, STAGED_QUICK, cpu_solver

LINK = "panda_hand"
POINT = (0.4, 0.1, 0.5)


def _hinge_rows(inputs):
    """Distance from a point, and a row that is 0 above the table, with a slope of 0 times infinity."""
    position, point = inputs.frames["link"].position, inputs.data["point"]
    gap = [position[k] - point[k] for k in range(3)]
    return [*gap, sqrt(maximum(-position[2], 0.0))]


HINGE = RowGroup("hinge", 4, _hinge_rows, frames=("link",), data=(("point", 3),))


class Hinge(ExpressionObjective):
    """Wants the hand at a point, and has no derivatives where it is above the table."""

    def __init__(self, point=POINT):
        super().__init__([DataField("Hinge", "point", 3, point)], row_count=4)

    def stated_elements(self, model):
        return [(HINGE, [Element((LINK,), data_columns=(0,))])]


def weighted(weights):
    weights = wp.array(np.asarray(weights, np.float32), dtype=wp.float32, device="cpu")
    return IKObjectivePosition(LINK, POINT, row_weights=weights)


@STAGED_QUICK
def test_derivatives_that_are_not_finite_are_no_success(panda, engine):
    result = cpu_solver(panda, objectives=[Hinge()], engine=engine).solve(problem_count=2)
    assert (result.cost > 1e-3).all()
    assert result.status_names == ["invalid", "invalid"]
    assert not result.success.any()


@pytest.mark.evidence
def test_a_tick_without_derivatives_is_no_success(panda):
    controller = IKController(panda, objectives=[Hinge()])
    controller.reset(panda.mid_joint_q)
    result = controller.step()
    assert IKStatus(result.status[0]) == IKStatus.INVALID
    np.testing.assert_array_equal(result.joint_q[0], panda.mid_joint_q)


@EACH_ENGINE
@pytest.mark.parametrize("weight", [1e20, np.inf, np.nan])
def test_weights_that_float32_cannot_square_are_invalid(panda, engine, weight):
    weights, results = np.ones((4, 3)), []
    for own in (1.0, weight):
        weights[2] = own
        solver = cpu_solver(panda, objectives=[weighted(weights)], engine=engine)
        results.append(solver.solve(problem_count=4))
    expected, result = results
    assert result.status_names == ["converged", "converged", "invalid", "converged"]
    assert result.success.tolist() == [True, True, False, True]
    assert np.isfinite(result.joint_q).all()
    np.testing.assert_array_equal(np.delete(result.joint_q, 2, 0), np.delete(expected.joint_q, 2, 0))


@STAGED_QUICK
def test_a_weight_that_becomes_nan_in_its_array_is_invalid(panda, engine):
    weights = wp.array(np.ones((3, 3), np.float32), dtype=wp.float32, device="cpu")
    solver = cpu_solver(panda, objectives=[IKObjectivePosition(LINK, POINT, row_weights=weights)], engine=engine)
    before = solver.solve(problem_count=3)
    assert before.success.all()
    weights.numpy()[1, 0] = np.nan
    for others in ([0, 2], [2]):
        result = solver.solve(problem_count=3)
        assert result.status_names == ["converged", "invalid", "converged"]
        np.testing.assert_array_equal(result.joint_q[others], before.joint_q[others])
        weights.numpy()[0, 1] = 0.0  # and then the islands are found problem by problem
    answers = []
    for off in (0.0, -1.0):
        weights.numpy()[1, 0] = off
        answers.append(solver.solve(problem_count=3))
    assert answers[0].success.all()
    np.testing.assert_array_equal(answers[0].joint_q, answers[1].joint_q)


@EACH_ENGINE
@pytest.mark.parametrize("weight", [1e-9, 1e9])
def test_the_size_of_all_weights_does_not_matter(panda, engine, weight):
    objective = weighted(np.full((1, 3), weight))
    result = cpu_solver(panda, objectives=[objective], engine=engine).solve(problem_count=1)
    hand = panda.forward_kinematics(result.joint_q, [LINK]).positions[0, 0]
    assert np.linalg.norm(hand - POINT) < 1e-5
    assert result.success.all()

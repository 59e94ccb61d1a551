"""Derivatives by data of objectives and by limits, beside minima that other code solves for."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima, differences
from ik_service import IKSolver, SolverOptions, load_robot
from ik_service.solver.linearisation.linearisation import DofState
from objectives import IKObjectivePosture, InputError
from objectives.errors import UnknownNameError

HAND = ["panda_hand"]
PRECISE = SolverOptions(precision="float64")
COUNT = 5


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda", collision="ignore")


@pytest.fixture(scope="module")
def poses(panda):
    found = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(4), COUNT), HAND)
    return found.positions, found.orientations_xyzw


def free_of(found):
    return found.dof_state == DofState.FREE


def test_a_reference_of_a_posture(panda, poses):
    posture = IKObjectivePosture(panda.mid_joint_q, weight=0.05)
    solver = IKSolver(panda, HAND, objectives=[posture], options=PRECISE)
    result = solver.solve(*poses)
    found = solver.linearise(result, *poses, data=[(posture, "joint_q_reference")])
    assert found.by_data[0].shape == (COUNT, 7, 7)
    good = found.is_differentiable & ~found.one_sided.any(axis=1)
    assert good.sum() > 2

    def moved(axis, by):
        reference = np.array(panda.mid_joint_q)
        reference[axis] += by
        return Minima(panda, HAND, reference).at(*poses, found.joint_q, free_of(found))

    expected = differences(moved, range(7))
    np.testing.assert_allclose(found.by_data[0][good], expected[good], atol=1e-6)
    assert np.abs(expected[good]).max() > 0.1


def test_weights_of_rows_that_pull_against_a_target(panda, poses):
    """Out of reach: the answer is between the target and the posture."""
    weight, far = 0.3, (poses[0] + [0.0, 0.0, 2.0], poses[1])
    posture = IKObjectivePosture(panda.mid_joint_q, weight=weight)
    posture.priority = 0
    solver = IKSolver(panda, HAND, objectives=[posture], options=PRECISE)
    result = solver.solve(*far)
    found = solver.linearise(result, *far, data=[(posture, "row_weights")])
    good = found.is_differentiable & ~found.one_sided.any(axis=1)
    assert good.any()

    def moved(_, by):
        minima = Minima(panda, HAND, panda.mid_joint_q, is_met=False, posture_weight=weight * (1.0 + by))
        return minima.at(*far, found.joint_q, free_of(found))

    expected = differences(moved, range(1))[..., 0]
    good &= np.isfinite(expected).all(axis=1)  # where the reference comes to rest
    assert good.any()
    np.testing.assert_allclose(found.by_data[0][good].sum(axis=-1), expected[good], atol=1e-5)
    assert np.abs(expected[good]).max() > 1e-3


def test_a_limit_takes_its_joint_with_it(panda):
    outside = panda.mid_joint_q + np.array([0.3, 0.0, 0.4, 0.2, -0.3, 0.3, 0.0])
    outside[1] = panda.joint_limit_upper[1] + 1.0
    start = outside.copy()
    start[1] = panda.joint_limit_upper[1]
    poses = panda.forward_kinematics(start[None], HAND)
    arm = IKSolver(panda, HAND, objectives=[IKObjectivePosture(outside, weight=0.05)], options=PRECISE)
    result = arm.solve(*poses, initial_joint_q=start)
    found = arm.linearise(result, *poses, limits=True)
    assert found.is_differentiable.all()
    assert found.dof_state[0, 1] == DofState.AT_UPPER

    def moved(_, by):
        joint_q = found.joint_q.copy()
        joint_q[:, 1] += by
        return Minima(panda, HAND, outside).at(*poses, joint_q, free_of(found))

    expected = differences(moved, range(1))[0, :, 0]
    assert found.by_limits.shape == (1, 7, 7)
    np.testing.assert_allclose(found.by_limits[0, :, 1], expected, atol=1e-6)
    assert found.by_limits[0, 1, 1] == 1.0
    assert not np.delete(found.by_limits[0], 1, axis=1).any()


def test_products_are_each_others_transpose(panda, poses):
    posture = IKObjectivePosture(panda.mid_joint_q, weight=0.05)
    solver = IKSolver(panda, HAND, objectives=[posture], options=PRECISE)
    result = solver.solve(*poses)
    fields = [(posture, "joint_q_reference"), (posture, "row_weights")]
    found, rng = solver.linearise(result, *poses, data=fields, limits=True), np.random.default_rng(0)
    change, back = [rng.normal(size=(COUNT, 7)) for _ in fields], rng.normal(size=(COUNT, 7))
    limits = rng.normal(size=(COUNT, 7))
    forward = (found.jvp(data=change, limits=limits) * back).sum()
    pulled = found.vjp(back)
    backward = sum((one * by).sum() for one, by in zip((*change, limits), (*pulled.data, pulled.limits), strict=True))
    assert forward == pytest.approx(backward, rel=1e-12)
    plain = solver.linearise(result, *poses)
    np.testing.assert_array_equal(found.by_targets, plain.by_targets)
    assert plain.by_data == ()
    assert plain.vjp(back).limits.shape == (COUNT, 0)


def test_columns_are_in_the_order_of_the_solver(panda, poses):
    order = [f"panda_joint{k}" for k in range(7, 0, -1)]
    own, other = (
        IKSolver(panda, HAND, objectives=[one], options=PRECISE, **given)
        for one, given in (
            (IKObjectivePosture(panda.mid_joint_q), {}),
            (IKObjectivePosture(panda.mid_joint_q), {"joint_order": order}),
        )
    )
    found = [
        solver.linearise(solver.solve(*poses), *poses, data=[(solver._objectives[0], "joint_q_reference")], limits=True)
        for solver in (own, other)
    ]
    np.testing.assert_array_equal(found[1].by_data[0], found[0].by_data[0][:, ::-1])
    np.testing.assert_array_equal(found[1].by_limits, found[0].by_limits[:, ::-1, ::-1])


def test_what_a_solver_does_not_have_is_refused(panda, poses):
    posture = IKObjectivePosture(panda.mid_joint_q)
    solver = IKSolver(panda, HAND, objectives=[posture])
    result = solver.solve(*poses)
    with pytest.raises(InputError, match="no objective of this solver"):
        solver.linearise(result, *poses, data=[(IKObjectivePosture(panda.mid_joint_q), "joint_q_reference")])
    with pytest.raises(UnknownNameError, match="no field 'reference'"):
        solver.linearise(result, *poses, data=[(posture, "reference")])
    with pytest.raises(InputError, match="0, those asked for"):
        solver.linearise(result, *poses).jvp(data=[np.zeros((COUNT, 7))])

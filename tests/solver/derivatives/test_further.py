"""Derivatives by data of objectives and by limits, beside minima that other code solves for."""

import numpy as np
import pytest
import warp as wp

from benchmarks.accuracy.minima import Minima, differences
from ik_service import SolverOptions, Target
from ik_service.robots import load_urdf
from ik_service.solver.derivatives.linearisation import DofState
from objectives import IKObjectiveAxisAlign, IKObjectivePosture, IKObjectiveRotation, InputError, UnknownNameError
from tests.solver.conftest import cpu_solver
from tests.solver.derivatives.conftest import derived, values_at

HAND = ["panda_hand"]
PRECISE = SolverOptions(precision="float64")
COUNT = 5


@pytest.fixture(scope="module")
def poses(panda):
    return values_at(panda, HAND, panda.random_joint_q(np.random.default_rng(4), COUNT))


def free_of(found):
    return found.dof_state == DofState.FREE


def postured(robot, reference, targets=HAND, **arguments):
    """A precise solver of targets beside a posture, and the posture."""
    posture = IKObjectivePosture(reference, **{"weight": 0.05} | arguments)
    return cpu_solver(robot, targets, objectives=[posture], options=PRECISE), posture


@pytest.mark.evidence
def test_a_reference_of_a_posture(panda, poses):
    solver, posture = postured(panda, panda.mid_joint_q)
    found = derived(solver, poses, data=[(posture, "joint_q_reference")])
    assert found.by_data[0].shape == (COUNT, 7, 7)
    good = found.is_differentiable & ~found.one_sided.any(axis=1)
    assert good.sum() > 2

    def moved(axis, by):
        return Minima(panda, HAND, panda.mid_joint_q + by * np.eye(7)[axis]).at(*poses, found.joint_q, free_of(found))

    expected = differences(moved, range(7))
    np.testing.assert_allclose(found.by_data[0][good], expected[good], atol=1e-6)
    assert np.abs(expected[good]).max() > 0.1


@pytest.mark.evidence
def test_weights_of_rows_that_pull_against_a_target(panda, poses):
    """Out of reach: the answer is between the target and the posture."""
    weight, far = 0.3, (poses[0] + [0.0, 0.0, 2.0], poses[1])
    posture = IKObjectivePosture(panda.mid_joint_q, weight=weight)
    posture.priority = 0
    solver = cpu_solver(panda, HAND, objectives=[posture], options=PRECISE)
    found = derived(solver, far, data=[(posture, "row_weights")])
    good = found.is_differentiable & ~found.one_sided.any(axis=1)

    def moved(_, by):
        minima = Minima(panda, HAND, panda.mid_joint_q, is_met=False, posture_weight=weight * (1.0 + by))
        return minima.at(*far, found.joint_q, free_of(found))

    expected = differences(moved, range(1))[..., 0]
    good &= np.isfinite(expected).all(axis=1)  # where the reference comes to rest
    assert good.any()
    np.testing.assert_allclose(found.by_data[0][good].sum(axis=-1), expected[good], atol=1e-5)
    assert np.abs(expected[good]).max() > 1e-3


@pytest.mark.evidence
def test_a_limit_takes_its_joint_with_it(panda):
    outside = panda.mid_joint_q + np.array([0.3, 0.0, 0.4, 0.2, -0.3, 0.3, 0.0])
    outside[1] = panda.joint_limit_upper[1] + 1.0
    start = np.minimum(outside, panda.joint_limit_upper)
    poses = values_at(panda, HAND, start[None])
    found = derived(postured(panda, outside)[0], poses, start, limits=True)
    assert found.is_differentiable.all()
    assert found.dof_state[0, 1] == DofState.AT_UPPER

    def moved(_, by):
        return Minima(panda, HAND, outside).at(*poses, found.joint_q + by * np.eye(7)[1], free_of(found))

    assert found.by_limits.shape == (1, 7, 7)
    np.testing.assert_allclose(found.by_limits[0, :, 1], differences(moved, range(1))[0, :, 0], atol=1e-6)
    assert found.by_limits[0, 1, 1] == 1.0
    assert not np.delete(found.by_limits[0], 1, axis=1).any()


TURNED = np.array([0.3, -0.1, 0.2, 0.9])
DIRECTED = {  # objectives about unit numbers, their field, and these numbers, of length 1
    "direction": (IKObjectiveAxisAlign, {"axis": [0.0, 0.0, 1.0]}, "target_axis", [0.48, 0.36, 0.8]),
    "quaternion": (IKObjectiveRotation, {}, "target_orientations_xyzw", TURNED / np.linalg.norm(TURNED)),
}


@pytest.mark.evidence
@pytest.mark.parametrize("case", DIRECTED)
def test_unit_numbers_are_those_that_set_data_makes_of_what_it_is_given(panda, case):
    kind, given, name, numbers = DIRECTED[case]
    numbers, start = np.array(numbers), panda.mid_joint_q + 0.1
    objective = kind("panda_hand", **{name: numbers, **given}, weight=1.0)
    solver = cpu_solver(panda, HAND, objectives=[IKObjectivePosture(panda.mid_joint_q, weight=0.5), objective])
    position = values_at(panda, HAND, start[None])[:1]
    found = derived(solver, position, start, data=[(objective, name)])
    assert found.is_differentiable.all()

    def moved(axis, by):
        objective.set_data(name, numbers + by * np.eye(len(numbers))[axis])
        return derived(solver, position, found.joint_q[0]).joint_q

    expected = differences(moved, range(len(numbers)), 3e-4)  # of float32 numbers
    np.testing.assert_allclose(found.by_data[0], expected, atol=1e-3)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found.by_data[0] @ numbers, 0.0, atol=1e-7)
    if case == "direction":  # a Warp array is taken as it is: a longer direction weighs more
        objective.set_data(name, wp.array(numbers[None], dtype=wp.float32, device="cpu"))
        again = derived(solver, position, start, data=[(objective, name)])
        assert np.abs(again.by_data[0] @ numbers).max() > 1e-3


BENT_ARM = """<robot name="arm"><link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="tip"/>
<joint name="one" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/>
  <limit lower="{low}" upper="{high}" effort="1" velocity="1"/></joint>
<joint name="two" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
  <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
<joint name="three" type="revolute"><parent link="b"/><child link="c"/><origin xyz="0.4 0 0"/><axis xyz="0 0 1"/>
  <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
<joint name="four" type="revolute"><parent link="c"/><child link="tip"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
  <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
<link name="hand"/>
<joint name="fixed" type="fixed"><parent link="tip"/><child link="hand"/><origin xyz="0.2 0 0"/></joint>
</robot>"""
ALONG_X = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
ENDS = {"lower": (0.2, 1.5, DofState.AT_LOWER), "upper": (-1.5, -0.2, DofState.AT_UPPER)}


@pytest.mark.evidence
@pytest.mark.parametrize("end", ENDS)
def test_limits_at_both_ends_beside_a_cost_that_bends(end):
    """A posture pulls against a place along x that is met: how far the joints follow depends on second derivatives."""
    *limits, state = ENDS[end]
    side = np.array([1.0, 1.0, 1.0, 1.0] if end == "lower" else [-1.0, 1.0, -1.0, 1.0])  # or its mirror image
    reference, start = side * [-2.0, 0.9, 0.8, -0.7], side * [0.2, 0.1, 0.7, 0.1]

    def moved(by, **asked):
        low, high = (limits[0] + by, limits[1]) if end == "lower" else (limits[0], limits[1] + by)
        robot = load_urdf(BENT_ARM.format(low=low, high=high))
        solver, _ = postured(robot, reference, [Target("hand", row_weights=ALONG_X)], weight=0.5)
        return derived(solver, [np.array([[[0.9, 0.0, 0.0]]])], start, **asked)

    found = moved(0.0, limits=True)
    assert found.is_differentiable.all()
    assert found.dof_state[0, 0] == state
    expected = differences(lambda _, by: moved(by).joint_q, range(1))[0, :, 0]
    np.testing.assert_allclose(found.by_limits[0, :, 0], expected, atol=1e-6)
    assert np.abs(expected[1:]).max() > 1e-2


FOLLOWED = """<robot name="followed"><link name="base"/><link name="a"/><link name="b"/><link name="c"/>
<joint name="lead" type="prismatic"><parent link="base"/><child link="a"/><axis xyz="1 0 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="follow" type="prismatic"><parent link="a"/><child link="b"/><axis xyz="1 0 0"/>
  <limit lower="{low}" upper="{high}" effort="1" velocity="1"/>
  <mimic joint="lead" multiplier="{rate}" offset="0.1"/></joint>
<joint name="beside" type="prismatic"><parent link="b"/><child link="c"/><axis xyz="1 0 0"/>
  <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>"""


@pytest.mark.evidence
@pytest.mark.parametrize(("rate", "end"), [(2.0, "high"), (-2.0, "low"), (0.25, None)])
def test_the_limit_of_a_follower_is_in_its_own_column(rate, end):
    """The tip keeps its place; the posture pulls the leader up until its own limit, or its follower's, holds it."""

    def moved(by, **asked):
        low, high = -0.5 + by * (end == "low"), 0.5 + by * (end == "high")
        robot, targets = load_urdf(FOLLOWED.format(low=low, high=high, rate=rate)), [Target("c", row_weights=ALONG_X)]
        solver, _ = postured(robot, [5.0, 0.0, 0.0], targets, joints=["lead"], weight=1.0)
        return derived(solver, [np.array([[[0.6, 0.0, 0.0]]])], **asked)

    found = moved(0.0, limits=True)
    assert found.is_differentiable.all()
    column = 0 if end is None else 1
    assert not np.delete(found.by_limits[0], column, axis=1).any()
    own = found.by_limits[0, :, column]
    if end is None:
        np.testing.assert_allclose(own, [1.0, rate, -1.0 - rate], atol=1e-9)
    else:
        np.testing.assert_allclose(own, [1.0 / rate, 1.0, -1.0 - 1.0 / rate], atol=1e-9)
        np.testing.assert_allclose(own, differences(lambda _, by: moved(by).joint_q, range(1))[0, :, 0], atol=1e-6)


@pytest.mark.evidence
def test_products_are_each_others_transpose(panda, poses):
    (solver, posture), rng = postured(panda, panda.mid_joint_q), np.random.default_rng(0)
    fields = [(posture, "joint_q_reference"), (posture, "row_weights")]
    found = derived(solver, poses, data=fields, limits=True)
    *change, back, limits = rng.normal(size=(4, COUNT, 7))
    forward = (found.jvp(data=change, limits=limits) * back).sum()
    pulled = found.vjp(back)
    backward = sum((one * by).sum() for one, by in zip((*change, limits), (*pulled.data, pulled.limits), strict=True))
    assert forward == pytest.approx(backward, rel=1e-12)
    plain = derived(solver, poses)
    np.testing.assert_array_equal(found.by_targets, plain.by_targets)
    assert plain.by_data == ()
    assert plain.vjp(back).limits.shape == (COUNT, 0)


def test_columns_are_in_the_order_of_the_solver(panda, poses):
    found = []
    for order in (None, panda.joint_names[::-1]):
        posture = IKObjectivePosture(panda.mid_joint_q)
        solver = cpu_solver(panda, HAND, objectives=[posture], options=PRECISE, joint_order=order)
        found.append(derived(solver, poses, data=[(posture, "joint_q_reference")], limits=True))
    np.testing.assert_array_equal(found[1].by_data[0], found[0].by_data[0][:, ::-1])
    np.testing.assert_array_equal(found[1].by_limits, found[0].by_limits[:, ::-1, ::-1])


def test_what_a_solver_does_not_have_is_refused(panda, poses):
    posture = IKObjectivePosture(panda.mid_joint_q)
    solver = cpu_solver(panda, HAND, objectives=[posture])
    result = solver.solve(*poses)
    other = [(IKObjectivePosture(panda.mid_joint_q), "joint_q_reference")]
    pairs = "pairs of an objective and the name of a field"
    for data, words in ((other, "no objective of this solver"), (5, pairs), ([1], pairs), ([(posture,)], pairs)):
        with pytest.raises(InputError, match=words):
            solver.linearise(result, *poses, data=data)
    with pytest.raises(UnknownNameError, match="no field 'reference'"):
        solver.linearise(result, *poses, data=[(posture, "reference")])
    found, number = solver.linearise(result, *poses), np.zeros((COUNT, 7))
    for given, words in (
        ({"limits": number}, "limits=True"),
        *(({"data": d}, "0, those asked for") for d in (5, [number])),
    ):
        with pytest.raises(InputError, match=words):
            found.jvp(**given)

"""Rows with tolerances: `success` means that they are within them, by kinematics of the host, in both engines."""

import numpy as np
import pytest

from ik_service import IKStatus
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from objectives import (
    IKObjectiveCenterOfMass,
    IKObjectiveLookAt,
    IKObjectivePlane,
    IKObjectivePosition,
    IKObjectivePosture,
    InputError,
    ObjectiveError,
)
from tests.objectives.conftest import scene
from tests.objectives.objectives_of_tests import Choices, Depths
from tests.solver.conftest import (
    EACH_ENGINE,
    STAGED_QUICK,
    Reachable,
    assert_same_bytes,
    cpu_solver,
    pose_of,
)

COUNT = 120
TOOL = np.array([0.1, -0.05, 0.2, 0.0, np.sin(0.3), 0.0, np.cos(0.3)])
NORMAL = np.array([1.0, 0.2, 0.1]) / np.linalg.norm([1.0, 0.2, 0.1])


def single(values):
    """As float32 arrays hold them."""
    return np.asarray(values, np.float32).astype(np.float64)


# Each: an objective on the robot of problems, and its rows without weights in float64.
def plane(problems, points):
    objective = IKObjectivePlane("panda_link4", points, NORMAL, offset=TOOL, weight=1e-3)

    def rows(q):
        tool = transform_multiply(pose_of(problems.robot, q, "panda_link4"), single(TOOL))
        return ((tool[:, :3] - single(points)) @ single(NORMAL))[:, None]

    return objective, rows


def seen_position(problems, points):
    objective = IKObjectivePosition(
        "panda_link6", points, reference_link="panda_link2", row_weights=[0.0, 1.0, 2.0], weight=1e-3
    )

    def rows(q):
        base, moved = (pose_of(problems.robot, q, link) for link in ("panda_link2", "panda_link6"))
        return (transform_multiply(transform_inverse(base), moved)[:, :3] - single(points))[:, 1:]  # the first is off

    return objective, rows


def posture(problems, points):
    return IKObjectivePosture(problems.joint_q[0], weight=1e-3), lambda q: q - single(problems.joint_q[0])


def masses(problems, points):
    objective = IKObjectiveCenterOfMass(points, weight=1e-3)
    return objective, lambda q: problems.robot.center_of_mass(q) - single(points)


OBJECTIVES = {"plane": plane, "seen position": seen_position, "posture": posture, "masses": masses}


@pytest.fixture(scope="module")
def panda_problems():
    return Reachable.draw(scene("fixed").robot, ["panda_hand"], COUNT, random_seed=3)


def solved(problems, engine, objectives, **options):
    solver = cpu_solver(problems.robot, problems.links, objectives=objectives, engine=engine)
    return solver.solve(*problems.targets, options={"seeds": 16, **options})


@pytest.mark.quick_cases("staged-masses")
@pytest.mark.parametrize("name", OBJECTIVES)
@EACH_ENGINE
def test_success_means_that_rows_are_within_their_tolerances(panda_problems, engine, name):
    points = np.random.default_rng(4).uniform(-0.2, 0.4, (COUNT, 3))
    objective, rows = OBJECTIVES[name](panda_problems, points)
    without = np.abs(rows(solved(panda_problems, engine, [objective]).joint_q.astype(np.float64)))
    tolerances = np.quantile(without, 0.4, axis=0)  # so that some are within and others not
    objective, rows = OBJECTIVES[name](panda_problems, points)
    given = np.ones(objective.residual_dim()) if name != "posture" else np.ones(len(tolerances))
    given[-len(tolerances) :] = tolerances
    objective.set_row_tolerances(given)
    result = solved(panda_problems, engine, [objective])
    within = (np.abs(rows(result.joint_q.astype(np.float64))) <= tolerances).all(axis=1)
    np.testing.assert_array_equal(result.success, within & panda_problems.met(result.joint_q))
    assert within.mean() > (without <= tolerances).all(axis=1).mean() - 1e-9
    assert 0 < within.sum() < COUNT
    assert (result.status[~result.success] != IKStatus.CONVERGED).all()
    np.testing.assert_array_equal(result.islands.success[:, 0], result.success)


@STAGED_QUICK
def test_attempts_that_miss_a_row_give_way_to_others(panda_problems, engine):
    points = pose_of(panda_problems.robot, panda_problems.joint_q, "panda_link4")[:, :3]
    found = []
    for tolerance in (None, 0.05):
        objective = IKObjectivePlane("panda_link4", points, NORMAL, weight=1e-3)
        if tolerance is not None:
            objective.set_row_tolerances(tolerance)
        result = solved(panda_problems, engine, [objective], seeds=64)
        found.append(np.abs((pose_of(panda_problems.robot, result.joint_q, "panda_link4")[:, :3] - points) @ NORMAL))
    assert (found[0] <= 0.05).mean() < 0.85
    assert (found[1] <= 0.05 + 1e-6).mean() > 0.97
    assert result.success.mean() > 0.97
    assert result.seed_index.mean() > 1.0


@STAGED_QUICK
def test_infinite_tolerances_and_none_give_the_same_bytes(panda_problems, engine):
    results = []
    for tolerances in (None, np.inf):
        objective = IKObjectiveLookAt("panda_hand", [0.5, 0.2, 0.1], weight=0.01)
        if tolerances is not None:
            objective.set_row_tolerances(tolerances)
        results.append(solved(panda_problems, engine, [objective]))
    assert_same_bytes(*results)
    assert results[0].success.any()


@STAGED_QUICK
def test_only_islands_with_such_a_row_fail(engine):
    robot = scene("two_trees").robot
    problems = Reachable.draw(robot, ["l_tool", "r_tool"], 40, random_seed=5)
    objective = IKObjectivePosition("l3", [5.0, 5.0, 5.0], weight=1e-6)
    objective.set_row_tolerances([np.inf, 1.0, np.inf])
    solver = cpu_solver(robot, ["l_tool", "r_tool"], objectives=[objective], engine=engine)
    result = solver.solve(problems.positions, problems.orientations_xyzw)
    assert not result.success.any()
    assert not result.islands.success[:, 0].any()
    assert result.islands.success[:, 1].mean() > 0.9
    np.testing.assert_array_equal(result.status, result.islands.status[:, 0])
    assert (result.status != IKStatus.CONVERGED).all()


@STAGED_QUICK
def test_without_targets_a_minimum_is_a_success_where_its_rows_are_within(panda_problems, engine):
    points = np.tile([[0.4, 0.1, 0.5], [3.0, 0.0, 0.0]], (10, 1))  # within reach, and out of it
    objective = IKObjectivePosition("panda_hand", points)
    objective.set_row_tolerances(1e-3)
    solver = cpu_solver(panda_problems.robot, objectives=[objective], engine=engine)
    result = solver.solve(problem_count=20)
    np.testing.assert_array_equal(result.success, np.tile([True, False], 10))
    objective.set_row_tolerances(np.array([10.0, 10.0, 10.0]))
    again = solver.solve(problem_count=20)
    assert again.success.sum() >= result.success.sum()
    np.testing.assert_array_equal(again.joint_q, result.joint_q)


@pytest.mark.evidence
def test_tolerances_may_differ_from_problem_to_problem_and_change(panda_problems):
    objective = Choices("panda_hand", 1, (0.3,), weight=1e-4)
    objective.set_row_tolerances(np.tile([[1e-9, np.inf], [1e9, 1e9]], (COUNT // 2, 1)))
    solver = cpu_solver(panda_problems.robot, ["panda_hand"], objectives=[objective])
    given = panda_problems.positions, panda_problems.orientations_xyzw
    first = solver.solve(*given)
    assert not first.success[::2].any()
    assert first.success[1::2].mean() > 0.95
    objective.set_data("row_tolerances", [1e9, 1e9])
    assert solver.solve(*given).success.mean() > 0.95
    assert solver.engine == "compiled"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *((number, "above 0") for number in (0.0, -1.0, 1e-50, [1.0, np.nan, 1.0])),
        ([1.0, 2.0], "shape"),
        ("tight", "numbers"),
    ],
)
def test_tolerances_are_above_zero_and_have_the_shape_of_the_rows(wrong, words):
    """1e-50 is rounded to zero in float32."""
    objective = IKObjectivePosition("panda_hand", [0, 0, 0])
    with pytest.raises(InputError, match=words):
        objective.set_row_tolerances(wrong)
    assert not objective.has_row_tolerances
    objective.set_row_tolerances(1.0)
    with pytest.raises(InputError, match="above 0"):
        objective.set_data("row_tolerances", [1.0, 0.0, 1.0])


def test_an_objective_in_use_does_not_get_its_first_tolerances(panda):
    objective = IKObjectivePosition("panda_hand", [0.4, 0.1, 0.5])
    cpu_solver(panda, objectives=[objective])
    with pytest.raises(ObjectiveError, match="inf for none"):
        objective.set_row_tolerances(1.0)


def test_no_larger_tolerance_than_given_is_applied():
    objective = IKObjectivePosition("panda_hand", [0.4, 0.1, 0.5])
    objective.set_row_tolerances([1e-3, 0.1, 0.25])
    objective.bind_device("cpu")
    held = objective.data("row_tolerances").numpy()[0].astype(np.float64)
    assert (held <= [1e-3, 0.1, 0.25]).all()
    np.testing.assert_allclose(held, [1e-3, 0.1, 0.25], rtol=1e-7)
    assert held[2] == 0.25


@pytest.mark.parametrize("tolerances", [0.001, np.full(7, 0.001)])
def test_the_tolerances_that_were_given_last_go_along(panda, tolerances):
    objective = IKObjectivePosture(panda.mid_joint_q)
    objective.set_row_tolerances(0.01)
    cpu_solver(panda, objectives=[objective])
    objective.set_row_tolerances(tolerances)
    cpu_solver(panda, objectives=[again := objective.unbound_copy()])
    for one in (objective, again):
        np.testing.assert_allclose(one.data("row_tolerances").numpy(), 0.001, rtol=1e-6)


@pytest.mark.evidence
@EACH_ENGINE
def test_a_row_outside_its_domain_is_within_no_tolerance(panda_problems, engine):
    """`maximum` of a number and NaN is NaN: it does not hide that the row has no value."""
    objective = Depths("panda_hand")
    objective.set_row_tolerances(1e-3)
    result = solved(panda_problems, engine, [objective])
    assert not result.success.any()
    assert set(result.status_names) == {"invalid"}

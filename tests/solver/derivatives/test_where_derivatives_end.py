"""Answers that are singular, at kinks, at limits, met only loosely, or pulled at by light rows: right, or flagged."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima
from ik_service import SolverOptions, Target, load_robot
from ik_service.robots import load_urdf
from ik_service.solver.derivatives.linearisation import DofState
from objectives import IKObjectiveJointLimit, IKObjectivePosture
from tests.solver.conftest import bare_robot, cpu_solver
from tests.solver.derivatives.conftest import assert_near, assert_same_bytes_alone, derived, solved, values_at

PRECISE = SolverOptions(precision="float64")
LOOSE = SolverOptions(precision="float64", position_tolerance=0.05, orientation_tolerance=0.05)
HAND, TOOL = ["panda_hand"], ["tool0"]
REGULAR = [0.3, -1.2, 1.1, -0.5, 0.4, 0.2]
# Its second joint has limits that are one.
SHUT = """<robot name="shut"><link name="base"/><link name="one"/><link name="two"/><link name="three"/>
  <link name="tip"/>
  <joint name="first" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="second" type="revolute"><parent link="one"/><child link="two"/><origin xyz="0.4 0 0"/><axis xyz="0 0 1"/>
    <limit lower="0.3" upper="0.3" effort="1" velocity="1"/></joint>
  <joint name="third" type="revolute"><parent link="two"/><child link="three"/><origin xyz="0.3 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="fourth" type="prismatic"><parent link="three"/><child link="tip"/><origin xyz="0.3 0 0"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("joint", [2, 4])
def test_singular_answers_are_flagged(joint, precision):
    """A UR5e with its elbow or its wrist straight: the rank of its Jacobian is 5."""
    robot, start = load_robot("ur5e"), np.array([REGULAR, REGULAR])
    start[0, joint] = 0.0
    values, options = values_at(robot, TOOL, start), SolverOptions(precision=precision)
    result, found = solved(robot, TOOL, values, start, options=options)
    assert result.success.all()
    assert found.is_differentiable.tolist() == [False, True]
    assert not found.by_targets[0].any()


@pytest.mark.parametrize(("name", "links"), [("panda", HAND), ("ur5e", TOOL)])
def test_regular_answers_are_not_flagged(name, links):
    robot = bare_robot(name)
    start = robot.random_joint_q(np.random.default_rng(0), 1000)
    result, found = solved(robot, links, values_at(robot, links, start), start, options=PRECISE)
    assert (result.success & found.is_differentiable & (found.rank == 6)).all()


@pytest.mark.evidence
def test_rows_that_never_can_be_told_apart_are_not_singular():
    """A planar arm that is given a place in space: the rows along its axis never move."""
    robot = load_robot("ur5e").activate(["shoulder_lift_joint", "elbow_joint", "wrist_1_joint"])
    start = np.tile(robot.mid_joint_q, (3, 1))
    start[:, 1:4] = [[-1.2, 1.1, -0.5], [-1.0, 0.7, 0.4], [-0.4, -0.9, 0.3]]
    positions = values_at(robot, ["tool0"], start)[0]
    result, found = solved(robot, TOOL, (positions, None), start, options=PRECISE)
    assert result.success.all()
    assert found.rank.tolist() == [2, 2, 2]
    expected = np.linalg.pinv(robot.jacobian(found.joint_q, ["tool0"])[:, 0, :3][:, :, 1:4])
    assert found.is_differentiable.all()
    np.testing.assert_allclose(found.by_targets[:, 1:4, 0, :3], expected, atol=1e-7)


def beside_a_kink(robot, beyond, pull):
    """Answers beside a posture, and those beside a row as well that pulls a joint from so far beyond the first."""
    values = values_at(robot, HAND, robot.random_joint_q(np.random.default_rng(8), 6))
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.05)
    _, before = solved(robot, HAND, values, objectives=[posture], options=PRECISE)
    upper = np.full((6, robot.joint_dof_count), 10.0)
    upper[:, 3] = before.joint_q[:, 3] - beyond
    rows = IKObjectiveJointLimit(pull, joint_limit_lower=np.full_like(upper, -10.0), joint_limit_upper=upper)
    objectives = [posture.unbound_copy(), rows]
    return values, upper, before, solved(robot, HAND, values, before.joint_q, objectives=objectives, options=PRECISE)[1]


@pytest.mark.evidence
@pytest.mark.parametrize("beyond", [-1.5e-3, -5e-4, 1e-3, 1.5e-3])
def test_beside_a_kink_derivatives_are_those_of_its_side(panda, beyond):
    """A row that pulls from where an answer is, or from a little farther."""
    values, upper, before, found = beside_a_kink(panda, beyond, 0.05)
    kept = before.is_differentiable & found.is_differentiable & (found.dof_state == DofState.FREE).all(axis=1)
    kept &= np.abs(found.joint_q - before.joint_q).max(axis=1) < 0.01
    assert kept.sum() >= 3
    for p in np.flatnonzero(kept):
        limits = {"lower": np.full(7, -10.0), "upper": upper[p], "limit_weight": 0.05, "posture_weight": 0.05}
        own = [part[p : p + 1] for part in (*values, found.joint_q)]
        # No step crosses the kink.
        expected = Minima(panda, HAND, panda.mid_joint_q, **limits).derivatives(*own, apart=np.full(1, 3e-6))
        assert_near(found.by_targets[p : p + 1], expected, 1e-5)


@pytest.mark.evidence
def test_answers_at_a_kink_are_flagged(panda):
    _, _, before, found = beside_a_kink(panda, 0.0, 0.2)
    same = np.abs(found.joint_q - before.joint_q).max(axis=1) < 1e-6
    assert same.sum() >= 3
    assert not found.is_differentiable[same].any()


@pytest.mark.evidence
def test_a_limit_that_is_just_reached_beside_a_posture_is_one_sided(panda):
    """The posture's own configuration is at a limit: nothing presses, and nothing leaves."""
    reference = panda.mid_joint_q + np.array([0.3, 0.0, 0.4, 0.2, -0.3, 0.3, 0.0])
    reference[1] = panda.joint_limit_upper[1]
    objectives, values = [IKObjectivePosture(reference, weight=0.05)], values_at(panda, HAND, reference[None])
    _, found = solved(panda, HAND, values, reference, objectives=objectives, options=PRECISE)
    assert found.is_differentiable.all()
    assert found.dof_state[0, 1] == DofState.AT_UPPER
    assert found.one_sided[0].tolist() == [False, True] + 5 * [False]
    assert not found.by_targets[0, 1].any()


@pytest.mark.evidence_cases("0.05")
@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_limit_that_targets_lead_away_from_is_one_sided_however_a_posture_presses(weight):
    """Of 6 joints with 6 rows one is at its limit: no posture decides where it goes."""
    robot, start, outside = load_robot("ur5e"), np.array([REGULAR, REGULAR]), np.array(REGULAR)
    start[0, 1], start[1, 3] = robot.joint_limit_lower[1], robot.joint_limit_upper[3]
    outside[1], outside[3] = robot.joint_limit_lower[1] - 1.0, robot.joint_limit_upper[3] + 1.0
    inward = np.zeros_like(start)
    inward[0, 1], inward[1, 3] = 1e-3, -1e-3
    for moved in (inward, 0.0 * inward):  # a joint leaves its limit when that is asked for
        objectives = [IKObjectivePosture(outside, weight=weight)] if weight else []
        values = values_at(robot, TOOL, start + moved)
        result, found = solved(robot, TOOL, values, start, objectives=objectives, options=PRECISE)
        assert result.success.all()
        np.testing.assert_allclose(found.joint_q, start + moved, atol=1e-6)
    assert found.is_differentiable.all()
    assert np.argwhere(found.one_sided).tolist() == [[0, 1], [1, 3]]
    assert not found.by_targets[found.one_sided].any()


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_joint_whose_limits_are_one_has_no_other_side(weight):
    robot, reference = load_urdf(SHUT), np.array([0.1, 0.3, 0.2, 0.0])
    start = np.array([[0.4, 0.3, 0.5, 0.1], [-0.6, 0.3, -0.7, -0.2]])
    objectives = [IKObjectivePosture(reference, weight=weight)] if weight else []
    values = values_at(robot, ["tip"], start)[0], None
    result, found = solved(robot, ["tip"], values, start, objectives=objectives, options=PRECISE)
    assert result.success.all()
    assert (found.dof_state[:, 1] == DofState.AT_LOWER).all()
    assert not found.one_sided.any()
    assert not found.by_targets[:, 1].any()
    assert found.is_differentiable.all()
    free = np.tile([True, False, True, True], (2, 1))
    minima = Minima(robot, ["tip"], reference if weight else None)
    assert_near(found.by_targets, minima.derivatives(*values, found.joint_q, free), 1e-6)


@pytest.mark.evidence
def test_limits_beside_a_posture_press_where_they_have_a_multiplier():
    robot, outside = bare_robot("panda"), bare_robot("panda").mid_joint_q.copy()
    outside[1] = robot.joint_limit_lower[1] - 1.0
    values = values_at(robot, HAND, robot.random_joint_q(np.random.default_rng(0), 60))
    _, found = solved(robot, HAND, values, objectives=[IKObjectivePosture(outside, weight=0.05)], options=PRECISE)
    held, seen = found.dof_state != DofState.FREE, 0
    for p in np.flatnonzero(found.is_differentiable & held.any(axis=1)):
        jacobian, pull = robot.jacobian(found.joint_q[p], HAND)[0, 0], found.joint_q[p] - outside
        free = ~held[p]
        multipliers = np.linalg.lstsq(jacobian[:, free].T, -pull[free], rcond=None)[0]
        if np.linalg.matrix_rank(jacobian[:, free]) < 6:
            assert found.one_sided[p].any()
            continue
        slope = pull + jacobian.T @ multipliers
        np.testing.assert_allclose(slope[free], 0.0, atol=1e-7)
        outward = np.where(found.dof_state[p] == DofState.AT_LOWER, slope, -slope)[held[p]]
        assert np.array_equal(found.one_sided[p][held[p]], outward < 1e-6)
        assert not found.by_targets[p][held[p]].any()
        seen += 1
    assert seen > 5


@pytest.mark.evidence_cases("5 joints")
@pytest.mark.parametrize("case", ["5 joints", "stretched"])
def test_targets_met_only_within_loose_tolerances_have_the_derivatives_of_the_least_cost(case):
    """An arm of 5 joints is a few millimetres off everywhere, and a stretched one out of its reach by 20 mm."""
    is_short = case == "5 joints"
    robot = load_robot("ur5e").lock({"wrist_3_joint": 0.2}) if is_short else load_robot("ur5e")
    start = robot.random_joint_q(np.random.default_rng(3), count := 12 if is_short else 10)
    if not is_short:
        start[:, 2] = 0.01
    positions, orientations = values_at(robot, TOOL, start)
    away = positions - values_at(robot, ["upper_arm_link"], start)[0]
    away *= 0.02 / np.linalg.norm(away, axis=-1, keepdims=True)
    positions += np.random.default_rng(4).normal(size=positions.shape) * 0.02 if is_short else away
    result, found = solved(robot, TOOL, (positions, orientations), start, options=LOOSE)
    kept = found.is_differentiable & result.success
    assert kept.sum() > count / 2
    own = [one[kept] for one in (positions, orientations, found.joint_q)]
    free = np.tile([True] * 5 + [not is_short], (kept.sum(), 1))
    expected = Minima(robot, TOOL, is_met=False).derivatives(*own, free, np.full(kept.sum(), 1e-5))
    assert_near(found.by_targets[kept], expected, 1e-4)


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [1e-3, 2e-4, 1.5e-4, 1e-7])
def test_light_rows_of_the_first_priority_count_and_those_too_light_are_flagged(panda, weight):
    start, reference = panda.random_joint_q(np.random.default_rng(5), 4), panda.mid_joint_q + 0.1
    posture = IKObjectivePosture(reference, weight=weight)
    posture.priority = 0
    values = values_at(panda, HAND, start)
    _, found = solved(panda, HAND, values, start, objectives=[posture], options=PRECISE)
    if weight == 1e-7:
        assert not found.is_differentiable.any()
        return
    kept = found.is_differentiable & (found.dof_state == DofState.FREE).all(axis=1)
    assert kept.sum() >= 2
    minima = Minima(panda, HAND, reference, is_met=False, posture_weight=weight)
    assert_near(found.by_targets[kept], minima.derivatives(*(one[kept] for one in (*values, found.joint_q))), 1e-3)


@pytest.mark.evidence
def test_rows_of_targets_count_however_light_they_are():
    robot, start = load_robot("ur5e"), np.array([REGULAR])
    light, objectives = Target("tool0", row_weights=[1e-9, 1, 1, 1, 1, 1]), [IKObjectivePosture(start[0], weight=1.0)]
    _, found = solved(robot, [light], values_at(robot, TOOL, start), start, objectives=objectives, options=PRECISE)
    assert found.rank.tolist() == [6]
    assert found.is_differentiable.all()
    assert_near(found.by_targets[:, :, 0], np.linalg.inv(robot.jacobian(found.joint_q, TOOL)[:, 0]), 1e-6)


@pytest.mark.evidence_cases("True")
@pytest.mark.parametrize("has_posture", [False, True])
def test_bytes_are_the_same_alone_and_in_a_batch_with_tools_of_each_call(panda, has_posture):
    n, rng = 7, np.random.default_rng(6)
    tools = np.tile([0.1, -0.05, 0.2, 0.5, -0.5, 0.5, 0.5], (n, 1))
    tools[:, :3] += rng.normal(size=(n, 3)) * 0.05
    objectives = [IKObjectivePosture(panda.mid_joint_q, weight=0.05)] if has_posture else []
    start = panda.random_joint_q(rng, n)
    values, solver = (
        values_at(panda, HAND, start),
        cpu_solver(panda, [Target("panda_hand", offset=tools)], objectives=objectives),
    )
    together = derived(solver, values, start)
    assert together.is_differentiable.any()
    for k in range(n):
        for tool in (tools[k : k + 1], tools[k]):
            solver.set_target_data(0, offset=tool)
            alone = derived(solver, [part[k : k + 1] for part in values], start[k : k + 1])
            assert_same_bytes_alone(alone, together, k)

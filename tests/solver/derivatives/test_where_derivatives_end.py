"""Answers that are singular, at kinks, at limits, met only loosely, or pulled at by light rows: right, or flagged."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima
from ik_service import SolverOptions, Target, load_robot
from ik_service.robots import load_urdf
from ik_service.solver.derivatives.linearisation import DofState
from objectives import IKObjectiveJointLimit, IKObjectivePosture
from tests.solver.conftest import bare_robot, cpu_solver

PRECISE = SolverOptions(precision="float64")
LOOSE = SolverOptions(precision="float64", position_tolerance=0.05, orientation_tolerance=0.05)
HAND = ["panda_hand"]
REGULAR = [0.3, -1.2, 1.1, -0.5, 0.4, 0.2]
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
"""Its second joint has limits that are one."""


def poses_of(robot, links, joint_q):
    found = robot.forward_kinematics(joint_q, links)
    return found.positions, found.orientations_xyzw


def solved(robot, targets, values, start=None, options=PRECISE, objectives=()):
    """Derivatives of answers to values."""
    solver = cpu_solver(robot, targets, objectives=objectives, options=options)
    result = solver.solve(*values, initial_joint_q=start)
    return result, solver.linearise(result, *values)


def assert_right(found, expected, kept=None, tolerance=1e-6):
    """Compare derivatives, by the largest of each answer."""
    kept = np.ones(len(found), dtype=bool) if kept is None else kept
    assert kept.any()
    assert found.is_differentiable[kept].all()
    scale = np.abs(expected[kept]).max(axis=(1, 2, 3), keepdims=True)
    assert (scale > 0.0).all()
    np.testing.assert_allclose(found.by_targets[kept] / scale, expected[kept] / scale, atol=tolerance)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("joint", [2, 4])
def test_singular_answers_are_flagged(joint, precision):
    """A UR5e with its elbow or its wrist straight: the rank of its Jacobian is 5."""
    robot = load_robot("ur5e")
    start = np.array([REGULAR, REGULAR])
    start[0, joint] = 0.0
    values = poses_of(robot, ["tool0"], start)
    result, found = solved(robot, ["tool0"], values, start, SolverOptions(precision=precision))
    assert result.success.all()
    assert found.is_differentiable.tolist() == [False, True]
    assert not found.by_targets[0].any()


@pytest.mark.parametrize(("name", "link"), [("panda", "panda_hand"), ("ur5e", "tool0")])
def test_regular_answers_are_not_flagged(name, link):
    robot = bare_robot(name)
    start = robot.random_joint_q(np.random.default_rng(0), 1000)
    result, found = solved(robot, [link], poses_of(robot, [link], start), start)
    assert result.success.all()
    assert found.is_differentiable.all()
    assert (found.rank == 6).all()


@pytest.mark.evidence
def test_rows_that_never_can_be_told_apart_are_not_singular():
    """A planar arm that is given a place in space: the rows along its axis never move."""
    robot = load_robot("ur5e").activate(["shoulder_lift_joint", "elbow_joint", "wrist_1_joint"])
    start = np.tile(robot.mid_joint_q, (3, 1))
    start[:, 1:4] = [[-1.2, 1.1, -0.5], [-1.0, 0.7, 0.4], [-0.4, -0.9, 0.3]]
    positions = poses_of(robot, ["tool0"], start)[0]
    result, found = solved(robot, ["tool0"], (positions, None), start)
    assert result.success.all()
    assert found.rank.tolist() == [2, 2, 2]
    expected = np.linalg.pinv(robot.jacobian(found.joint_q, ["tool0"])[:, 0, :3][:, :, 1:4])
    assert found.is_differentiable.all()
    np.testing.assert_allclose(found.by_targets[:, 1:4, 0, :3], expected, atol=1e-7)


@pytest.mark.evidence
@pytest.mark.parametrize("beyond", [-1.5e-3, -5e-4, 1e-3, 1.5e-3])
def test_beside_a_kink_derivatives_are_those_of_its_side(beyond):
    """A row that pulls from where an answer is, or from a little farther."""
    robot, n, joint, pull = bare_robot("panda"), 6, 3, 0.05
    values = poses_of(robot, HAND, robot.random_joint_q(np.random.default_rng(8), n))
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.05)
    _, before = solved(robot, HAND, values, objectives=[posture])
    upper = np.full((n, robot.joint_dof_count), 10.0)
    upper[:, joint] = before.joint_q[:, joint] - beyond
    rows = IKObjectiveJointLimit(pull, joint_limit_lower=np.full_like(upper, -10.0), joint_limit_upper=upper)
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.05)
    _, found = solved(robot, HAND, values, before.joint_q, objectives=[posture, rows])
    kept = before.is_differentiable & found.is_differentiable & (found.dof_state == DofState.FREE).all(axis=1)
    kept &= np.abs(found.joint_q - before.joint_q).max(axis=1) < 0.01
    assert kept.sum() >= 3
    for p in np.flatnonzero(kept):
        limits = {
            "lower": np.full_like(upper[p], -10.0),
            "upper": upper[p],
            "limit_weight": pull,
            "posture_weight": 0.05,
        }
        own = [part[p : p + 1] for part in (*values, found.joint_q)]
        apart = np.full(1, 3e-6)  # no step crosses the kink
        expected = Minima(robot, HAND, robot.mid_joint_q, **limits).derivatives(*own, apart=apart)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found.by_targets[p] / scale, expected[0] / scale, atol=1e-5)


@pytest.mark.evidence
def test_answers_at_a_kink_are_flagged():
    robot = bare_robot("panda")
    values = poses_of(robot, HAND, robot.random_joint_q(np.random.default_rng(8), 6))
    _, before = solved(robot, HAND, values, objectives=[IKObjectivePosture(robot.mid_joint_q, weight=0.05)])
    upper = np.full((6, robot.joint_dof_count), 10.0)
    upper[:, 3] = before.joint_q[:, 3]
    rows = IKObjectiveJointLimit(0.2, joint_limit_lower=np.full_like(upper, -10.0), joint_limit_upper=upper)
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.05)
    _, found = solved(robot, HAND, values, before.joint_q, objectives=[posture, rows])
    same = np.abs(found.joint_q - before.joint_q).max(axis=1) < 1e-6
    assert same.sum() >= 3
    assert not found.is_differentiable[same].any()


@pytest.mark.evidence
def test_a_limit_that_is_just_reached_beside_a_posture_is_one_sided():
    """The posture's own configuration is at a limit: nothing presses, and nothing leaves."""
    robot = bare_robot("panda")
    reference = robot.mid_joint_q + np.array([0.3, 0.0, 0.4, 0.2, -0.3, 0.3, 0.0])
    reference[1] = robot.joint_limit_upper[1]
    values = poses_of(robot, HAND, reference[None])
    _, found = solved(robot, HAND, values, reference, objectives=[IKObjectivePosture(reference, weight=0.05)])
    assert found.is_differentiable.all()
    assert found.dof_state[0, 1] == DofState.AT_UPPER
    assert found.one_sided[0].tolist() == [False, True] + 5 * [False]
    assert not found.by_targets[0, 1].any()


@pytest.mark.evidence_cases("0.05")
@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_limit_that_targets_lead_away_from_is_one_sided_however_a_posture_presses(weight):
    """Of 6 joints with 6 rows one is at its limit: no posture decides where it goes."""
    robot, start = load_robot("ur5e"), np.array([REGULAR, REGULAR])
    start[0, 1], start[1, 3] = robot.joint_limit_lower[1], robot.joint_limit_upper[3]
    values, outside = poses_of(robot, ["tool0"], start), np.array(REGULAR)
    outside[1], outside[3] = robot.joint_limit_lower[1] - 1.0, robot.joint_limit_upper[3] + 1.0
    objectives = [IKObjectivePosture(outside, weight=weight)] if weight else []
    result, found = solved(robot, ["tool0"], values, start, objectives=objectives)
    assert result.success.all()
    np.testing.assert_allclose(found.joint_q, start, atol=1e-6)
    inward = np.zeros_like(start)
    inward[0, 1], inward[1, 3] = 1e-3, -1e-3
    again, _ = solved(robot, ["tool0"], poses_of(robot, ["tool0"], start + inward), start, objectives=objectives)
    np.testing.assert_allclose(again.joint_q, start + inward, atol=1e-6)  # it leaves when it is asked to
    assert found.is_differentiable.all()
    assert np.argwhere(found.one_sided).tolist() == [[0, 1], [1, 3]]
    assert not found.by_targets[found.one_sided].any()


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_joint_whose_limits_are_one_has_no_other_side(weight):
    robot = load_urdf(SHUT)
    start = np.array([[0.4, 0.3, 0.5, 0.1], [-0.6, 0.3, -0.7, -0.2]])
    reference = np.array([0.1, 0.3, 0.2, 0.0])
    objectives = [IKObjectivePosture(reference, weight=weight)] if weight else []
    positions = poses_of(robot, ["tip"], start)[0]
    result, found = solved(robot, ["tip"], (positions, None), start, objectives=objectives)
    assert result.success.all()
    assert (found.dof_state[:, 1] == DofState.AT_LOWER).all()
    assert not found.one_sided.any()
    assert not found.by_targets[:, 1].any()
    free = np.tile([True, False, True, True], (2, 1))
    minima = Minima(robot, ["tip"], reference if weight else None)
    assert_right(found, minima.derivatives(positions, None, found.joint_q, free))


@pytest.mark.evidence
def test_limits_beside_a_posture_press_where_they_have_a_multiplier():
    robot = bare_robot("panda")
    outside = robot.mid_joint_q.copy()
    outside[1] = robot.joint_limit_lower[1] - 1.0
    values = poses_of(robot, HAND, robot.random_joint_q(np.random.default_rng(0), 60))
    _, found = solved(robot, HAND, values, objectives=[IKObjectivePosture(outside, weight=0.05)])
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


@pytest.mark.evidence
def test_targets_met_only_within_loose_tolerances_have_the_derivatives_of_the_least_cost():
    """An arm of 5 joints is a few millimetres off everywhere: beside it, second derivatives of the errors count."""
    robot = load_robot("ur5e").lock({"wrist_3_joint": 0.2})
    start = robot.random_joint_q(np.random.default_rng(3), 12)
    positions, orientations = poses_of(robot, ["tool0"], start)
    positions += np.random.default_rng(4).normal(size=positions.shape) * 0.02
    result, found = solved(robot, ["tool0"], (positions, orientations), start, LOOSE)
    assert result.success.sum() > 6
    kept = found.is_differentiable & result.success
    assert kept.sum() > 6
    free = np.tile([True] * 5 + [False], (12, 1))
    minima = Minima(robot, ["tool0"], is_met=False)
    expected = minima.derivatives(
        positions[kept], orientations[kept], found.joint_q[kept], free[kept], np.full(kept.sum(), 1e-5)
    )
    scale = np.abs(expected).max(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found.by_targets[kept] / scale, expected / scale, atol=1e-4)


def test_targets_just_out_of_reach_within_loose_tolerances_have_derivatives():
    robot, n = load_robot("ur5e"), 10
    start = robot.random_joint_q(np.random.default_rng(3), n)
    start[:, 2] = 0.01
    positions, orientations = poses_of(robot, ["tool0"], start)
    away = positions - poses_of(robot, ["upper_arm_link"], start)[0]
    positions += 0.02 * away / np.linalg.norm(away, axis=-1, keepdims=True)
    result, found = solved(robot, ["tool0"], (positions, orientations), start, LOOSE)
    kept = result.success & found.is_differentiable
    assert kept.sum() > n / 2
    minima = Minima(robot, ["tool0"], is_met=False)
    apart = np.full(kept.sum(), 1e-5)
    expected = minima.derivatives(positions[kept], orientations[kept], found.joint_q[kept], apart=apart)
    scale = np.abs(expected).max(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found.by_targets[kept] / scale, expected / scale, atol=1e-4)


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [1e-3, 2e-4, 1.5e-4])
def test_light_rows_of_the_first_priority_count(weight):
    robot, n = bare_robot("panda"), 4
    start = robot.random_joint_q(np.random.default_rng(5), n)
    reference = robot.mid_joint_q + 0.1
    posture = IKObjectivePosture(reference, weight=weight)
    posture.priority = 0
    values = poses_of(robot, HAND, start)
    _, found = solved(robot, HAND, values, start, objectives=[posture])
    kept = found.is_differentiable & (found.dof_state == DofState.FREE).all(axis=1)
    assert kept.sum() >= 2
    minima = Minima(robot, HAND, reference, is_met=False, posture_weight=weight)
    expected = minima.derivatives(values[0][kept], values[1][kept], found.joint_q[kept])
    scale = np.abs(expected).max(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found.by_targets[kept] / scale, expected / scale, atol=1e-3)


@pytest.mark.evidence
def test_rows_too_light_to_be_told_from_none_are_flagged():
    robot = bare_robot("panda")
    posture = IKObjectivePosture(robot.mid_joint_q + 0.1, weight=1e-7)
    posture.priority = 0
    start = robot.random_joint_q(np.random.default_rng(5), 4)
    _, found = solved(robot, HAND, poses_of(robot, HAND, start), start, objectives=[posture])
    assert not found.is_differentiable.any()


@pytest.mark.evidence
def test_rows_of_targets_count_however_light_they_are():
    robot, start = load_robot("ur5e"), np.array([REGULAR])
    values = poses_of(robot, ["tool0"], start)
    light = Target("tool0", row_weights=[1e-9, 1, 1, 1, 1, 1])
    _, found = solved(robot, [light], values, start, objectives=[IKObjectivePosture(start[0], weight=1.0)])
    assert found.rank.tolist() == [6]
    expected = np.linalg.inv(robot.jacobian(found.joint_q, ["tool0"])[:, 0])
    assert_right(found, expected[:, :, None])


@pytest.mark.evidence_cases("True")
@pytest.mark.parametrize("has_posture", [False, True])
def test_bytes_are_the_same_alone_and_in_a_batch_with_tools_of_each_call(has_posture):
    robot, n = bare_robot("panda"), 7
    rng = np.random.default_rng(6)
    tools = np.tile([0.1, -0.05, 0.2, 0.5, -0.5, 0.5, 0.5], (n, 1)) + np.hstack(
        [rng.normal(size=(n, 3)) * 0.05, np.zeros((n, 4))]
    )
    objectives = [IKObjectivePosture(robot.mid_joint_q, weight=0.05)] if has_posture else []
    start = robot.random_joint_q(rng, n)
    values = poses_of(robot, HAND, start)
    solver = cpu_solver(robot, [Target("panda_hand", offset=tools)], objectives=objectives)
    result = solver.solve(*values, initial_joint_q=start)
    together = solver.linearise(result, *values)
    assert together.is_differentiable.any()
    for k in range(n):
        for tool in (tools[k : k + 1], tools[k]):
            solver.set_target_data(0, offset=tool)
            one = [part[k : k + 1] for part in values]
            answer = solver.solve(*one, initial_joint_q=start[k : k + 1])
            assert answer.joint_q.tobytes() == result.joint_q[k].tobytes()
            alone = solver.linearise(answer, *one)
            for name in ("joint_q", "by_targets", "by_offsets", "is_differentiable", "dof_state", "one_sided", "rank"):
                assert getattr(alone, name)[0].tobytes() == getattr(together, name)[k].tobytes(), name

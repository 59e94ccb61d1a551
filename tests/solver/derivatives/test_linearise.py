"""Derivatives of answers by their targets, against minima of targets a little apart, and what they are where."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima
from ik_service import EngineError, SolverOptions, Target, load_robot
from ik_service.robots import load_urdf
from ik_service.solver.derivatives import linearise as linearise_module
from ik_service.solver.derivatives.linearisation import DofState
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import bare_robot, cpu_solver
from tests.solver.derivatives.chain_robot import chain_robot
from tests.solver.derivatives.conftest import assert_near, assert_same_bytes_alone, derived, solved, values_at
from tests.solver.quick_objective import QuickObjective

FOLLOWED = """<robot name="followed"><link name="base"/><link name="one"/><link name="two"/><link name="three"/>
  <link name="tip"/><joint name="first" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="second" type="revolute"><parent link="one"/><child link="two"/><origin xyz="0.4 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/><mimic joint="first" multiplier="0.5" offset="0.2"/></joint>
  <joint name="third" type="revolute"><parent link="two"/><child link="three"/><origin xyz="0.3 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="mount" type="fixed"><parent link="three"/><child link="tip"/><origin xyz="0.3 0 0"/></joint></robot>"""
FREE, PRECISE = SolverOptions(joint_limits="off", position_tolerance=1e-5), SolverOptions(precision="float64")
HAND = ["panda_hand"]
HANDS = ["left_panda_hand", "right_panda_hand"]
WELL_APART_FROM_SINGULAR = 0.05


def posture(robot):
    return IKObjectivePosture(robot.mid_joint_q, weight=0.05)


def reachable(robot, links, count, random_seed=0):
    """Values of targets and the configurations that reach them, far from singular ones."""
    joint_q = robot.random_joint_q(np.random.default_rng(random_seed), 20 * count)
    jacobian = robot.jacobian(joint_q, links).reshape(len(joint_q), -1, robot.joint_dof_count)
    least = np.linalg.svd(jacobian[..., robot.active_dof], compute_uv=False).min(axis=1)
    joint_q = joint_q[least > WELL_APART_FROM_SINGULAR][:count]
    return values_at(robot, links, joint_q), joint_q


def derived_at_reachable(solver, count):
    links = [target.link for target in solver.targets]
    return derived(solver, *reachable(solver.robot, links, count))


CASES = {
    "ur5e": ("ur5e", ["tool0"], False, 12),
    "panda": ("panda", ["panda_hand"], True, 6),
    "dual_panda": ("dual_panda", HANDS, True, 3),
}


@pytest.mark.evidence_cases("dual_panda", "panda")
@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_the_minima(case):
    name, links, has_posture, count = CASES[case]
    robot = bare_robot(name)
    objectives = [posture(robot)] if has_posture else []
    values, start = reachable(robot, links, count)
    result, found = solved(robot, links, values, start, objectives=objectives, options=PRECISE)
    assert result.success.all()
    assert found.is_differentiable.all()
    np.testing.assert_allclose(found.joint_q, result.joint_q, atol=0.05 if has_posture else 1e-7)
    minima = Minima(robot, links, robot.mid_joint_q if has_posture else None)
    assert_near(found.by_targets, minima.derivatives(*values, found.joint_q, found.dof_state == DofState.FREE), 1e-6)


def test_a_redundant_arm_follows_on_the_shortest_way(panda):
    found = derived_at_reachable(cpu_solver(panda, HAND), 8)
    expected = np.linalg.pinv(panda.jacobian(found.joint_q, HAND)[:, 0])
    np.testing.assert_allclose(found.by_targets[:, :, 0], expected, atol=1e-8)
    assert (found.rank == 6).all()


@pytest.mark.evidence
def test_islands_do_not_follow_each_others_targets(dual_panda):
    found = derived_at_reachable(cpu_solver(dual_panda, HANDS, objectives=[posture(dual_panda)], options=PRECISE), 2)
    left = np.array([name.startswith("left") for name in dual_panda.dof_names])
    for own, arm in ((left, 0), (~left, 1)):
        assert found.by_targets[:, own, arm].any()
        assert not found.by_targets[:, ~own, arm].any()


def test_targets_out_of_reach_pull_their_minimum_along():
    robot, links = load_robot("ur5e"), ["tool0"]
    values, start = reachable(robot, links, 4)
    values[0][:] += 1.0
    result, found = solved(robot, links, values, start, options=PRECISE)
    assert not result.success.any()
    kept = found.is_differentiable & ~result.active_limits.any(axis=1)  # the oracle knows no limits
    assert kept.any()
    expected = Minima(robot, links, is_met=False).derivatives(*(one[kept] for one in (*values, found.joint_q)))
    np.testing.assert_allclose(found.by_targets[kept], expected, atol=1e-5)
    assert not found.by_targets[~found.is_differentiable].any()


def test_a_joint_that_a_limit_holds_stays(panda):
    outside = panda.mid_joint_q + np.array([0.3, 0.0, 0.4, 0.2, -0.3, 0.3, 0.0])  # in no plane: that is singular
    outside[1] = panda.joint_limit_upper[1] + 1.0  # where the posture would have it
    start = cpu_solver(panda, objectives=[IKObjectivePosture(outside)]).solve(problem_count=1).joint_q
    assert start[0, 1] == np.float32(panda.joint_limit_upper[1])
    objectives = [IKObjectivePosture(outside, weight=0.05)]
    answer, found = solved(panda, HAND, values_at(panda, HAND, start), start, objectives=objectives, options=PRECISE)
    assert answer.success.all()
    assert found.is_differentiable.all()
    assert found.dof_state[0, 1] == DofState.AT_UPPER
    assert not found.one_sided[0, 1]
    assert not found.by_targets[0, 1].any()
    assert found.by_targets[0, 2:].any()


@pytest.mark.evidence
def test_answers_at_limits_follow_along_them(panda):
    outside = panda.mid_joint_q.copy()
    outside[1] = panda.joint_limit_lower[1] - 1.0
    values, start = reachable(panda, HAND, 30)
    objectives = [IKObjectivePosture(outside, weight=0.05)]
    _, found = solved(panda, HAND, values, start, objectives=objectives, options=PRECISE)
    at_limit = found.is_differentiable & ((found.dof_state != DofState.FREE).sum(axis=1) == 1)
    assert at_limit.sum() > 3
    state, joint_q, own = (one[at_limit] for one in (found.dof_state, found.joint_q, found.by_targets))
    held = state != DofState.FREE
    limits = np.where(state == DofState.AT_LOWER, panda.joint_limit_lower, panda.joint_limit_upper)
    assert np.array_equal(joint_q[held], limits[held])
    expected = Minima(panda, HAND, outside).derivatives(*(one[at_limit] for one in values), joint_q, ~held)
    smooth = np.abs(own).max(axis=(1, 2, 3)) < 10.0
    np.testing.assert_allclose(own[smooth], expected[smooth], atol=1e-4)
    assert not own[held].any()


def test_joints_that_no_target_moves_are_fixed():
    robot = bare_robot("panda_gripper")
    values, start = reachable(robot.lock({"panda_finger_joint1": 0.01}), HAND, 2)
    found = derived(cpu_solver(robot, HAND), values, start)
    fingers = np.array(["finger" in name for name in robot.dof_names])
    assert (found.dof_state == np.where(fingers, DofState.FIXED, DofState.FREE)).all()
    assert not found.by_targets[:, fingers].any()


def test_products_are_each_others_transpose():
    found, rng = derived_at_reachable(cpu_solver(load_robot("ur5e"), ["tool0"]), 5), np.random.default_rng(1)
    change, turn, by_q = rng.normal(size=(5, 1, 3)), rng.normal(size=(5, 1, 3)), rng.normal(size=(5, 6))
    back, forth = found.vjp(by_q), found.jvp(change, turn)
    assert forth.shape == (5, 6)
    np.testing.assert_allclose((forth * by_q).sum(), (back.positions * change).sum() + (back.rotations * turn).sum())
    with pytest.raises(InputError, match=r"joint_q has shape \[6\]"):
        found.vjp(by_q[0])


def test_answers_that_are_no_minimum_have_none():
    robot, links = load_robot("ur5e"), ["tool0"]
    options = SolverOptions(sampler="none", max_iterations=2)
    _, found = solved(robot, links, reachable(robot, links, 20)[0], options=options)
    lost = ~found.is_differentiable
    assert lost.any()
    assert not found.by_targets[lost].any()


POSE = [[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]]


def test_what_cannot_be_derived_is_refused(panda):
    solver = cpu_solver(panda, HAND, objectives=[QuickObjective(6, [[0.4, 0.1, 0.5]])])
    result = solver.solve(*POSE)
    with pytest.raises(EngineError, match="does not state its rows"):
        solver.linearise(result, *POSE)
    with pytest.raises(InputError, match="targets of 2 problems and 1 answers"):
        solver.linearise(result, *(np.repeat(one, 2, axis=0) for one in POSE))


def test_answers_of_other_solvers_and_other_parts_of_targets_are_refused(panda):
    plain = cpu_solver(panda, HAND)
    with_posture = cpu_solver(panda, HAND, objectives=[posture(panda)])
    turned = cpu_solver(panda, HAND, joint_order=panda.joint_names[::-1])
    shorter = cpu_solver(panda.lock({"panda_joint1": 0.0}), HAND)
    for solver, result, given, words in (
        (with_posture, plain.solve(*POSE), POSE, "of another solver: its rows differ"),
        (plain, turned.solve(*POSE), POSE, "of another solver: its order of joints differ"),
        (plain, shorter.solve(*POSE), POSE, "of another solver: its robot differ"),
        (plain, plain.solve(POSE[0]), POSE, "Target 0 is given with orientations, without which it was solved for"),
        (plain, plain.solve(*POSE), POSE[:1], "Target 0 was solved for with orientations, which are not given"),
    ):
        with pytest.raises(InputError, match=words):
            solver.linearise(result, *given)
    alike = cpu_solver(panda, HAND)
    assert plain.linearise(alike.solve(*POSE), *POSE).is_differentiable.all()
    light = cpu_solver(panda, [Target("panda_hand", row_weights=[1, 1, 1, 0, 0, 0])])
    assert derived(light, POSE).is_differentiable.all()  # rows that do not count


@pytest.mark.evidence
def test_limits_that_weigh_nothing_do_not_act_against_targets(panda):
    options = SolverOptions(precision="float64", joint_limits="soft")
    found = derived_at_reachable(cpu_solver(panda, HAND, objectives=[posture(panda)], options=options), 6)
    is_derived = found.is_differentiable
    assert is_derived.sum() > 3
    follows = panda.jacobian(found.joint_q, HAND)[is_derived, 0] @ found.by_targets[is_derived, :, 0]
    np.testing.assert_allclose(follows, np.broadcast_to(np.eye(6), follows.shape), atol=1e-8)


@pytest.mark.evidence
def test_two_costs_of_which_one_comes_first_have_no_derivatives(dual_panda):
    first = IKObjectivePosture(dual_panda.mid_joint_q + 0.3, weight=0.01)
    first.priority = 0
    solver = cpu_solver(dual_panda, HANDS, objectives=[first, posture(dual_panda)], options=PRECISE)
    found = derived_at_reachable(solver, 2)
    assert not found.is_differentiable.any()
    assert not found.by_targets.any()


def test_columns_are_in_the_order_of_the_caller(panda):
    values, start = reachable(panda, HAND, 3)
    expected = derived(cpu_solver(panda, HAND), values, start)
    result, found = solved(panda, HAND, values, start[:, ::-1], joint_order=panda.joint_names[::-1])
    np.testing.assert_allclose(found.joint_q, expected.joint_q[:, ::-1], atol=1e-6)
    np.testing.assert_allclose(found.by_targets, expected.by_targets[:, ::-1], atol=1e-4)
    np.testing.assert_allclose(found.joint_q, result.joint_q, atol=1e-5)


@pytest.mark.evidence
def test_followers_that_an_order_leaves_out_follow():
    robot = load_urdf(FOLLOWED)
    joint_q = robot.complete_joint_q(robot.random_joint_q(np.random.default_rng(0), 5))
    values = values_at(robot, ["tip"], joint_q)[:1]
    _, expected = solved(robot, ["tip"], values, joint_q, options=FREE)
    _, found = solved(robot, ["tip"], values, joint_q[:, [0, 2]], options=FREE, joint_order=["first", "third"])
    assert expected.is_differentiable.any()
    np.testing.assert_array_equal(found.is_differentiable, expected.is_differentiable)
    np.testing.assert_allclose(found.joint_q, expected.joint_q[:, [0, 2]], atol=1e-5)
    np.testing.assert_allclose(found.by_targets, expected.by_targets[:, [0, 2]], atol=1e-3)


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("robot", "link"), [(bare_robot("panda"), "panda_hand"), (chain_robot(), "tip")], ids=["panda", "chain"]
)
def test_beside_a_posture_an_answer_has_the_same_bytes_alone_and_among_others(robot, link):
    solver = cpu_solver(robot, [link], objectives=[posture(robot)])
    values = values_at(robot, [link], robot.random_joint_q(np.random.default_rng(0), 12))
    together = derived(solver, values)
    for k in range(12):
        assert_same_bytes_alone(derived(solver, [one[k : k + 1] for one in values]), together, k)


@pytest.mark.evidence
def test_loops_that_are_open_do_not_count():
    robot = load_robot("delta")
    solver = cpu_solver(robot, ["platform"])
    joint_q = robot.constraints.close(robot.random_joint_q(np.random.default_rng(0), 2)).joint_q
    positions, open_one = values_at(robot, ["platform"], joint_q)[0], [False, True, True]
    loose, closed, each = (
        solver.linearise(solver.solve(positions, constraint_enabled=on), positions, constraint_enabled=on).rank
        for on in (open_one, None, [open_one, [True] * 3])
    )
    assert (loose < closed).all()
    assert each.tolist() == [loose[0], closed[1]]


@pytest.mark.evidence
def test_data_of_more_problems_before_do_not_count():
    robot = load_robot("ur5e")
    near = IKObjectivePosture(robot.mid_joint_q, weight=0.01)
    solver, (values, start) = cpu_solver(robot, ["tool0"], objectives=[near]), reachable(robot, ["tool0"], 4)
    near.set_reference(np.stack([robot.mid_joint_q, robot.mid_joint_q + 0.1]))
    solver.solve(*(one[:2] for one in values))
    near.set_reference(robot.mid_joint_q)
    assert len(derived(solver, values, start)) == 4


@pytest.mark.evidence
def test_objectives_alone_have_a_minimum_and_no_targets():
    robot = load_robot("ur5e")
    solver = cpu_solver(robot, [], objectives=[IKObjectivePosture(robot.mid_joint_q + 0.1)])
    found = solver.linearise(solver.solve(problem_count=3))
    assert found.is_differentiable.all()
    assert found.by_targets.shape == (3, 6, 0, 6)
    np.testing.assert_allclose(found.joint_q, np.tile(robot.mid_joint_q + 0.1, (3, 1)), atol=1e-6)


@pytest.mark.parametrize("wrong", [([[np.nan, 0.0, 0.0]], POSE[1]), (POSE[0], [[0.0, 0, 0, 0]])])
def test_numbers_of_targets_are_checked(wrong):
    solver = cpu_solver(load_robot("ur5e"), ["tool0"])
    with pytest.raises(InputError, match=r"positions|orientations_xyzw"):
        solver.linearise(solver.solve(*POSE), *map(np.array, wrong))


def test_long_batches_are_derived_in_parts(monkeypatch):
    solver = cpu_solver(load_robot("ur5e"), ["tool0"])
    expected = derived_at_reachable(solver, 7)
    monkeypatch.setattr(linearise_module, "ANSWERS_AT_ONCE", 3)
    np.testing.assert_allclose(derived_at_reachable(solver, 7).by_targets, expected.by_targets, rtol=1e-9, atol=1e-9)


@pytest.mark.evidence
@pytest.mark.parametrize("is_turned", [False, True])
def test_coordinates_follow_as_dofs_do(humanoid, is_turned):
    """A floating base has four coordinates of rotation, and three DOFs."""
    solver = cpu_solver(humanoid, ["left_grasp"], joint_order=humanoid.joint_names[::-1] if is_turned else None)
    joint_q = humanoid.random_joint_q(np.random.default_rng(0), 2)
    found = derived(solver, values_at(humanoid, ["left_grasp"], joint_q))
    step = 1e-6 * np.random.default_rng(1).normal(size=(2, humanoid.joint_dof_count))
    moved = found.joint_q[:, np.argsort(found.order.coordinates)]
    moved = humanoid.integrate(moved, step[:, np.argsort(found.order.dofs)])[:, found.order.coordinates]
    np.testing.assert_allclose(found.coordinates_by(step), moved - found.joint_q, atol=1e-11)
    assert found.coordinates_by(found.by_targets).shape == (2, humanoid.joint_coord_count, 1, 6)

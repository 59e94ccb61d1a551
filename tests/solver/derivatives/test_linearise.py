"""Derivatives of answers by their targets, against minima of targets a little apart, and what they are where."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima
from ik_service import SolverOptions, Target, load_robot
from ik_service.errors import EngineError
from ik_service.robots import load_urdf
from ik_service.solver.derivatives import linearise as linearise_module
from ik_service.solver.derivatives.linearisation import DofState
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import bare_robot, cpu_solver
from tests.solver.derivatives.chain_robot import chain_robot
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
HANDS = ["left_panda_hand", "right_panda_hand"]
WELL_APART_FROM_SINGULAR = 0.05


def posture(robot):
    return IKObjectivePosture(robot.mid_joint_q, weight=0.05)


def reachable(robot, links, count, random_seed=0):  # poses and joint_q, far from singular
    joint_q = robot.random_joint_q(np.random.default_rng(random_seed), 20 * count)
    jacobian = robot.jacobian(joint_q, links).reshape(len(joint_q), -1, robot.joint_dof_count)
    least = np.linalg.svd(jacobian[..., robot.active_dof], compute_uv=False).min(axis=1)
    joint_q = joint_q[least > WELL_APART_FROM_SINGULAR][:count]
    poses = robot.forward_kinematics(joint_q, links)
    return poses.positions, poses.orientations_xyzw, joint_q


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
    solver = cpu_solver(robot, links, objectives=objectives, options=PRECISE)
    positions, orientations, start = reachable(robot, links, count)
    result = solver.solve(positions, orientations, initial_joint_q=start)
    assert result.success.all()
    found = solver.linearise(result, positions, orientations)
    assert found.is_differentiable.all()
    np.testing.assert_allclose(found.joint_q, result.joint_q, atol=0.05 if has_posture else 1e-7)
    minima = Minima(robot, links, robot.mid_joint_q if has_posture else None)
    expected = minima.derivatives(positions, orientations, found.joint_q, found.dof_state == DofState.FREE)
    scale = np.abs(expected).max(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found.by_targets / scale, expected / scale, atol=1e-6)


def test_a_redundant_arm_follows_on_the_shortest_way():
    robot, links = bare_robot("panda"), ["panda_hand"]
    solver = cpu_solver(robot, links)
    positions, orientations, start = reachable(robot, links, 8)
    result = solver.solve(positions, orientations, initial_joint_q=start)
    found = solver.linearise(result, positions, orientations)
    expected = np.linalg.pinv(robot.jacobian(found.joint_q, links)[:, 0])
    np.testing.assert_allclose(found.by_targets[:, :, 0], expected, atol=1e-8)
    assert (found.rank == 6).all()


@pytest.mark.evidence
def test_islands_do_not_follow_each_others_targets():
    robot = bare_robot("dual_panda")
    solver = cpu_solver(robot, HANDS, objectives=[posture(robot)], options=PRECISE)
    positions, orientations, start = reachable(robot, HANDS, 2)
    found = solver.linearise(solver.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    left = np.array([name.startswith("left") for name in robot.dof_names])
    assert not found.by_targets[:, left, 1].any()
    assert not found.by_targets[:, ~left, 0].any()
    assert found.by_targets[:, left, 0].any()
    assert found.by_targets[:, ~left, 1].any()


def test_targets_out_of_reach_pull_their_minimum_along():
    robot, links = load_robot("ur5e"), ["tool0"]
    solver = cpu_solver(robot, links, options=PRECISE)
    positions, orientations, start = reachable(robot, links, 4)
    positions += 1.0
    result = solver.solve(positions, orientations, initial_joint_q=start)
    assert not result.success.any()
    found = solver.linearise(result, positions, orientations)
    kept = found.is_differentiable
    assert kept.any()
    minima = Minima(robot, links, is_met=False)
    expected = minima.derivatives(positions[kept], orientations[kept], found.joint_q[kept])
    np.testing.assert_allclose(found.by_targets[kept], expected, atol=1e-5)
    assert not found.by_targets[~kept].any()


def test_a_joint_that_a_limit_holds_stays():
    robot, links = bare_robot("panda"), ["panda_hand"]
    outside = robot.mid_joint_q + np.array([0.3, 0.0, 0.4, 0.2, -0.3, 0.3, 0.0])  # in no plane: that is singular
    outside[1] = robot.joint_limit_upper[1] + 1.0  # where the posture would have it
    solver = cpu_solver(robot, [], objectives=[IKObjectivePosture(outside)], options=SolverOptions(joint_limits="hard"))
    result = solver.solve(problem_count=1)
    assert result.joint_q[0, 1] == np.float32(robot.joint_limit_upper[1])
    arm = cpu_solver(robot, links, objectives=[IKObjectivePosture(outside, weight=0.05)], options=PRECISE)
    poses = robot.forward_kinematics(result.joint_q, links)
    answer = arm.solve(poses.positions, poses.orientations_xyzw, initial_joint_q=result.joint_q)
    assert answer.success.all()
    found = arm.linearise(answer, poses.positions, poses.orientations_xyzw)
    assert found.is_differentiable.all()
    assert found.dof_state[0, 1] == DofState.AT_UPPER
    assert not found.one_sided[0, 1]
    assert not found.by_targets[0, 1].any()
    assert found.by_targets[0, 2:].any()


@pytest.mark.evidence
def test_answers_at_limits_follow_along_them():
    robot, links = bare_robot("panda"), ["panda_hand"]
    outside = robot.mid_joint_q.copy()
    outside[1] = robot.joint_limit_lower[1] - 1.0
    solver = cpu_solver(robot, links, objectives=[IKObjectivePosture(outside, weight=0.05)], options=PRECISE)
    positions, orientations, start = reachable(robot, links, 30)
    found = solver.linearise(solver.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    at_limit = found.is_differentiable & ((found.dof_state != DofState.FREE).sum(axis=1) == 1)
    assert at_limit.sum() > 3
    held = found.dof_state[at_limit] != DofState.FREE
    limits = np.where(found.dof_state[at_limit] == DofState.AT_LOWER, robot.joint_limit_lower, robot.joint_limit_upper)
    assert np.array_equal(found.joint_q[at_limit][held], limits[held])
    targets, joint_q = (positions[at_limit], orientations[at_limit]), found.joint_q[at_limit]
    expected = Minima(robot, links, outside).derivatives(*targets, joint_q, ~held)
    own = found.by_targets[at_limit]
    smooth = np.abs(own).max(axis=(1, 2, 3)) < 10.0
    np.testing.assert_allclose(own[smooth], expected[smooth], atol=1e-4)
    assert not own[held].any()


def test_joints_that_no_target_moves_are_fixed():
    robot = bare_robot("panda_gripper")
    solver = cpu_solver(robot, ["panda_hand"])
    positions, orientations, start = reachable(robot.lock({"panda_finger_joint1": 0.01}), ["panda_hand"], 2)
    found = solver.linearise(solver.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    fingers = np.array(["finger" in name for name in robot.dof_names])
    assert (found.dof_state[:, fingers] == DofState.FIXED).all()
    assert not found.by_targets[:, fingers].any()
    assert (found.dof_state[:, ~fingers] == DofState.FREE).all()


def test_products_are_each_others_transpose():
    robot, links = load_robot("ur5e"), ["tool0"]
    solver = cpu_solver(robot, links)
    positions, orientations, start = reachable(robot, links, 5)
    found = solver.linearise(solver.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    rng = np.random.default_rng(1)
    change, turn, by_q = rng.normal(size=(5, 1, 3)), rng.normal(size=(5, 1, 3)), rng.normal(size=(5, 6))
    back = found.vjp(by_q)
    forth = found.jvp(change, turn)
    assert forth.shape == (5, 6)
    np.testing.assert_allclose((forth * by_q).sum(), (back.positions * change).sum() + (back.rotations * turn).sum())
    with pytest.raises(InputError, match=r"joint_q has shape \[6\]"):
        found.vjp(by_q[0])


@pytest.mark.evidence
def test_positions_alone_have_no_derivatives_by_rotations():
    robot, links = load_robot("ur5e"), ["tool0"]
    solver = cpu_solver(robot, links)
    positions, _, start = reachable(robot, links, 3)
    result = solver.solve(positions, initial_joint_q=start)
    found = solver.linearise(result, positions)
    assert (found.rank == 3).all()
    assert not found.by_targets[..., 3:].any()
    follows = robot.jacobian(found.joint_q, links)[:, 0, :3] @ found.by_targets[:, :, 0, :3]
    np.testing.assert_allclose(follows, np.broadcast_to(np.eye(3), (3, 3, 3)), atol=1e-9)


def test_answers_that_are_no_minimum_have_none():
    robot, links = load_robot("ur5e"), ["tool0"]
    solver = cpu_solver(robot, links, options=SolverOptions(seeds=1, max_iterations=2))
    positions, orientations, _ = reachable(robot, links, 20)
    result = solver.solve(positions, orientations)
    found = solver.linearise(result, positions, orientations)
    lost = ~found.is_differentiable
    assert lost.any()
    assert not found.by_targets[lost].any()


def test_what_cannot_be_derived_is_refused():
    robot = bare_robot("panda")
    solver = cpu_solver(robot, ["panda_hand"], objectives=[QuickObjective(6, [[0.4, 0.1, 0.5]])])
    pose = [[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]]
    result = solver.solve(*pose)
    with pytest.raises(EngineError, match="does not state its rows"):
        solver.linearise(result, *pose)
    with pytest.raises(InputError, match="targets of 2 problems and 1 answers"):
        solver.linearise(result, np.repeat(pose[0], 2, axis=0), np.repeat(pose[1], 2, axis=0))


def test_answers_of_other_solvers_are_refused():
    robot = bare_robot("panda")
    pose = [[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]]
    solver = cpu_solver(robot, ["panda_hand"], objectives=[posture(robot)])
    plain = cpu_solver(robot, ["panda_hand"])
    turned = cpu_solver(robot, ["panda_hand"], joint_order=robot.joint_names[::-1])
    shorter = cpu_solver(robot.lock({"panda_joint1": 0.0}), ["panda_hand"])
    with pytest.raises(InputError, match="of another solver: its rows differ"):
        solver.linearise(plain.solve(*pose), *pose)
    with pytest.raises(InputError, match="of another solver: its order of joints differ"):
        plain.linearise(turned.solve(*pose), *pose)
    with pytest.raises(InputError, match="of another solver: its robot differ"):
        plain.linearise(shorter.solve(*pose), *pose)
    alike = cpu_solver(robot, ["panda_hand"])
    assert plain.linearise(alike.solve(*pose), *pose).is_differentiable.all()


def test_other_parts_of_targets_than_in_the_solve_are_refused():
    robot, links = bare_robot("panda"), ["panda_hand"]
    pose = [[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]]
    solver = cpu_solver(robot, links)
    with pytest.raises(InputError, match="Target 0 is given with orientations, without which it was solved for"):
        solver.linearise(solver.solve(pose[0]), *pose)
    with pytest.raises(InputError, match="Target 0 was solved for with orientations, which are not given"):
        solver.linearise(solver.solve(*pose), pose[0])
    light = cpu_solver(robot, [Target("panda_hand", row_weights=[1, 1, 1, 0, 0, 0])])
    assert light.linearise(light.solve(*pose), *pose).is_differentiable.all()  # rows that do not count


@pytest.mark.evidence
def test_limits_that_weigh_nothing_do_not_act_against_targets():
    robot, links = bare_robot("panda"), ["panda_hand"]
    options = SolverOptions(precision="float64", joint_limits="soft")
    solver = cpu_solver(robot, links, objectives=[posture(robot)], options=options)
    positions, orientations, start = reachable(robot, links, 6)
    found = solver.linearise(solver.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    derived = found.is_differentiable
    assert derived.sum() > 3
    follows = robot.jacobian(found.joint_q, links)[derived, 0] @ found.by_targets[derived, :, 0]
    np.testing.assert_allclose(follows, np.broadcast_to(np.eye(6), follows.shape), atol=1e-8)


@pytest.mark.evidence
def test_two_costs_of_which_one_comes_first_have_no_derivatives():
    robot = bare_robot("dual_panda")
    first = IKObjectivePosture(robot.mid_joint_q + 0.3, weight=0.01)
    first.priority = 0
    solver = cpu_solver(robot, HANDS, objectives=[first, posture(robot)], options=PRECISE)
    positions, orientations, start = reachable(robot, HANDS, 2)
    found = solver.linearise(solver.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    assert not found.is_differentiable.any()
    assert not found.by_targets.any()


def test_columns_are_in_the_order_of_the_caller():
    robot, links = bare_robot("panda"), ["panda_hand"]
    own = cpu_solver(robot, links)
    turned = cpu_solver(robot, links, joint_order=robot.joint_names[::-1])
    positions, orientations, start = reachable(robot, links, 3)
    expected = own.linearise(own.solve(positions, orientations, initial_joint_q=start), positions, orientations)
    result = turned.solve(positions, orientations, initial_joint_q=start[:, ::-1])
    found = turned.linearise(result, positions, orientations)
    np.testing.assert_allclose(found.joint_q, expected.joint_q[:, ::-1], atol=1e-6)
    np.testing.assert_allclose(found.by_targets, expected.by_targets[:, ::-1], atol=1e-4)
    np.testing.assert_allclose(found.joint_q, result.joint_q, atol=1e-5)


@pytest.mark.evidence
def test_followers_that_an_order_leaves_out_follow():
    robot = load_urdf(FOLLOWED)
    own = cpu_solver(robot, ["tip"], options=FREE)
    short = cpu_solver(robot, ["tip"], options=FREE, joint_order=["first", "third"])
    joint_q = robot.complete_joint_q(robot.random_joint_q(np.random.default_rng(0), 5))
    positions = robot.forward_kinematics(joint_q, ["tip"]).positions
    expected = own.linearise(own.solve(positions, initial_joint_q=joint_q), positions)
    found = short.linearise(short.solve(positions, initial_joint_q=joint_q[:, [0, 2]]), positions)
    assert expected.is_differentiable.any()
    np.testing.assert_array_equal(found.is_differentiable, expected.is_differentiable)
    np.testing.assert_allclose(found.joint_q, expected.joint_q[:, [0, 2]], atol=1e-5)
    np.testing.assert_allclose(found.by_targets, expected.by_targets[:, [0, 2]], atol=1e-3)


@pytest.mark.evidence
@pytest.mark.parametrize("name", ["panda", "joints of all types"])
def test_beside_a_posture_an_answer_has_the_same_bytes_alone_and_among_others(name):
    is_arm = name == "panda"
    robot, links = (bare_robot("panda") if is_arm else chain_robot(), ["panda_hand" if is_arm else "tip"])
    solver = cpu_solver(robot, links, objectives=[posture(robot)])
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(0), 12), links)
    positions, orientations = poses.positions, poses.orientations_xyzw
    together = solver.linearise(solver.solve(positions, orientations), positions, orientations)
    for k in range(12):
        one = positions[k : k + 1], orientations[k : k + 1]
        alone = solver.linearise(solver.solve(*one), *one)
        assert alone.by_targets[0].tobytes() == together.by_targets[k].tobytes()
        assert alone.joint_q[0].tobytes() == together.joint_q[k].tobytes()


@pytest.mark.evidence
def test_loops_that_are_open_do_not_count():
    robot = load_robot("delta")
    solver = cpu_solver(robot, ["platform"])
    joint_q = robot.constraints.close(robot.random_joint_q(np.random.default_rng(0), 2)).joint_q
    positions = robot.forward_kinematics(joint_q, ["platform"]).positions
    open_one = [False, True, True]
    closed = solver.solve(positions)
    loose = solver.solve(positions, constraint_enabled=open_one)
    of_loose = solver.linearise(loose, positions, constraint_enabled=open_one)
    of_closed = solver.linearise(closed, positions)
    assert (of_loose.rank < of_closed.rank).all()
    each = solver.solve(positions, constraint_enabled=[open_one, [True] * 3])
    both = solver.linearise(each, positions, constraint_enabled=[open_one, [True] * 3])
    assert both.rank.tolist() == [of_loose.rank[0], of_closed.rank[1]]


@pytest.mark.evidence
def test_data_of_more_problems_before_do_not_count():
    robot, links = load_robot("ur5e"), ["tool0"]
    near = IKObjectivePosture(robot.mid_joint_q, weight=0.01)
    solver = cpu_solver(robot, links, objectives=[near])
    positions, orientations, start = reachable(robot, links, 4)
    near.set_reference(np.stack([robot.mid_joint_q, robot.mid_joint_q + 0.1]))
    solver.solve(positions[:2], orientations[:2])
    near.set_reference(robot.mid_joint_q)
    result = solver.solve(positions, orientations, initial_joint_q=start)
    assert len(solver.linearise(result, positions, orientations)) == 4


def test_a_target_that_is_left_out_has_no_derivatives():
    robot = bare_robot("dual_panda")
    solver = cpu_solver(robot, HANDS)
    positions, orientations, _ = reachable(robot, HANDS, 2)
    targets = [positions[:, 0], None], [orientations[:, 0], None]
    found = solver.linearise(solver.solve(*targets), *targets)
    assert found.by_targets[:, :, 0].any()
    assert not found.by_targets[:, :, 1].any()


@pytest.mark.evidence
def test_objectives_alone_have_a_minimum_and_no_targets():
    robot = load_robot("ur5e")
    solver = cpu_solver(robot, [], objectives=[IKObjectivePosture(robot.mid_joint_q + 0.1)])
    found = solver.linearise(solver.solve(problem_count=3))
    assert found.is_differentiable.all()
    assert found.by_targets.shape == (3, 6, 0, 6)
    np.testing.assert_allclose(found.joint_q, np.tile(robot.mid_joint_q + 0.1, (3, 1)), atol=1e-6)


@pytest.mark.parametrize(
    ("positions", "orientations"), [([[np.nan, 0.0, 0.0]], [[1.0, 0, 0, 0]]), ([[0.4, 0.1, 0.5]], [[0.0, 0, 0, 0]])]
)
def test_numbers_of_targets_are_checked(positions, orientations):
    solver = cpu_solver(load_robot("ur5e"), ["tool0"])
    result = solver.solve([[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]])
    with pytest.raises(InputError, match=r"positions|orientations_xyzw"):
        solver.linearise(result, np.array(positions), np.array(orientations))


def test_long_batches_are_derived_in_parts(monkeypatch):
    robot, links = load_robot("ur5e"), ["tool0"]
    solver = cpu_solver(robot, links)
    positions, orientations, start = reachable(robot, links, 7)
    result = solver.solve(positions, orientations, initial_joint_q=start)
    expected = solver.linearise(result, positions, orientations)
    monkeypatch.setattr(linearise_module, "ANSWERS_AT_ONCE", 3)
    found = solver.linearise(result, positions, orientations)
    np.testing.assert_allclose(found.by_targets, expected.by_targets, rtol=1e-9, atol=1e-9)


@pytest.mark.evidence
@pytest.mark.parametrize("is_turned", [False, True])
def test_coordinates_follow_as_dofs_do(is_turned):
    """A floating base has four coordinates of rotation, and three DOFs."""
    robot, links = bare_robot("humanoid"), ["left_grasp"]
    order = robot.joint_names[::-1] if is_turned else None
    solver = cpu_solver(robot, links, joint_order=order)
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(0), 2), links)
    values = poses.positions, poses.orientations_xyzw
    found = solver.linearise(solver.solve(*values), *values)
    step = 1e-6 * np.random.default_rng(1).normal(size=(2, robot.joint_dof_count))
    moved = found.joint_q[:, np.argsort(found.order.coordinates)]
    moved = robot.integrate(moved, step[:, np.argsort(found.order.dofs)])[:, found.order.coordinates]
    np.testing.assert_allclose(found.coordinates_by(step), moved - found.joint_q, atol=1e-11)
    assert found.coordinates_by(found.by_targets).shape == (2, robot.joint_coord_count, 1, 6)

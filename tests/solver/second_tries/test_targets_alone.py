"""Postures beside targets never cost an answer: targets are solved for alone where they would."""

import numpy as np
import pytest

from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import IKStatus, SolverOptions, Target, load_robot
from ik_service.robots import LoopConstraint
from ik_service.solver.compiled import island_kernels
from objectives import IKObjectivePosture
from tests.solver.conftest import EACH_ENGINE, cpu_solver, poses_of
from tests.solver.test_collision import HAND, WORLD, free_targets, judged, panda_with_spheres

FOUR_BAR = MECHANISMS[0]
CLOSED = 1e-9  # [m or rad]: a configuration in float32 that float64 has found
HANDS = ("left_panda_hand", "right_panda_hand")


@pytest.fixture(scope="module")
def panda():
    return panda_with_spheres()


def postured(robot, links=(HAND,), weight=1.0, **arguments):
    """Give a solver of targets beside a posture, and the posture."""
    posture = IKObjectivePosture(robot.mid_joint_q, weight=weight)
    return cpu_solver(robot, links, objectives=[posture], **arguments), posture


def blocked_by_posture(solver, targets, **arguments):
    """Give the numbers of the problems in which a solve with nothing beside it ends in contact."""
    first = solver.solve_as_recorded(*targets, **arguments)
    return np.flatnonzero(first.status == IKStatus.BLOCKED_BY_COLLISION)


@pytest.mark.evidence_cases("compiled-0.01")
@pytest.mark.parametrize("weight", [0.01, 1.0])
@EACH_ENGINE
def test_a_posture_costs_no_target(panda, engine, weight):
    targets = free_targets(panda, 1000 if engine == "compiled" else 150, WORLD, 5)
    solver, _ = postured(panda, weight=weight, engine=engine)
    alone = cpu_solver(panda, [HAND], engine=engine).solve(*targets, world=WORLD)
    result = solver.solve(*targets, world=WORLD)
    judged(panda, result, WORLD)
    assert result.success[alone.success].all()
    if engine == "compiled":
        assert len(blocked_by_posture(solver, targets, world=WORLD)) >= 3


@pytest.mark.evidence
def test_a_posture_costs_no_target_of_a_mechanism():
    robot, targets = load_robot("four_bar"), [Target("coupler_point", row_weights=[1, 1, 1, 0, 0, 0])]
    joint_q = FOUR_BAR.configurations(2000, np.random.default_rng(5))
    points = robot.forward_kinematics(joint_q, ["coupler_point"]).positions[:, 0]
    once = SolverOptions(seeds=1)
    solver, _ = postured(robot, targets, options=once)
    lost = ~solver.solve_as_recorded(points).success
    lost = np.flatnonzero(lost & cpu_solver(robot, targets, options=once).solve(points).success)
    assert len(lost) >= 10
    result = solver.solve(points)
    assert result.success[lost].all()
    reached = robot.forward_kinematics(result.joint_q[lost], ["coupler_point"]).positions[:, 0]
    assert np.linalg.norm(reached - points[lost], axis=1).max() <= 1e-3
    assert np.abs(robot.constraints.residual(result.joint_q[lost].astype(float))).max() <= CLOSED
    alone = solver.solve(points[lost[:1]])
    assert alone.joint_q.tobytes() == result.joint_q[lost[:1]].tobytes()


@EACH_ENGINE
def test_targets_out_of_reach_stay_what_they_were(panda, engine):
    solver, _ = postured(panda, engine=engine)
    given = np.array([[2.0, 0.0, 0.5]]), np.array([[0.0, 0.0, 0.0, 1.0]])
    expected, result = solver.solve_as_recorded(*given), solver.solve(*given)
    assert not result.success[0]
    assert result.joint_q.tobytes() == expected.joint_q.tobytes()
    assert result.status_names == expected.status_names


def one_hand_of_two(count):
    """Give two arms, targets of one, and a solver that has a posture of both beside them."""
    arms = load_robot("dual_panda")
    given = poses_of(arms, arms.random_free_joint_q(np.random.default_rng(0), count), HANDS[0])
    others = [k for k, name in enumerate(arms.coordinate_names) if name.startswith("right")]
    return arms, others, given, postured(arms, HANDS[:1])[0]


@pytest.mark.evidence
def test_joints_that_no_target_moves_keep_the_posture():
    arms, others, given, solver = one_hand_of_two(1500)
    first, blocked = solver.solve_as_recorded(*given), blocked_by_posture(solver, given)
    result, alone = solver.solve(*given), cpu_solver(arms, HANDS[:1]).solve(*given)
    judged(arms, result)
    assert (result.success[blocked] & alone.success[blocked]).sum() >= 3
    assert result.success[alone.success].all()
    np.testing.assert_array_equal(result.joint_q[blocked][:, others], first.joint_q[blocked][:, others])


@pytest.mark.evidence
def test_an_error_in_between_leaves_the_solver_as_it_was(panda, monkeypatch):
    targets = free_targets(panda, 600, WORLD, 5)
    references = panda.random_joint_q(np.random.default_rng(1), 600)
    postures = [IKObjectivePosture(references, weight=weight) for weight in (1.0, 0.1)]
    solver = cpu_solver(panda, [HAND], objectives=postures)
    expected, use_lines = solver.solve(*targets, world=WORLD), IKObjectivePosture.use_lines

    def fail(objective, problems):
        use_lines(objective, problems)
        if objective is postures[1] and problems is not None:
            raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(IKObjectivePosture, "use_lines", fail)
        with pytest.raises(MemoryError):
            solver.solve(*targets, world=WORLD)
    assert solver.solve(*targets, world=WORLD).joint_q.tobytes() == expected.joint_q.tobytes()


def test_it_does_not_depend_on_the_batch_whatever_has_a_line_for_each_problem(panda):
    positions, orientations = free_targets(panda, 600, WORLD, 5)
    references = panda.random_joint_q(np.random.default_rng(1), 600)
    weights, solver = np.ones((600, 6)), postured(panda, [Target(HAND, row_weights=np.ones((600, 6)))])
    weights[::2] *= 0.5
    solver, posture = solver
    posture.set_data("joint_q_reference", references)
    solver.set_target_data(0, row_weights=weights)
    blocked = blocked_by_posture(solver, (positions, orientations), world=WORLD)
    result = solver.solve(positions, orientations, world=WORLD)
    judged(panda, result, WORLD)
    assert len(blocked) >= 2
    assert result.success[blocked].all()
    solver.set_target_data(0, row_weights=np.ones(6))
    again = solver.solve(positions, orientations, world=WORLD, row_weights=weights)
    assert again.joint_q.tobytes() == result.joint_q.tobytes()
    for k in blocked[:3]:
        posture.set_data("joint_q_reference", references[k])
        solver.set_target_data(0, row_weights=weights[k])
        alone = solver.solve(positions[k : k + 1], orientations[k : k + 1], world=WORLD)
        assert alone.joint_q.tobytes() == result.joint_q[k : k + 1].tobytes()
        assert alone.position_error.tobytes() == result.position_error[k : k + 1].tobytes()


@pytest.mark.evidence
def test_arms_that_touch_each_other_have_data_of_their_own_problems():
    arms = load_robot("dual_panda")
    joint_q = arms.random_free_joint_q(np.random.default_rng(0), 200)
    poses = arms.forward_kinematics(joint_q, HANDS)
    references = arms.random_joint_q(np.random.default_rng(1), 200)
    solver, posture = postured(arms, HANDS)
    posture.set_data("joint_q_reference", references)
    given = poses.positions, poses.orientations_xyzw
    blocked = blocked_by_posture(solver, given)
    result = solver.solve(*given)
    assert len(blocked) > 5
    assert result.success.all()
    assert arms.collision(result.joint_q.astype(float)).is_free.all()
    for k in blocked[:3]:
        posture.set_data("joint_q_reference", references[k])
        alone = solver.solve(*(values[k : k + 1] for values in given))
        assert alone.joint_q.tobytes() == result.joint_q[k : k + 1].tobytes()


def test_after_warmup_it_waits_for_no_code(panda, monkeypatch):
    targets, (solver, _) = free_targets(panda, 300, WORLD, 5), postured(panda)
    solver.warmup(*(values[:2] for values in targets), world=WORLD)
    blocked = blocked_by_posture(solver, targets, world=WORLD)
    monkeypatch.setattr(island_kernels.IslandKernels, "_sources", lambda *_, **__: pytest.fail("compiled"))
    assert solver.solve(*targets, world=WORLD).success[blocked].all()


@pytest.mark.evidence
def test_rows_that_do_not_yield_are_never_left_out(panda):
    targets = free_targets(panda, 300, WORLD, 5)
    solver, _ = postured(panda, weight=1e-3)
    first = IKObjectivePosture(panda.mid_joint_q, weight=1e-3)
    first.priority = 0
    weighed = cpu_solver(panda, [HAND], objectives=[first])
    blocked = weighed.solve(*targets, world=WORLD).status == IKStatus.BLOCKED_BY_COLLISION
    assert blocked.any()
    assert solver.solve(*targets, world=WORLD).success[blocked].any()


def test_islands_of_a_robot_whose_loop_is_open_are_combined():
    robot = load_robot("dual_panda")
    held = LoopConstraint("object", "weld", *HANDS, reference_offset=(0, 0, 0.3, 1, 0, 0, 0))
    poses = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), 200), HANDS)
    given = poses.positions, poses.orientations_xyzw
    unchecked = cpu_solver(robot, HANDS).solve(*given, options={"collision": "off"})
    touching = np.flatnonzero(~robot.collision(unchecked.joint_q.astype(float)).is_free)[:6]
    assert len(touching) == 6
    given = [values[touching] for values in given]
    result = cpu_solver(robot.with_loops([held]), HANDS).solve(*given, constraint_enabled=[False])
    assert (result.islands.nisland == 2).all()
    assert result.success.any()
    assert robot.collision(result.joint_q.astype(float)).is_free[result.success].all()

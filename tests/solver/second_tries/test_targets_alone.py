"""Postures beside targets never cost an answer: targets are solved for alone where they would."""

import numpy as np
import pytest
import warp as wp

from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import IKStatus, SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import transform_multiply
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
    """Of some targets of a four-bar the one attempt that a posture draws ends at another minimum."""
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
    """Nothing is taken of a solve that does not meet the targets either."""
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
    """The other arm has the posture alone, and keeps it."""
    arms, others, given, solver = one_hand_of_two(1500)
    first, blocked = solver.solve_as_recorded(*given), blocked_by_posture(solver, given)
    result, alone = solver.solve(*given), cpu_solver(arms, HANDS[:1]).solve(*given)
    judged(arms, result)
    assert (result.success[blocked] & alone.success[blocked]).sum() >= 3
    assert result.success[alone.success].all()
    np.testing.assert_array_equal(result.joint_q[blocked][:, others], first.joint_q[blocked][:, others])


@pytest.mark.evidence
def test_the_nearest_of_such_answers_leaves_other_joints_at_the_posture():
    """A start says where joints begin that targets move, not where those end that have the posture alone."""
    arms, others, given, solver = one_hand_of_two(600)
    start = np.array(arms.mid_joint_q)
    start[others] += 0.4
    result = solver.solve(*given, initial_joint_q=start, options={"best_of": "nearest", "seeds": 16})
    judged(arms, result)
    assert result.success.sum() > 300
    assert np.abs(result.joint_q[result.success] - arms.mid_joint_q)[:, others].max() < 1e-3


def test_a_reference_of_one_line_may_be_a_warp_array(panda):
    targets = free_targets(panda, 1000, WORLD, 5)
    expected = postured(panda)[0].solve(*targets, world=WORLD)
    posture = IKObjectivePosture(wp.array(panda.mid_joint_q, dtype=wp.float32, device="cpu"), weight=1.0)
    result = cpu_solver(panda, [HAND], objectives=[posture]).solve(*targets, world=WORLD)
    assert result.joint_q.tobytes() == expected.joint_q.tobytes()


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
def test_it_has_the_data_that_targets_have_now(panda):
    targets = free_targets(panda, 300, WORLD, 5)
    solver, _ = postured(panda, [Target(HAND, offset=[0, 0, 0, 0, 0, 0, 1])])
    assert solver.solve(*targets, world=WORLD).success.mean() > 0.99
    solver.set_target_data(0, offset=[0, 0, 0.1, 0, 0, 0, 1])
    result = solver.solve(*targets, world=WORLD)
    assert len(blocked_by_posture(solver, targets, world=WORLD)) > 0
    T_world_hand = np.concatenate([one[:, 0] for one in panda.forward_kinematics(result.joint_q, [HAND])], axis=1)
    tool = transform_multiply(T_world_hand, np.array([0, 0, 0.1, 0, 0, 0, 1.0]))[:, :3]
    np.testing.assert_allclose(tool[result.success], targets[0][result.success], atol=1e-3)
    alone = cpu_solver(panda, [Target(HAND, offset=[0, 0, 0.1, 0, 0, 0, 1])])
    assert result.success[alone.solve(*targets, world=WORLD).success].all()


@pytest.mark.evidence
def test_arms_that_touch_each_other_have_data_of_their_own_problems():
    """Combinations of solutions too are those of the problem alone, where a posture has a line for each."""
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
    """A posture of priority 0 is weighed against the target, so that a target alone would be another problem."""
    targets = free_targets(panda, 300, WORLD, 5)
    solver, _ = postured(panda, weight=1e-3)
    first = IKObjectivePosture(panda.mid_joint_q, weight=1e-3)
    first.priority = 0
    weighed = cpu_solver(panda, [HAND], objectives=[first])
    blocked = weighed.solve(*targets, world=WORLD).status == IKStatus.BLOCKED_BY_COLLISION
    assert blocked.any()
    assert solver.solve(*targets, world=WORLD).success[blocked].any()

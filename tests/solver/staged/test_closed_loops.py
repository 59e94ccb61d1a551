"""Loops in the staged engine: closed as by the compiled one, beside objectives of any kind, problem by problem."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.robots import LoopConstraint
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import assert_same_bytes, bare_robot, cpu_solver
from tests.solver.quick_objective import QuickObjective
from tests.solver.test_loops import CLOSED, HELD, LEFT, RIGHT, four_bar, gaps, pose_of

COUNT, DIFFER_MOST = 200, 0.002
ENGINES = ("compiled", "staged")


@pytest.fixture(scope="module")
def holding():
    """Two arms that hold one object, and targets of both hands at random configurations in which they do."""
    arms = bare_robot("dual_panda")
    robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    starts = arms.random_joint_q(np.random.default_rng(3), COUNT)
    hand = cpu_solver(arms, [Target(RIGHT, reference_link=LEFT)])
    n = (COUNT, 1, 1)
    held = hand.solve(np.tile(HELD[:3], n), np.tile(HELD[3:], n), initial_joint_q=starts)
    assert held.success.all()
    poses = arms.forward_kinematics(held.joint_q, [LEFT, RIGHT])
    return robot, poses.positions, poses.orientations_xyzw, held.joint_q


def solvers(robot, *arguments, **options):
    return [cpu_solver(robot, *arguments, engine=engine, **options) for engine in ENGINES]


@pytest.mark.evidence
@pytest.mark.parametrize("links", [[LEFT, RIGHT], [LEFT]])
def test_both_engines_close_a_loop_and_succeed_alike(holding, links):
    robot, positions, turns, _ = holding
    given = positions[:, : len(links)], turns[:, : len(links)]
    compiled, staged = (one.solve(*given, options={"seeds": 256}) for one in solvers(robot, links))
    assert staged.engine == "staged"
    for result in (compiled, staged):
        assert gaps(robot, result.joint_q).max() <= CLOSED
        poses = robot.forward_kinematics(result.joint_q, links)
        distance = np.linalg.norm(poses.positions - given[0], axis=2)
        assert (distance[result.success] <= 1e-3).all()
        assert result.success.mean() >= 0.99
    assert (compiled.success != staged.success).mean() <= DIFFER_MOST
    assert gaps(robot, staged.joint_q).max() <= 1e-10  # they are closed by themselves, at last


@pytest.mark.evidence
def test_what_pulls_a_loop_apart_is_met_as_well_as_by_the_compiled_engine(holding):
    robot, positions, turns, _ = holding
    apart, n = positions[:30].copy(), 30
    apart[:, 1, 0] += 0.2
    left = []
    for solver in solvers(robot, [LEFT, RIGHT]):
        result = solver.solve(apart, turns[:n], options={"seeds": 32})
        assert not result.success.any()
        assert gaps(robot, result.joint_q).max() <= CLOSED
        left.append((result.position_error**2 + result.orientation_error**2).sum(axis=1))
    assert np.median(left[1] / left[0]) <= 1.02  # the same distance, summed squares within 2 %


def test_a_posture_yields_to_loop_and_target(holding):
    robot, positions, turns, _ = holding
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.3)
    solver = cpu_solver(robot, [LEFT], objectives=[posture], engine="staged")
    result = solver.solve(positions[:40, :1], turns[:40, :1])
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert result.success.mean() >= 0.9
    without = cpu_solver(robot, [LEFT], engine="staged").solve(positions[:40, :1], turns[:40, :1])
    both = result.success & without.success
    near, far = (np.linalg.norm(one.joint_q[both] - robot.mid_joint_q, axis=1).mean() for one in (result, without))
    assert near < far


def test_loops_are_closed_beside_objectives_of_any_kind(holding):
    robot, _, _, joint_q = holding
    body, n = robot.link_frame(LEFT)[0], 20
    points = robot.body_poses(joint_q[:n])[:, body, :3]
    there = QuickObjective(body, points)
    solver = cpu_solver(robot, objectives=[there])
    assert solver.engine == "staged"
    result = solver.solve(problem_count=n)
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert np.linalg.norm(robot.body_poses(result.joint_q)[:, body, :3] - points, axis=1).max() <= 1e-4


def test_a_batch_of_both_kinds_has_the_bytes_of_its_problems_alone(holding):
    robot, positions, turns, _ = holding
    enabled, wanted = np.array([[True], [False], [True]]), positions[:3].copy()
    wanted[1, 1, 0] += 0.05
    solver = cpu_solver(robot, [LEFT, RIGHT], engine="staged")
    mixed = solver.solve(wanted, turns[:3], constraint_enabled=enabled)
    assert mixed.islands.nisland.tolist() == [1, 2, 1]
    assert mixed.success.all()
    assert mixed.constraint_error[1, 0] > 0.03 > CLOSED >= mixed.constraint_error[::2].max()
    for p in range(3):
        alone = solver.solve(wanted[p : p + 1], turns[p : p + 1], constraint_enabled=enabled[p])
        for name in ("joint_q", "success", "status", "cost", "iterations", "seed_index", "constraint_error"):
            assert getattr(alone, name)[0].tobytes() == getattr(mixed, name)[p].tobytes(), name
    again = solver.solve(wanted[::2], turns[:3:2])
    fresh = cpu_solver(robot, [LEFT, RIGHT], engine="staged").solve(wanted[::2], turns[:3:2])
    assert_same_bytes(again, fresh)


@pytest.mark.evidence
def test_a_four_bar_goes_on_from_a_start_at_which_no_step_helps():
    robot = four_bar()
    posture = IKObjectivePosture(robot.mid_joint_q)  # all links along one line
    result = cpu_solver(robot, objectives=[posture], engine="staged").solve(problem_count=2)
    assert result.success.all()
    assert gaps(robot, result.joint_q).max() <= CLOSED


@pytest.mark.evidence
def test_a_loop_that_cannot_close_is_said_to_be_open():
    robot = four_bar(rocker=1.5)
    posture = IKObjectivePosture(robot.mid_joint_q)
    result = cpu_solver(robot, objectives=[posture], engine="staged").solve(problem_count=2)
    assert result.status_names == ["loop_open"] * 2
    assert not result.success.any()


@pytest.mark.parametrize("is_open", [False, True])
def test_a_loop_that_no_joint_moves_is_judged(holding, is_open):
    robot = bare_robot("dual_panda")
    robot = robot.lock({name: 0.0 if name != "left_panda_joint4" else -1.0 for name in robot.joint_names[:7]})
    at = pose_of(robot, robot.mid_joint_q[None], LEFT)[0]
    at[2] += 0.01 * is_open
    stand = LoopConstraint("stand", "weld", LEFT, None, reference_offset=tuple(at))
    goal = pose_of(robot, robot.random_joint_q(np.random.default_rng(1), 5), RIGHT)
    solver = cpu_solver(robot.with_loops([stand]), [RIGHT], engine="staged")
    result = solver.solve(goal[:, None, :3], goal[:, None, 3:])
    assert set(result.status_names) == {"loop_open" if is_open else "converged"}


def test_what_needs_the_compiled_engine_is_refused(holding):
    robot, positions, _, _ = holding
    solver = cpu_solver(robot, [LEFT], engine="staged")
    with pytest.raises(InputError, match="need the compiled engine"):
        solver.solve(positions[:1, :1], options={"best_of": "cost"})

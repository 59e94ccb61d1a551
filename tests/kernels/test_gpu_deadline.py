"""The deadline of a solve by the kernels for GPUs, on a CPU: waves end, and what is not solved by then says so."""

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.solver.compiled import waves
from tests.kernels.test_deadline import DEADLINE, OPTIONS, given
from tests.solver.conftest import assert_same_bytes, use_threads

__all__ = ["given"]  # the fixture
FEW = 40  # problems
MANY = {"seeds": 4096}
BEFORE_THAT = {"deadline_s": 1e6, **MANY}  # seeds that are asked for are then the most that are tried


@pytest.fixture
def solver(panda, monkeypatch):
    use_threads(monkeypatch)
    return IKSolver(panda, ["panda_hand"], device="cpu", engine="compiled")


def stop_at(turn, solver, monkeypatch):
    """Has the deadline come in a turn of the loop of waves, from 0; returns how many turns each island has taken."""
    turns = []

    def capture_while(condition, body):
        turns.append(0)
        while condition.numpy()[0] > 0:
            if turns[-1] == turn:
                solver._core.work.problems.stop()
            body()
            turns[-1] += 1

    monkeypatch.setattr(waves.wp, "capture_while", capture_while)
    return turns


@pytest.mark.evidence_cases("options1", "options3")
@pytest.mark.parametrize("options", OPTIONS)
def test_the_first_wave_is_made_in_any_case_and_a_deadline_that_does_not_come_changes_nothing(solver, given, options):
    few = [one[:FEW] for one in given]
    expected = solver.solve(*few, options=options)
    found = solver.solve(*few, options={"deadline_s": 1e6, **options})
    assert_same_bytes(found, expected)
    assert DEADLINE not in found.status
    found = solver.solve(*few, options={"deadline_s": 1e-9, **options})
    late, reachable = found.status == DEADLINE, np.arange(FEW) % 4 > 0
    assert not found.success[late].any()
    assert found.success[reachable].mean() > 0.5
    assert late[expected.success & ~found.success].all()
    assert_same_bytes(solver.solve(*few, options=options), expected)


@pytest.mark.evidence
def test_no_island_of_several_is_late_where_all_are_solved(monkeypatch):
    use_threads(monkeypatch)
    robot, hands = load_robot("dual_panda", collision="ignore"), ["left_panda_hand", "right_panda_hand"]
    solver = IKSolver(robot, hands, device="cpu", engine="compiled")
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(1), 50), hands)
    positions = poses.positions.copy()
    positions[::5, 1] *= 3.0  # the right hand's target is out of reach
    targets = [positions[:, k] for k in (0, 1)], [poses.orientations_xyzw[:, k] for k in (0, 1)]
    expected = solver.solve(*targets, options=MANY)
    stop_at(0, solver, monkeypatch)
    found = solver.solve(*targets, options=BEFORE_THAT)
    late = found.islands.status == DEADLINE
    assert late[::5, 1].all()
    assert (found.islands.success == expected.islands.success)[~late].all()
    assert (found.status == DEADLINE)[::5].all()
    assert not found.success[late.any(axis=1)].any()


def test_seeds_that_have_all_run_are_not_late(solver, given):
    expected = solver.solve(*given, options={"seeds": 1})
    assert not expected.success.all()
    assert_same_bytes(solver.solve(*given, options={"seeds": 1, "deadline_s": 1e-9}), expected)


def test_after_a_deadline_that_is_over_there_is_one_wave(solver, given, monkeypatch):
    turns = stop_at(-1, solver, monkeypatch)
    found = solver.solve(*given, options={"deadline_s": 1e-9, **MANY})
    assert turns == [0]
    assert (found.status == DEADLINE).any()


@pytest.mark.parametrize("seeds", [2, 5, 64, 4096])
def test_a_deadline_after_the_last_wave_ends_nothing(solver, given, seeds, monkeypatch):
    monkeypatch.setattr(waves, "WAVE_ATTEMPTS_MAX", 1)  # an attempt for each problem
    options = {"seeds": seeds, "deadline_s": 1e6}
    expected = solver.solve(*given, options=options)

    def capture_while(condition, body):
        while condition.numpy()[0] > 0:
            body()
        solver._core.work.problems.stop()

    monkeypatch.setattr(waves.wp, "capture_while", capture_while)
    assert_same_bytes(solver.solve(*given, options=options), expected)


@pytest.mark.parametrize("options", [{"best_of": "cost"}, {"solutions": 4}, {"best_of": "nearest", "solutions": 2}])
def test_nothing_of_other_problems_is_taken_for_attempts(panda, solver, given, options, monkeypatch):
    monkeypatch.setattr(waves, "WAVE_ATTEMPTS_MAX", 1)
    options = {"seeds": 64, **options}
    solver.solve(*[array[::-1].copy() for array in given], options=options)
    found = solver.solve(*given, options={**options, "deadline_s": 1e-9})
    assert (found.status == DEADLINE).any()
    reached = panda.forward_kinematics(found.joint_q, ["panda_hand"]).positions[:, 0]
    assert np.abs(reached - given[0])[found.success].max() < 1e-3

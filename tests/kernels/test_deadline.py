"""The deadline of a solve: what is done by then is as without it, the rest says so and is no success."""

from types import SimpleNamespace

import numpy as np
import pytest

import ik_service
from ik_service import IKSolver
from ik_service.solver import deadline
from ik_service.solver.lm.ranking import PRECISE_ORIENTATION, PRECISE_POSITION
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import Reachable, assert_same_bytes

COUNT = 400
DEADLINE = int(ik_service.IKStatus.DEADLINE)
UNRECORDED = ik_service.SolverOptions(use_graph=False)
OPTIONS = ({}, {"precision": "float64"}, {"best_of": "cost", "seeds": 8}, {"solutions": 3})


@pytest.fixture(scope="module")
def given(panda):
    """Positions, of which each fourth is out of reach, and orientations."""
    drawn = Reachable.draw(panda, ["panda_hand"], COUNT)
    positions = drawn.positions[:, 0].copy()
    positions[::4] *= 3.0  # their searches are long
    return positions, drawn.orientations_xyzw[:, 0]


@pytest.fixture(scope="module")
def solver(panda):
    return IKSolver(panda, ["panda_hand"], device="cpu")


@pytest.mark.parametrize("options", OPTIONS)
def test_a_deadline_that_does_not_come_changes_nothing(solver, given, options):
    expected = solver.solve(*given, options=options)
    assert_same_bytes(solver.solve(*given, options={"deadline_s": 1e6, **options}), expected)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("deadline_s", [1e-9, 3e-4, 1e-3, 3e-3, 1e-2])
def test_what_is_not_done_by_then_says_so(solver, given, options, deadline_s):
    expected = solver.solve(*given, options=options)
    found = solver.solve(*given, options={"deadline_s": deadline_s, **options})
    late = found.status == DEADLINE
    assert not found.success[late].any()
    errors = np.nan_to_num(found.position_error[:, 0]), np.nan_to_num(found.orientation_error[:, 0])
    # A success that is not precise is kept then; with more time a later seed that is precise takes its place.
    is_precise = (errors[0] <= 0.9 * PRECISE_POSITION) & (errors[1] <= 0.9 * PRECISE_ORIENTATION)
    done = ~late & (expected.success == found.success) & (is_precise | ~found.success)
    if options.get("precision") == "float64":  # its finish hides whether the attempt was precise
        done &= found.seed_index == expected.seed_index
    if not {"solutions", "best_of"} & options.keys():  # these may have chosen among fewer
        assert found.joint_q[done].tobytes() == expected.joint_q[done].tobytes()
    met = (errors[0] <= solver.options.position_tolerance) & (errors[1] <= solver.options.orientation_tolerance)
    assert not (found.success & ~met).any()
    if deadline_s == 1e-9:
        assert late.all()
    if deadline_s == 1e-9 and options.get("precision") != "float64":  # which goes on from there
        assert (found.joint_q == found.joint_q[0]).all()  # where they start
        assert (found.iterations == 0).all()
    assert_same_bytes(solver.solve(*given, options=options), expected)


def test_objectives_alone_are_at_no_minimum_that_nobody_looked_for(panda):
    solver = IKSolver(panda, objectives=[IKObjectivePosture(panda.mid_joint_q + 0.1)], device="cpu")
    assert solver.solve(problem_count=3).success.all()
    found = solver.solve(problem_count=3, options={"deadline_s": 1e-9})
    assert (found.status == DEADLINE).all()
    assert not found.success.any()
    assert found.joint_q.tobytes() == np.tile(panda.mid_joint_q.astype(np.float32), (3, 1)).tobytes()


@pytest.mark.parametrize("options", [None, UNRECORDED])
def test_the_staged_engine_has_one_too(panda, given, options):
    solver = IKSolver(panda, ["panda_hand"], device="cpu", engine="staged", options=options)
    few = [array[:40] for array in given]
    expected = solver.solve(*few)
    assert_same_bytes(solver.solve(*few, options={"deadline_s": 1e6}), expected)
    found = solver.solve(*few, options={"deadline_s": 1e-9})
    assert (found.status == DEADLINE).all()
    assert not found.success.any()
    assert (found.joint_q == found.joint_q[0]).all()  # where they start
    some = solver.solve(*few, options={"deadline_s": 0.02})
    assert not some.success[some.status == DEADLINE].any()
    assert some.joint_q[some.success].tobytes() == expected.joint_q[some.success].tobytes()
    assert_same_bytes(solver.solve(*few), expected)


def test_problems_whose_seeds_have_all_run_are_not_late(panda, given, monkeypatch):
    solver = IKSolver(panda, ["panda_hand"], device="cpu", engine="staged", options=ik_service.SolverOptions(seeds=1))
    few = [array[:8] for array in given]
    expected = solver.solve(*few)
    assert not expected.success.all()
    works = solver._core.engine.batch._work

    def work(use_graph):
        works(use_graph)
        solver._core.work.problems.stop()  # the deadline comes when the last attempts have run

    monkeypatch.setattr(solver._core.engine.batch, "_work", work)
    assert_same_bytes(solver.solve(*few, options={"deadline_s": 1e6}), expected)


@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_loading_and_recording_do_not_count(panda, given, engine, monkeypatch):
    solver = IKSolver(panda, ["panda_hand"], device="cpu", engine=engine)
    prepare, now = solver._core.engine.prepare, [0.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def slow(*arguments):
        now[0] += 1000.0
        return prepare(*arguments)

    monkeypatch.setattr(solver._core.engine, "prepare", slow)
    in_reach = [array[1:2] for array in given]
    assert solver.solve(*in_reach, options={"deadline_s": 10.0}).success.all()


def test_a_solver_is_warmed_up_by_solves(panda, given):
    solver, place = IKSolver(panda, ["panda_hand"], device="cpu"), [array[:1] for array in given]
    expected = IKSolver(panda, ["panda_hand"], device="cpu").solve(*place, options={"seeds": 3})
    solver.warmup(*place, options={"seeds": 3})
    plans = {key: dict(plan.recording._graphs) for key, plan in solver._core.engine.plans.items()}
    assert [list(graphs) for graphs in plans.values()] == [[1]]
    assert_same_bytes(solver.solve(*place, options={"seeds": 3}), expected)
    assert {key: dict(plan.recording._graphs) for key, plan in solver._core.engine.plans.items()} == plans


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, True, "1"])
def test_it_is_a_number(wrong):
    with pytest.raises(InputError, match="Option deadline_s"):
        ik_service.SolverOptions(deadline_s=wrong)

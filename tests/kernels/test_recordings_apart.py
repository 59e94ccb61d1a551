"""Recordings of graphs and launches of other threads on a CPU: never at once, and neither waits for ever."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service import IKSolver
from ik_service.kernels import device_lock
from ik_service.kernels.device_lock import SideBySide, device_work, recording
from tests.bounded import PATIENCE_S, until
from tests.solver.conftest import Reachable

CPU = wp.get_device("cpu")
USES = 3  # after which a solve is recorded


@pytest.fixture(scope="module")
def given():
    robot = ik_service.load_robot("panda", collision="ignore")
    return Reachable.draw(robot, ["panda_hand"], 4)


def solve(solver, given):
    return solver.solve(given.positions[:, 0], given.orientations_xyzw[:, 0]).joint_q.tobytes()


def test_nothing_is_recorded_while_another_thread_launches_and_no_launch_begins_while_it_is():
    events, begun, over = [], threading.Event(), threading.Event()

    def launch():
        begun.set()
        with device_work(CPU):
            events.append("launched")
            over.wait(PATIENCE_S)

    with recording() as may_record:
        assert may_record
        other = threading.Thread(target=launch)
        other.start()
        begun.wait(PATIENCE_S)
        other.join(0.05)  # as long as it is given, it does not begin
        events.append("recorded")
    until(lambda: len(events) == 2)
    with recording() as may_record:
        assert not may_record
    over.set()
    other.join(PATIENCE_S)
    assert events == ["recorded", "launched"]
    with recording() as may_record:
        assert may_record


@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_a_solve_that_cannot_be_recorded_has_the_same_bytes(given, monkeypatch, engine):
    solver = IKSolver(given.robot, ["panda_hand"], device="cpu", engine=engine)
    captures, capture = [], wp.ScopedCapture
    monkeypatch.setattr(wp, "ScopedCapture", lambda **own: captures.append(1) or capture(**own))
    monkeypatch.setattr(device_lock, "WAIT_S", 0.0)
    expected = solve(IKSolver(given.robot, ["panda_hand"], device="cpu", engine=engine), given)
    captures.clear()
    with device_work(CPU):  # as a thread that always launches
        assert [solve(solver, given) for _ in range(USES + 2)] == [expected] * (USES + 2)
        assert not captures
    assert [solve(solver, given) for _ in range(USES + 2)] == [expected] * (USES + 2)
    assert captures


def test_solvers_that_record_do_not_disturb_those_of_other_threads(given, monkeypatch):
    recorded, launched = [], []
    inside = SideBySide.recording

    @contextmanager
    def watched(gate):
        with inside(gate) as may_record:
            if may_record:
                recorded.append(bool(gate._under_way))
            yield may_record
            if may_record:
                recorded.append(bool(gate._under_way))

    monkeypatch.setattr(SideBySide, "recording", watched)
    expected = solve(IKSolver(given.robot, ["panda_hand"], device="cpu"), given)

    def work():
        for _ in range(5):
            solver = IKSolver(given.robot, ["panda_hand"], device="cpu")
            launched.extend(solve(solver, given) == expected for _ in range(2 * USES))

    with ThreadPoolExecutor(4) as executor:
        for done in [executor.submit(work) for _ in range(4)]:
            done.result()
    assert np.all(launched)
    assert len(launched) == 4 * 5 * 2 * USES
    assert recorded
    assert not any(recorded)

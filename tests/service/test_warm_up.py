"""What is compiled ahead of callers: which kinds of requests, in which order, and who never waits for that."""

import os
import signal
import threading
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ik_service.mechanism.names import leaf_links
from ik_service.robots import load_robot
from ik_service.service import app as app_module
from ik_service.service import create_app, warm_up
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.pool import builder_process, kernel_builder
from ik_service.service.pool.builder_process import BuildFailedError
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.schema.examples import SOLVE_REQUESTS
from ik_service.settings import ServiceSettings
from ik_service.solver.given.targets import DATA
from tests.bounded import until

NAMES = ("delta", "dual_panda", "panda")
POSE = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
OBSTACLE = {"objects": {"table": {"shape": "box", "size": [1, 1, 0.1], "position": [0.5, 0, -0.1]}}}
ASKED = {name: SOLVE_REQUESTS[name] for name in ("one_pose", "tool_and_free_axis", "position_only_with_start")} | {
    "free axis of the page": {"targets": [{**POSE, "free": ["rz"]}]},
    "tool": {"targets": [{**POSE, "offset": {"position": [0, 0, 0.2]}}]},
    "other solutions": {"targets": [POSE], "options": {"solutions": 5}, "include": ["solutions"]},
    "best of": {"targets": [POSE], "options": {"best_of": "cost"}},
    "obstacle": {"targets": [POSE], "world": OBSTACLE},
    "contact allowed": {"targets": [POSE], "options": {"collision": "off"}},
}
LOW = {"targets": [{"link": "platform", "positions": [[0, 0, -0.3]]}]}
OF_OTHERS = {"dual_panda": SOLVE_REQUESTS["two_arms"], "delta": LOW}


def service(**settings):
    """What `compile_ahead` sees of a service that is ready; it has no pool, so nothing can be queued."""
    catalog = SimpleNamespace(entries={name: SimpleNamespace(model=load_robot(name)) for name in NAMES})
    given = ServiceSettings(device="cpu", insecure=True, **settings)
    return SimpleNamespace(is_ready=True, admission=SimpleNamespace(draining=False), settings=given, catalog=catalog)


def codes(state):
    found = warm_up.kinds_ahead(state)
    return {(name, kind(warm_up.first_request(robot, links)).code_key) for name, robot, links, kind in found}


@pytest.fixture
def process(monkeypatch, tmp_path):
    """A process that compiles nothing; it says what it was asked for, and how many compile at the same time."""

    class Process:
        made, begun, most = [], [], 0
        at_begin, outcome = staticmethod(lambda begun: None), staticmethod(lambda robot: True)

        def __init__(self, device, *, yields=False):
            self.yields, self.killed, self.robot = yields, False, None
            self.made.append(self)

        def begin(self, robot, sample, mark):
            self.robot = robot
            self.begun.append((robot.name, tuple(target.link for target in sample.targets)))
            Process.most = max(self.most, sum(one.robot is not None for one in self.made if not one.killed))
            self.at_begin(self.begun)

        def is_finished(self, patience_s):
            finished = self.outcome(self.robot)
            if finished:
                self.robot = None
            return finished

        def kill(self):
            self.killed = True

    monkeypatch.setattr(kernel_builder, "BuilderProcess", Process)
    monkeypatch.setattr(kernel_builder, "mark_of", lambda *_: tmp_path / "none")
    return Process


@pytest.fixture
def panda_kinds():
    found = warm_up.kinds_ahead(service(warm_up_robots="panda"))
    return [kind(warm_up.first_request(robot, links)) for _, robot, links, kind in found]


def lines(caplog, level):
    return [record.getMessage() for record in caplog.records if record.levelname == level]


@pytest.mark.parametrize(("robot", "body"), [*(("panda", body) for body in ASKED.values()), *OF_OTHERS.items()])
def test_what_readme_examples_and_page_ask_is_among_the_kinds(robot, body):
    assert (robot, read_solve(body, load_robot(robot)).request.code_key) in codes(service())


def test_kinds_hold_arrays_as_requests_of_callers_do(panda_kinds):
    data = [getattr(target, name) for kind in panda_kinds for target in kind.targets for name in DATA]
    given = [one for one in data if one is not None]
    assert [type(one) for one in given] == [np.ndarray] * 4


@pytest.mark.evidence
def test_each_kind_solves(panda_kinds):
    cache = SolverCache("cpu")
    assert [cache.solve(load_robot("panda"), kind).success.all() for kind in panda_kinds] == [True] * 8


def test_the_first_robot_comes_first_then_poses_of_each_last_leaf_link_and_other_links_last():
    found = [(name, links) for name, _, links, _ in warm_up.kinds_ahead(service())]
    last = {name: (leaf_links(load_robot(name))[-1],) for name in NAMES}
    first = [(name, last[name]) for name in (*["panda"] * len(warm_up.KINDS), "delta", "dual_panda")]
    assert found[: len(first)] == first
    assert Counter(found) >= Counter({("panda", last["panda"]): 8, ("delta", last["delta"]): 6})
    others = [k for k, (name, links) in enumerate(found) if links != last[name]]
    assert others == list(range(len(found) - len(others), len(found)))
    assert {name for name, _ in found[others[0] :]} == {"delta", "dual_panda"}


def test_one_at_a_time_is_compiled_at_the_lowest_priority_and_the_log_says_how_many(process, caplog):
    caplog.set_level("INFO", "ik_service")
    state = service()
    warm_up.compile_ahead(state)
    assert process.begun == [(robot.name, links) for _, robot, links, _ in warm_up.kinds_ahead(state)]
    assert process.most == 1
    assert all(one.yields and one.killed for one in process.made)
    began, done = lines(caplog, "INFO")
    count = len(process.begun)
    assert f"for up to {count} kinds" in began
    assert f"for {count} of {count} kinds of requests is there after 0 s." in done


def test_named_robots_alone_are_compiled_for_and_kinds_with_marks_start_no_process(process, tmp_path):
    assert {name for name, *_ in warm_up.kinds_ahead(service(warm_up_robots="delta"))} == {"delta"}
    (tmp_path / "none").touch()
    warm_up.compile_ahead(service())
    assert process.made == []


def test_a_robot_that_is_deleted_meanwhile_or_of_which_no_request_can_be_made_is_left_out(process, caplog, monkeypatch):
    caplog.set_level("DEBUG", "ik_service")
    state, make = service(), warm_up.first_request

    def delete(begun):
        if len(begun) == 2:
            del state.catalog.entries["dual_panda"]

    def odd(robot, links):
        if robot.name == "panda":
            raise ValueError("odd")
        return make(robot, links)

    process.at_begin = staticmethod(delete)
    monkeypatch.setattr(warm_up, "first_request", odd)
    warm_up.compile_ahead(state)
    assert [name for name, _ in process.begun[:2]] == ["delta", "dual_panda"]
    assert {name for name, _ in process.begun[2:]} == {"delta"}
    assert len(lines(caplog, "DEBUG")) == 8


@pytest.mark.parametrize("error", [BuildFailedError("refused"), EOFError()])
def test_what_cannot_be_compiled_is_said_at_level_debug_and_the_next_goes_on(process, caplog, error):
    caplog.set_level("DEBUG", "ik_service")

    def fail(robot):
        if robot.name == "delta":
            raise error
        return True

    process.outcome = staticmethod(fail)
    state = service()
    warm_up.compile_ahead(state)
    assert {name for name, _ in process.begun} == {*NAMES}
    assert lines(caplog, "DEBUG")
    assert not lines(caplog, "WARNING") + lines(caplog, "ERROR")
    assert not any(record.exc_info for record in caplog.records)
    fine = sum(name != "delta" for name, *_ in warm_up.kinds_ahead(state))
    assert f"for {fine} of " in lines(caplog, "INFO")[-1]


def compiling(state):
    thread = threading.Thread(target=warm_up.compile_ahead, args=(state,))
    thread.start()
    return thread


def test_the_end_of_the_service_ends_it_at_once(process, caplog):
    caplog.set_level("INFO", "ik_service")
    process.outcome = staticmethod(lambda robot: False)  # it compiles for ever
    state = service()
    thread = compiling(state)
    until(lambda: process.begun)
    state.admission.draining = True
    thread.join(60)
    assert not thread.is_alive()
    assert (len(process.begun), process.made[0].killed) == (1, True)
    assert "for 0 of " in lines(caplog, "INFO")[-1]


@pytest.mark.parametrize("ends", [False, True])
def test_nothing_is_compiled_before_the_service_is_ready(process, ends):
    state = service(warm_up_robots="panda")
    state.is_ready = False
    thread = compiling(state)
    thread.join(0.01)
    assert (thread.is_alive(), process.begun) == (True, [])
    state.admission.draining, state.is_ready = ends, not ends
    thread.join(60)
    assert bool(process.begun) is not ends


@pytest.mark.parametrize(
    ("robots", "application", "compiles"),
    [
        (None, {"compile_apart": True}, True),
        ("panda", {"compile_apart": True}, True),
        (",", {"compile_apart": True}, False),
        (None, {"compile_apart": False}, False),
        (None, {"worker": 1}, True),
        (None, {"worker": 2}, False),
    ],
)
def test_an_application_compiles_ahead_unless_a_setting_its_maker_or_its_place_among_workers_says_no(
    monkeypatch, robots, application, compiles
):
    called = []
    monkeypatch.setattr(app_module, "compile_ahead", called.append)
    monkeypatch.setattr(app_module, "warm_up", lambda *_: Future())
    monkeypatch.setattr(app_module, "ServiceMetrics", lambda served, worker: ServiceMetrics(served))
    settings = ServiceSettings(device="cpu", insecure=True, robots="panda", warm_up_robots=robots)
    with TestClient(create_app(settings, **application)) as client:
        assert called == [client.app.state.service] * compiles


def test_a_process_that_yields_has_the_lowest_priority_and_is_the_first_to_end_without_memory(monkeypatch):
    class Ended:
        def recv(self):
            raise EOFError

    asked = []
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(builder_process, "end_with_parent", lambda: None)
    monkeypatch.setattr(os, "nice", asked.append)
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, policy, _: asked.append((pid, policy)))
    monkeypatch.setattr(Path, "write_text", lambda path, text: asked.append((str(path), text)))
    builder_process.fill_caches(Ended(), "cpu", 30, False)
    assert asked == []
    builder_process.fill_caches(Ended(), "cpu", 30, True)
    assert asked == [19, (0, os.SCHED_IDLE), ("/proc/self/oom_score_adj", "1000")]

"""API keys share the room for waiting requests; each key has its own number of requests per second."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from ik_service.service.gate.request_rate import RequestRate
from ik_service.service.queue.errors import RateExceededError
from ik_service.settings import load_settings
from objectives.errors import InputError
from tests.bounded import run, until
from tests.service.conftest import service_of
from tests.service.gate.gates import KEYS, api_keys, ask, gate_around, whole_body

URL = "/v1/robots/panda/solve"
PATIENCE_S = 60.0
ROOM = 8


class Held:
    """A service whose solver stands still until the gate opens, with requests under way in threads of their own."""

    def __init__(self, client, body, threads):
        self.client, self.body, self.threads = client, body, threads
        self.pool, self.gate, self.entered = client.app.state.service.pool, threading.Event(), threading.Event()
        solve = self.pool._runner.solver_cache.solve_together

        def wait(*arguments):
            self.entered.set()
            assert self.gate.wait(PATIENCE_S)
            return solve(*arguments)

        self.pool._runner.solver_cache.solve_together = wait

    def post(self, name, **headers):
        return self.client.post(URL, json=self.body, headers={"X-API-Key": KEYS[name], **headers})

    def begin(self, name, waiting):
        """Post in a thread; return once so many requests wait."""
        future = self.threads.submit(self.post, name)
        until(lambda: self.entered.is_set() and self.pool.waiting_requests >= waiting)
        return future


@pytest.fixture
def hold(one_pose):
    """Starts a service with some keys that stands still."""
    with ExitStack() as stack:

        def hold(*names):
            served = service_of(robots="panda", api_keys=api_keys(*names), queue_requests=ROOM)
            client = stack.enter_context(served)
            held = Held(client, one_pose, stack.enter_context(ThreadPoolExecutor(2 * ROOM)))
            stack.callback(held.gate.set)
            return held

        yield hold


def test_one_key_cannot_use_up_what_may_wait_and_the_other_is_answered_first(hold):
    held = hold("flood", "calm")
    flood = [held.begin("flood", waiting) for waiting in range(ROOM // 2 + 1)]
    of_the_queue = "has 4 requests waiting, and 1 more would exceed its share, which is 4 of 8"
    for sender, detail in [
        ({}, "The request was not read"),
        ({"Origin": "https://lab.example"}, "The request was not read"),
        ({"Content-Type": "application/json; charset=utf-8"}, of_the_queue),  # of a sender that is not known yet
    ]:
        refused = held.post("flood", **sender)
        assert detail in refused.json()["detail"]
        assert (refused.status_code, refused.json()["code"]) == (429, "share_exhausted")
        assert int(refused.headers["retry-after"]) >= 1
    calm = held.begin("calm", ROOM // 2 + 1)
    held.gate.set()
    assert [each.result(PATIENCE_S).status_code for each in (calm, *flood)] == [200] * (len(flood) + 1)


def test_a_single_key_has_the_whole_queue_to_itself(hold):
    held = hold("flood")
    flood = [held.begin("flood", waiting) for waiting in range(ROOM + 1)]
    refused = held.post("flood")
    assert (refused.status_code, refused.json()["code"]) == (503, "queue_full")
    held.gate.set()
    assert [each.result(PATIENCE_S).status_code for each in flood] == [200] * len(flood)


def test_ticks_of_a_stream_count_for_its_key(hold):
    held = hold("flood", "calm")
    headers = {"X-API-Key": KEYS["flood"]}
    owners = []
    submit = held.pool.submit
    held.pool.submit = lambda *given, owner, **more: owners.append(owner) or submit(*given, owner=owner, **more)
    held.gate.set()
    with held.client.websocket_connect("/v1/robots/panda/stream", headers=headers) as stream:
        stream.send_json({"type": "configure", "targets": [{"link": "panda_hand"}]})
        assert stream.receive_json()["type"] == "configured"
        stream.send_json({"seq": 1, "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]})
        assert stream.receive_json()["success"]
    assert owners == ["flood", "flood"]


# ---------------------------------------------------------------------- requests per second
LIMITED = {"api_keys": api_keys(*KEYS), "requests_per_s": 0.25, "requests_burst": 3}


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("ik_service.service.gate.request_rate.time", clock)
    return clock


def statuses(gate, count, **asked):
    return [run(ask(gate, **asked)).status for _ in range(count)]


def test_a_key_that_sends_too_many_requests_gets_a_problem_document_and_other_keys_answers(clock):
    gate = gate_around(whole_body, **LIMITED)
    assert statuses(gate, 3, key="flood") == [200, 200, 200]
    refused = run(ask(gate, chunks=[None], key="flood"))  # unread
    assert refused.code == (429, "rate_exceeded")
    assert refused.headers[b"retry-after"] == b"4"
    assert "may send 0.25 requests per second, 3 at once" in refused.document["detail"]
    assert gate.metrics.reasons == ["rate"]
    assert gate.metrics.answers[-1] == ("/x", 429, False)
    assert statuses(gate, 1, key="calm") == [200]
    clock.now += 3.0
    assert run(ask(gate, key="flood")).headers[b"retry-after"] == b"1"
    clock.now += 1.0
    assert statuses(gate, 2, key="flood") == [200, 429]
    clock.now += 1000.0  # no more than the burst is saved
    assert statuses(gate, 4, key="flood") == [200, 200, 200, 429]


def test_health_unknown_keys_and_services_without_the_setting_have_no_such_limit(clock):
    gate = gate_around(whole_body, **LIMITED)
    assert statuses(gate, 4, key="flood", path="/health/ready") == [200] * 4
    assert statuses(gate, 4, headers=[(b"x-api-key", b"no key at all")]) == [401] * 4
    assert statuses(gate_around(whole_body, api_keys=api_keys(*KEYS)), 100, key="flood") == [200] * 100


def test_in_the_long_run_the_rate_holds_and_a_key_has_one_entry(clock):
    rate, passed = RequestRate(8.0, 2), 0
    for _ in range(4000):
        clock.now += 1 / 64
        try:
            rate.take("flood")
            passed += 1
        except RateExceededError:
            pass
    assert passed == 8 * 4000 // 64 + 1  # the first second begins with a full bucket of two
    rate.take("calm")
    assert set(rate._buckets) == {"flood", "calm"}


def test_a_rate_without_keys_is_refused():
    with pytest.raises(InputError, match="requests_per_s is a limit of each API key, and there is none"):
        load_settings(requests_per_s=5.0)

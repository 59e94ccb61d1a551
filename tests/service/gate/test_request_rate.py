"""Each API key has its own number of requests per second, and as many tokens as there are keys are kept."""

from types import SimpleNamespace

import pytest

from ik_service.service.gate.request_rate import RequestRate
from ik_service.service.queue.errors import RateExceededError
from ik_service.settings import load_settings
from objectives.errors import InputError
from tests.bounded import run
from tests.service.gate.gates import KEYS, api_keys, ask, gate_around, whole_body

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

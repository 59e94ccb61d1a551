"""Replicas under Ray: what they answer is what the plain service answers, and losing one loses no caller for long."""

import os
import re
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx2
import numpy as np
import pytest

from tests.bounded import PATIENCE_S, until

pytestmark = pytest.mark.evidence  # a cluster takes half a minute to start
KEY = {"X-API-Key": "0123456789abcdef"}
DEADLINE_S = 20.0  # that callers give a request
RECOVERY_S = 180.0  # to be back to two replicas on a busy machine; how long it takes tells benchmarks/scale/replicas.md
OFTEN = 24  # requests, of which each of two replicas gets one, but once in some millions of times


def panda_targets(count):
    random = np.random.default_rng(3)
    positions = np.array([0.4, 0.0, 0.5]) + random.uniform(-0.25, 0.25, (count, 3))
    return {"link": "panda_hand", "positions": positions.tolist()}


REQUESTS = [
    {"targets": [{**panda_targets(1), "orientations_xyzw": [[1, 0, 0, 0]]}], "include": ["islands", "active_limits"]},
    {"targets": [{**panda_targets(200), "orientations_xyzw": [[1, 0, 0, 0]] * 200}], "options": {"random_seed": 7}},
]


def without_times(body):
    kept, count = re.subn(rb'"timing_ms":\{[^}]*\}', b"", body)
    assert count == 1
    return kept


def test_every_replica_answers_as_the_plain_service_does(ray_cluster, service_url):
    for number, request in enumerate(REQUESTS):
        plain = httpx2.post(f"{service_url}/v1/robots/panda/solve", json=request, timeout=PATIENCE_S)
        assert plain.status_code == 200
        assert any(plain.json()["success"])
        for again in range(OFTEN):
            headers = {**KEY, "X-Request-ID": f"same-{number}-{again}"}
            url = f"{ray_cluster.url}/v1/robots/panda/solve"
            reply = httpx2.post(url, json=request, headers=headers, timeout=PATIENCE_S)
            assert without_times(reply.content) == without_times(plain.content)
            assert reply.headers.get_list("x-request-id") == [headers["X-Request-ID"]]
    answerers = ray_cluster.answerers("same-", OFTEN * len(REQUESTS))
    assert len(answerers) == OFTEN * len(REQUESTS)
    assert set(answerers.values()) == set(ray_cluster.replicas())


def test_without_a_good_key_nothing_is_solved(ray_cluster):
    url = f"{ray_cluster.url}/v1/robots/panda/solve"
    codes = {"missing_api_key": {}, "invalid_api_key": {"X-API-Key": "f" * 16}}
    for code, headers in codes.items():
        reply = httpx2.post(url, json=REQUESTS[0], headers=headers, timeout=PATIENCE_S)
        assert (reply.status_code, reply.json()["code"]) == (401, code)
    assert httpx2.get(f"{ray_cluster.url}/metrics", timeout=PATIENCE_S).status_code == 401


class Caller:
    """Asks again and again; counts statuses and codes of problems, and keeps the longest time of a request [s]."""

    def __init__(self, url, stopping):
        self.url, self.stopping = url, stopping
        self.ends, self.longest_s = Counter(), 0.0

    def run(self):
        headers = {**KEY, "Prefer": f"wait={DEADLINE_S:.0f}"}
        with httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S) as client:
            while not self.stopping.is_set():
                started = time.monotonic()
                reply = client.post("/v1/robots/panda/solve", json=REQUESTS[0])
                self.ends[200 if reply.status_code == 200 else reply.json()["code"]] += 1
                self.longest_s = max(self.longest_s, time.monotonic() - started)


@pytest.mark.usefixtures("service_url")  # its kernels are there then
def test_a_killed_replica_costs_its_own_requests_alone_and_is_replaced(ray_cluster):
    stopping = threading.Event()
    callers = [Caller(ray_cluster.url, stopping) for _ in range(8)]
    victim, survivor = ray_cluster.replicas()
    with ThreadPoolExecutor(len(callers)) as pool:
        running = [pool.submit(caller.run) for caller in callers]
        try:
            until(lambda: all(caller.ends[200] > 20 for caller in callers), PATIENCE_S)
            os.kill(victim, signal.SIGKILL)
            until(lambda: len(set(ray_cluster.ready_replicas()) - {victim}) == 2, RECOVERY_S)
            new = (set(ray_cluster.ready_replicas()) - {survivor}).pop()
            until(lambda: '"path":"/v1/robots/panda/solve","status":200' in ray_cluster.log_of(new), RECOVERY_S)
        finally:
            stopping.set()
        for future in running:
            future.result(PATIENCE_S)
    ends = sum((caller.ends for caller in callers), Counter())
    assert set(ends) <= {200, "replica_lost"}
    assert ends["replica_lost"] <= len(callers)  # those under way
    assert max(caller.longest_s for caller in callers) < DEADLINE_S
    assert survivor in ray_cluster.replicas()

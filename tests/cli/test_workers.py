"""A service of several workers: it answers as one process does, and goes on when one of them has ended."""

import asyncio
import http.client
import json
import logging
import math
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx2
import pytest
import warp as wp
from fastapi import FastAPI

from ik_service.cli import service_server, supervisor
from ik_service.cli.service_server import WorkerServer, worker_settings
from ik_service.cli.supervisor import DELAY_LEAST_S, DELAY_MOST_S, LONG_LIFE_S, Worker
from ik_service.service.gate.connection import server_config
from ik_service.settings import ServiceSettings
from tests.bounded import until
from tests.cli.test_drain import GOOD, JSON, PATIENCE_S, START_S

IDS = re.compile(r"Process (\S+) has the id (\d+)\.")
SOLVE = "/v1/robots/panda/solve"
SOLVED = '{method="POST",route="/v1/robots/{robot}/solve",status="200"}'
CONNECTIONS = 24
"""Connections that surely do not all go to the same worker."""


def ids(server, role):
    return [int(match[2]) for match in server.matches(IDS) if match[1] == role]


def roles_of(server, path):
    """The processes that have answered requests of a path, in order."""
    documents = [json.loads(line) for line in server.log if line.startswith("{")]
    return [document["role"] for document in documents if document.get("path") == path]


def answers(url, body, count=CONNECTIONS):
    """Answers to one solve over many connections at once: each worker has some."""
    address = urlsplit(url)
    connections = [http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S) for _ in range(count)]
    statuses = set()
    for connection in connections:
        connection.request("POST", SOLVE, body, JSON)
    for connection in connections:
        statuses.add(connection.getresponse().status)
        connection.close()
    return statuses


def value(url, name, labels=""):
    text = httpx2.get(f"{url}/metrics", timeout=PATIENCE_S).text
    found = [line for line in text.splitlines() if line.startswith(f"{name}{labels} ")]
    return float(found[0].split()[-1]) if found else 0.0


def test_a_killed_worker_is_started_again_and_the_others_go_on(serve, run):
    server = serve("--workers", "2")
    url, good = server.url, json.dumps(GOOD)
    for options in ((), ("--workers", "2")):  # the sockets of its workers share the address with each other alone
        refused = run("serve", "--device", "cpu", "--port", urlsplit(url).port, *options, code=1)
        assert "Cannot listen on" in refused.stderr
    assert answers(url, good) == {200}
    counted = value(url, "ik_service_requests_total", SOLVED)
    assert counted == CONNECTIONS

    os.kill(ids(server, "worker-1")[0], signal.SIGKILL)
    until(lambda: any("Process worker-1 has ended with exit code -9" in line for line in server.log))
    assert answers(url, good, count=4) == {200}
    assert value(url, "ik_service_requests_total", SOLVED) == counted + 4  # what the killed one had counted stays
    ready = ('"role":"worker-1"', "Ready: the first solve")
    until(lambda: sum(all(word in line for word in ready) for line in server.log) == 2, START_S)
    assert len(ids(server, "worker-1")) == 2
    assert answers(url, good) == {200}
    assert value(url, "ik_service_requests_total", SOLVED) == 2 * counted + 4
    until(lambda: value(url, "ik_service_ready") == 1.0)
    starts = [value(url, "ik_service_worker_starts_total", f'{{worker="{number}"}}') for number in (1, 2)]
    assert starts == [2.0, 1.0]
    assert server.end() == 0
    assert set(roles_of(server, SOLVE)[-CONNECTIONS:]) == {"worker-1", "worker-2"}
    assert "Traceback" not in "\n".join(server.log)


def is_there(process_id):
    stat = Path(f"/proc/{process_id}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.evidence
def test_no_process_outlives_a_supervisor_that_is_killed(serve):
    server = serve("--workers", "2", "--drain-s", "1")
    workers = [ids(server, role)[0] for role in ("worker-1", "worker-2")]
    assert all(map(is_there, workers))
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(map(is_there, workers)))
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{server.url}/health/live", timeout=PATIENCE_S)


# ---------------------------------------------------------------------- without processes
class Clock:
    """A clock set by a test."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


def test_delays_grow_and_are_short_again_after_a_long_life(monkeypatch, tmp_path):
    clock = Clock()
    monkeypatch.setattr(supervisor, "time", clock)
    monkeypatch.setattr(supervisor, "run_worker", logging.debug)  # it ends at once
    worker = Worker(3, ServiceSettings(), ("127.0.0.1", 1), str(tmp_path))
    (tmp_path / "gauge_livesum_3.db").touch()
    (tmp_path / "counter_3.db").touch()

    def delay_after(seconds):
        worker.start()
        clock.now += seconds
        assert worker.end() == 0
        return worker.start_at - clock.now

    assert [delay_after(0.0) for _ in range(4)] == pytest.approx([DELAY_LEAST_S * 2.0**k for k in range(4)])
    worker._delay_s = DELAY_MOST_S
    assert [delay_after(1.0) for _ in range(2)] == pytest.approx([DELAY_MOST_S] * 2)
    assert delay_after(LONG_LIFE_S + 1.0) == pytest.approx(DELAY_LEAST_S)
    assert [file.name for file in tmp_path.iterdir()] == ["counter_3.db"]  # what it has counted stays
    worker.tell(15)  # to nobody
    assert worker.end() is None


@pytest.mark.parametrize(
    ("device", "cards", "expected"),
    [
        ("cpu", 0, ["cpu", "cpu", "cpu"]),
        ("auto", 0, ["auto", "auto", "auto"]),
        ("auto", 1, ["auto", "auto", "auto"]),
        ("auto", 2, ["cuda:0", "cuda:1", "cuda:0"]),
        ("cuda", 2, ["cuda:0", "cuda:1", "cuda:0"]),
        ("cuda:1", 2, ["cuda:1", "cuda:1", "cuda:1"]),
        ("cuda:2,cuda:0", 4, ["cuda:2", "cuda:0", "cuda:2"]),
    ],
)
def test_workers_take_devices_in_turn_and_share_the_cores(monkeypatch, device, cards, expected):
    monkeypatch.setattr(service_server.os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(wp, "get_cuda_device_count", lambda: cards)
    settings = ServiceSettings(device=device, workers=3)
    own = [worker_settings(settings, number) for number in (1, 2, 3)]
    assert [one.device for one in own] == expected
    assert {one.threads for one in own} == {2}
    assert [one.devices for one in own] == [(name,) for name in expected]
    assert worker_settings(ServiceSettings(workers=16, device="cpu"), 9).threads == 1
    assert worker_settings(ServiceSettings(workers=2, device="cpu", threads=5), 1).threads == 5


@pytest.mark.parametrize(("solving_s", "ends"), [(0.0, False), (1e6, False), (math.inf, True)])
def test_a_worker_whose_solver_has_ended_ends(solving_s, ends):
    app, refreshed = FastAPI(), []
    pool, metrics = SimpleNamespace(solving_s=solving_s), SimpleNamespace(refresh=lambda: refreshed.append(1))
    app.state.service = SimpleNamespace(pool=pool, metrics=metrics)
    settings = ServiceSettings()
    server = WorkerServer(server_config(app, settings), app, settings, None)
    server.config.load()
    assert [asyncio.run(server.on_tick(counter)) for counter in (1, 10)] == [False, ends]
    assert (server.failure is not None) is ends
    assert refreshed == [1]

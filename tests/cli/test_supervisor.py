"""A worker as its supervisor sees it, and what a worker does by itself."""

import asyncio
import logging
import math
from types import SimpleNamespace

import pytest
import warp as wp
from fastapi import FastAPI

from ik_service.cli import service_server, supervisor
from ik_service.cli.service_server import WorkerServer, worker_settings
from ik_service.cli.supervisor import DELAY_LEAST_S, DELAY_MOST_S, LONG_LIFE_S, Worker
from ik_service.service.gate.connection import server_config
from ik_service.settings import ServiceSettings


class Clock:
    """A time that a test lets pass."""

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

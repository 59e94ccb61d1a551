"""The load tool against a small server of its own: counts, latencies and errors are what the server did."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import numpy as np
import orjson
import pytest

from benchmarks.service.load import LoadError, LoadPlan, LoadReport, run_load

SUCCESS = {"success": [True], "status": ["converged"], "timing_ms": {"solve": 1.0, "total": 2.5}}
METRICS = """# TYPE ik_service_batch_problems histogram
ik_service_batch_problems_bucket{{le="+Inf",robot="panda"}} {count}
ik_service_batch_problems_sum{{robot="panda"}} {total}
ik_service_batch_problems_count{{robot="panda"}} {count}
"""


class Server:
    """Answers every solve after a delay, as it is told to, and counts."""

    def __init__(self, *, delay_s=0.0, status=200, answer=SUCCESS):
        self.delay_s, self.status, self.answer = delay_s, status, answer
        self.bodies, self.keys, self.close_after = [], [], None

    async def handle(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.split("Content-Length: ")[1].split("\r\n")[0])
                body = await reader.readexactly(length)
                if "/metrics" in head:
                    count = len(self.bodies)
                    self._write(writer, 200, METRICS.format(count=count, total=7 * count).encode())
                    continue
                self.bodies.append(orjson.loads(body))
                self.keys.append("X-API-Key: secret\r\n" in head)
                await asyncio.sleep(self.delay_s)
                if self.close_after is not None and len(self.bodies) > self.close_after:
                    break
                self._write(writer, self.status, orjson.dumps(self.answer))
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _write(self, writer, status, body):
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)


@contextmanager
def running(server):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def done(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)

    async def end():
        listener.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    listener = done(asyncio.start_server(server.handle, "127.0.0.1", 0))
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        done(end())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def plan(url, **changes):
    return LoadPlan(**{"url": url, "duration_s": 0.4, "warm_up_s": 0.0, "clients": 4, **changes})


def test_a_closed_loop_keeps_every_connection_busy():
    server = Server(delay_s=0.02)
    with running(server) as url:
        report = run_load(plan(url))
    assert report.statuses == {200: report.sent}
    assert len(server.bodies) == report.sent + 1  # one to try
    assert report.sent <= 4 * 0.4 / 0.02 + 4
    assert report.sent > 4
    assert min(report.latency_ms) >= 20.0 - 1.0
    assert (set(report.inside_ms), report.problems_per_launch) == ({2.5}, pytest.approx(7.0))


def test_an_open_loop_counts_from_when_a_request_was_due():
    """The server manages a third of what comes: requests queue up, and their waiting shows."""
    server = Server(delay_s=0.03)
    with running(server) as url:
        report = run_load(plan(url, clients=1, rate_hz=100.0))
    assert (report.sent, report.statuses) == (pytest.approx(40, abs=25), {200: report.sent})
    assert max(report.latency_ms) > 5 * 30.0
    assert report.seconds > 2 * 0.4


def test_bodies_hold_the_problems_asked_for_and_the_key():
    server = Server()
    with running(server) as url:
        run_load(plan(url, problems=3, robot="ur5e", link="tool0", api_key="secret"))
    target = server.bodies[-1]["targets"][0]
    assert target["link"] == "tool0"
    assert np.shape(target["positions"]) == (3, 3)
    np.testing.assert_allclose(np.linalg.norm(target["orientations_xyzw"], axis=1), 1.0, atol=1e-6)
    assert all(server.keys)


def test_requests_that_are_never_answered_are_counted():
    server = Server(delay_s=0.002)
    with running(server) as url:
        requests = plan(url, clients=1)
        server.close_after = 3
        report = run_load(requests)
    assert report.statuses[0] >= 2
    assert report.statuses[200] <= 3


def test_a_service_that_refuses_is_an_error_with_its_answer():
    server = Server(status=422, answer={"detail": "no such link"})
    with running(server) as url, pytest.raises(LoadError, match=r"422.*no such link"):
        run_load(plan(url))


def test_nobody_there_and_a_report_without_answers():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(LoadError, match="Nothing answers"):
        run_load(plan(f"http://127.0.0.1:{port}"))
    report = LoadReport(1.0, 3)
    assert (report.quantiles(), report.answers_per_second) == ({}, 0.0)

"""The real server as a process: it ends without losing a request."""

import http.client
import json
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.bounded import PATIENCE_S, until
from tests.cli.conftest import ServerProcess

GOOD = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}]}
JSON = {"Content-Type": "application/json"}
START_S = 300.0  # the first solve on a machine compiles kernels


def large(problem_count):
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * problem_count}
    return {"targets": [target], "options": {"seeds": 8}}


class Caller:
    """Sends one request after the other until the service is gone.

    Requests are `answered` by 200, or `lost`: sent whole before the signal, without an answer; others have `codes`.
    """

    def __init__(self, url, body, stopping):
        address = urlsplit(url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S)
        self.body, self.stopping = json.dumps(body), stopping
        self.answered, self.lost, self.codes = 0, 0, []

    def run(self, sent=None):
        """Until an error; `sent` is passed once the first request has been sent whole."""
        is_open = True
        while is_open:
            is_sent = False
            try:
                self.connection.request("POST", "/v1/robots/panda/solve", self.body, JSON)
                is_sent = not self.stopping.is_set()
                if sent is not None:
                    sent.wait(PATIENCE_S)
                    sent = None
                reply = self.connection.getresponse()
                content = json.loads(reply.read())
            except (OSError, http.client.HTTPException):
                self.lost += is_sent
                is_open = False
            else:
                if reply.status == 200:
                    assert all(content["success"])
                    self.answered += 1
                else:
                    self.codes.append(content["code"])
        self.connection.close()


@pytest.mark.quick_cases("15-1")
@pytest.mark.parametrize(
    ("sig", "workers"),
    [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 2), (signal.SIGINT, 2)],
    ids=lambda value: f"{value:d}",
)
def test_a_signal_to_end_loses_no_accepted_request_under_load(serve, sig, workers):
    # A queue that is too long for the time of a request refuses, however slow the machine is.
    times = ("--drain-s", str(PATIENCE_S - 10.0), "--request-timeout-s", "600")
    server = serve("--no-access-log", "--workers", str(workers), *times)
    httpx2.post(f"{server.url}/v1/robots/panda/solve", json=large(1), timeout=START_S)  # so that nothing is compiled
    stopping = threading.Event()
    sent = threading.Barrier(5)
    fast = [Caller(server.url, GOOD, stopping) for _ in range(8)]
    slow = [Caller(server.url, large(20_000), stopping) for _ in range(4)]
    with ThreadPoolExecutor(12) as pool:
        running = [pool.submit(caller.run) for caller in fast]
        running += [pool.submit(caller.run, sent) for caller in slow]
        sent.wait(PATIENCE_S)
        stopping.set()
        code = server.end(sig)
        for future in running:
            future.result(PATIENCE_S)
    assert code == 0
    assert [caller.lost for caller in (*fast, *slow)] == [0] * 12
    assert all(caller.answered >= 1 for caller in slow)
    assert sum(caller.answered for caller in fast) > 0
    assert {code for caller in (*fast, *slow) for code in caller.codes} <= {"shutting_down"}
    assert "Traceback" not in "\n".join(server.log)


SLOW_LOOP = """
import asyncio, time
from ik_service.cli import serve
from ik_service.cli import main

class SlowServer(serve.ServiceServer):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.drag(asyncio.get_running_loop())

    def drag(self, loop):
        time.sleep(0.06)
        loop.call_soon(self.drag, loop)

serve.ServiceServer = SlowServer
main()
"""


@pytest.mark.evidence
def test_sigterm_loses_nothing_that_was_sent_to_an_event_loop_that_lags(serve, monkeypatch):
    monkeypatch.setattr(ServerProcess, "program", SLOW_LOOP)
    server = serve()
    callers = [Caller(server.url, GOOD, threading.Event()) for _ in range(5)]
    for caller in callers:
        caller.connection.request("POST", "/v1/robots/panda/solve", caller.body, JSON)
    assert server.end(signal.SIGTERM) == 0
    assert [caller.connection.getresponse().status for caller in callers] == [200] * 5
    for caller in callers:
        caller.connection.close()


def in_flight(url):
    metrics = httpx2.get(f"{url}/metrics", timeout=PATIENCE_S).text
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("ik_service_requests_open "))


@pytest.mark.evidence
def test_while_it_drains_it_is_not_ready_and_still_answers(serve):
    server = serve(IK_SERVICE_DRAIN_DELAY_S="2")
    ended = threading.Thread(target=server.end, args=(signal.SIGTERM,))
    ended.start()
    replies = []

    def drains():
        replies.append(httpx2.get(f"{server.url}/health/ready", timeout=PATIENCE_S))
        return replies[-1].json().get("code") == "shutting_down"

    until(drains)
    reply = replies[-1]
    assert reply.status_code == 503
    assert int(reply.headers["retry-after"]) >= 1
    solved = httpx2.post(f"{server.url}/v1/robots/panda/solve", json=GOOD, timeout=PATIENCE_S)
    assert (solved.status_code, solved.headers["connection"]) == (200, "close")
    assert httpx2.get(f"{server.url}/health/live", timeout=PATIENCE_S).status_code == 200
    ended.join(PATIENCE_S)
    assert not ended.is_alive()
    assert server.process.returncode == 0


@pytest.mark.evidence
def test_requests_that_cannot_end_in_time_are_told_to_come_back(serve):
    server = serve("--drain-s", "0.2")
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(
            b"POST /v1/robots/panda/solve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        until(lambda: in_flight(server.url) >= 2)  # it, and the question itself
        assert server.end(signal.SIGTERM) == 0
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert json.loads(body)["code"] == "shutting_down"
    assert "Traceback" not in "\n".join(server.log)

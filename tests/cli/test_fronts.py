"""A service of several processes: it answers as one process does, and goes on when one of them has ended."""

import http.client
import json
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import msgpack
import numpy as np
import pytest

from ik_service.packed_columns import packed
from ik_service.robots import builtin_urdf, load_robot
from tests.cli.test_drain import GOOD, JSON, PATIENCE_S, START_S, Caller, large

KEYS = {"lab": "0123456789abcdef", "field": "fedcba9876543210"}
MSGPACK = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
FRONTS = 2
IDS = re.compile(r"Process (\S+) has the id (\d+)\.")
SOLVE = "/v1/robots/panda/solve"
SOLVED = '{method="POST",route="/v1/robots/{robot}/solve",status="200"}'
CONNECTIONS = 24
"""Connections that surely do not all go to the same front."""


class Log:
    """The log of a server as it comes, read beside the test."""

    def __init__(self, server):
        self._server, self.lines = server, list(server.log)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._server.process.stderr:
            self.lines.append(line.decode().rstrip())

    def ids(self, role):
        """Ids of the processes that have had a role, in order."""
        found = [match for line in list(self.lines) if (match := IDS.search(line))]
        return [int(match[2]) for match in found if match[1] == role]

    def documents(self):
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def end(self, sig=signal.SIGTERM):
        """End the server; return its exit code."""
        self._server.process.send_signal(sig)
        code = self._server.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code


def until(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < end, "what the test waits for has not come"
        time.sleep(0.05)


def answers(url, path=SOLVE, body=None, headers=JSON, count=CONNECTIONS):
    """Answers to one request over many connections at once, so that all fronts have some of them."""
    address = urlsplit(url)
    connections = [http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S) for _ in range(count)]
    for connection in connections:
        connection.request("GET" if body is None else "POST", path, body, headers)
    replies = []
    for connection in connections:
        reply = connection.getresponse()
        replies.append((reply.status, dict(reply.getheaders()), reply.read()))
    for connection in connections:
        connection.close()
    return replies


def bare(content):
    """An answer without what differs from time to time."""
    document = json.loads(content)
    del document["timing_ms"]
    return document


def value(url, name, labels="", headers=None):
    """A value of the metrics."""
    text = httpx2.get(f"{url}/metrics", headers=headers, timeout=PATIENCE_S).text
    found = [line for line in text.splitlines() if line.startswith(f"{name}{labels} ")]
    return float(found[0].split()[-1]) if found else 0.0


@pytest.fixture
def fronts(serve):
    """Starts a service of two fronts; gives its address and its log."""

    def start(*arguments, **variables):
        server = serve("--fronts", str(FRONTS), *arguments, **variables)
        return server.url, Log(server)

    return start


def targets(count):
    panda = load_robot("panda")
    poses = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(0), count), ["panda_hand"])
    return {
        "link": "panda_hand",
        "positions": poses.positions[:, 0],
        "orientations_xyzw": poses.orientations_xyzw[:, 0],
    }


@pytest.mark.evidence
def test_two_fronts_answer_as_one_process_does(serve, fronts, run):
    columns = targets(10_000)
    many = {name: packed(array) if name != "link" else array for name, array in columns.items()}
    bodies = [
        (json.dumps(GOOD).encode(), JSON),
        (msgpack.packb({"targets": [many], "include": ["active_limits"]}), MSGPACK),
        (json.dumps({"targets": [{"link": "nowhere", "positions": [[0, 0, 0]]}]}).encode(), JSON),
    ]
    single = serve()
    expected = [answers(single.url, SOLVE, *body, count=1)[0] for body in bodies]
    assert single.end(signal.SIGTERM) == 0
    url, log = fronts()
    for body, (status, _, content) in zip(bodies, expected, strict=True):
        replies = answers(url, SOLVE, *body, count=4 if len(body[0]) > 10_000 else CONNECTIONS)
        assert {reply[0] for reply in replies} == {status}
        for _, headers, other in replies:
            if headers["content-type"] == "application/msgpack":
                one, two = msgpack.unpackb(content), msgpack.unpackb(other)
                assert len(one["joint_q"]["data"]) == 10_000 * 7 * 4
                assert sum(one["success"]["data"]) > 9_000
            else:
                one, two = json.loads(content), json.loads(other)
            for document in (one, two):
                document.pop("timing_ms", None)
                document.pop("request_id", None)
            assert one == two
    assert (
        value(url, "ik_service_requests_total", '{method="POST",route="/v1/robots/{robot}/solve",status="200"}') == 28
    )
    assert value(url, "ik_service_problems_total", '{robot="panda",status="converged"}') > 4 * 9_000
    assert value(url, "ik_service_ready") == 1.0
    for options in ((), ("--fronts", "2")):  # the sockets of its fronts share the address with each other alone
        refused = run("serve", "--device", "cpu", "--port", urlsplit(url).port, *options, code=1)
        assert "Cannot listen on" in refused.stderr
    assert log.end() == 0
    documents = log.documents()
    requests = [document for document in documents if document["event"] == "request"]
    assert {document["role"] for document in requests} == {"front-1", "front-2"}  # both had some
    assert {document["role"] for document in documents} >= {"supervisor", "front-1", "front-2"}
    assert "Traceback" not in "\n".join(log.lines)


@pytest.mark.evidence
def test_sigterm_under_load_loses_no_accepted_request(fronts):
    url, log = fronts("--no-access-log", "--drain-s", str(PATIENCE_S - 10.0), "--request-timeout-s", "600")
    httpx2.post(f"{url}{SOLVE}", json=large(1), timeout=START_S)  # so that nothing is compiled
    stopping, sent = threading.Event(), threading.Barrier(5)
    fast = [Caller(url, GOOD, stopping) for _ in range(8)]
    slow = [Caller(url, large(5_000), stopping) for _ in range(4)]
    with ThreadPoolExecutor(12) as pool:
        running = [pool.submit(caller.run) for caller in fast]
        running += [pool.submit(caller.run, sent) for caller in slow]
        sent.wait(PATIENCE_S)
        stopping.set()
        code = log.end()
        for future in running:
            future.result(PATIENCE_S)
    assert code == 0
    assert [caller.lost for caller in (*fast, *slow)] == [0] * 12
    assert all(caller.answered >= 1 for caller in slow)
    assert sum(caller.answered for caller in fast) > 0
    assert {code for caller in (*fast, *slow) for code in caller.codes} <= {"shutting_down"}
    assert "Traceback" not in "\n".join(log.lines)


@pytest.mark.evidence
def test_a_killed_process_is_started_again_and_the_others_go_on(fronts):
    url, log = fronts()
    assert {reply[0] for reply in answers(url, body=json.dumps(GOOD))} == {200}
    counted = value(url, "ik_service_requests_total", SOLVED)
    solved = value(url, "ik_service_problems_total", '{robot="panda",status="converged"}')
    assert counted == CONNECTIONS

    os.kill(log.ids("front-1")[0], signal.SIGKILL)
    until(lambda: len(log.ids("front-1")) == 2)
    assert {reply[0] for reply in answers(url, body=json.dumps(GOOD), count=4)} == {200}
    assert value(url, "ik_service_requests_total", SOLVED) == counted + 4  # what the killed one had counted stays
    until(lambda: sum('"role":"front-1"' in line and "Ready: the first solve" in line for line in log.lines) == 2)
    assert value(url, "ik_service_requests_total", SOLVED) == counted + 4

    under_way = threading.Barrier(2)
    slow = Caller(url, {**large(100_000), "options": {"seeds": 64}}, threading.Event())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(slow.run, under_way)
        under_way.wait(PATIENCE_S)
        until(lambda: value(url, "ik_service_requests_open") >= 2)  # it, and the question itself
        os.kill(log.ids("solver")[0], signal.SIGKILL)
        until(lambda: slow.codes)
        assert slow.codes[0] == "solver_restarting"
        replies = answers(url, "/health/ready", count=4)
        assert {(reply[0], json.loads(reply[2])["code"]) for reply in replies} == {(503, "not_ready")}
        for status, headers, content in answers(url, body=json.dumps(GOOD), count=4):
            assert (status, json.loads(content)["code"]) == (503, "solver_restarting")
            assert int(headers["retry-after"]) >= 1
        assert {reply[0] for reply in answers(url, "/health/live", count=4)} == {200}
        until(lambda: {reply[0] for reply in answers(url, "/health/ready", count=8)} == {200})
        assert {reply[0] for reply in answers(url, body=json.dumps(GOOD))} == {200}
        assert value(url, "ik_service_problems_total", '{robot="panda",status="converged"}') > solved
        assert value(url, "ik_service_requests_total", SOLVED) >= counted + 4 + CONNECTIONS
        assert log.end() == 0
        running.result(PATIENCE_S)
    assert any("Process solver has ended with exit code -9" in line for line in log.lines)


@pytest.mark.evidence
def test_robots_and_keys_are_the_same_in_all_fronts(fronts, tmp_path):
    url, log = fronts(
        IK_SERVICE_API_KEYS=",".join(f"{name}:{key}" for name, key in KEYS.items()),
        IK_SERVICE_CATALOG_DIR=str(tmp_path / "catalog"),
        IK_SERVICE_UPLOADS_ENABLED="true",
        IK_SERVICE_ROBOTS="panda",
    )
    key = {"X-API-Key": KEYS["lab"]}
    assert {reply[0] for reply in answers(url, "/v1/robots", headers={"X-API-Key": "no key of this one"})} == {401}
    put = httpx2.put(
        f"{url}/v1/robots/arm",
        content=builtin_urdf("ur5e"),
        headers={**key, "Content-Type": "application/xml"},
        timeout=PATIENCE_S,
    )
    assert put.status_code == 201
    assert {reply[0] for reply in answers(url, "/v1/robots/arm", headers=key)} == {200}
    listed = [json.loads(reply[2])["robots"] for reply in answers(url, "/v1/robots", headers=key)]
    assert {tuple(robot["name"] for robot in robots) for robots in listed} == {("panda", "arm")}
    body = json.dumps({"targets": [{"link": "tool0", "positions": [[0.4, 0.2, 0.4]]}]})
    replies = answers(url, "/v1/robots/arm/solve", body, {**JSON, **key})
    assert {reply[0] for reply in replies} == {200}
    assert len({json.dumps(bare(reply[2])) for reply in replies}) == 1
    assert value(url, "ik_service_queue_wait_seconds_count", '{robot="arm"}', key) == CONNECTIONS
    assert httpx2.delete(f"{url}/v1/robots/arm", headers=key, timeout=PATIENCE_S).status_code == 204
    assert {reply[0] for reply in answers(url, "/v1/robots/arm", headers=key)} == {404}
    until(lambda: value(url, "ik_service_queue_wait_seconds_count", '{robot="arm"}', key) == 0.0)
    assert log.end() == 0


def is_there(process_id):
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.evidence
def test_no_process_outlives_a_supervisor_that_is_killed(fronts):
    url, log = fronts("--drain-s", "1")
    ids = [log.ids(role)[0] for role in ("solver", "front-1", "front-2")]
    assert all(map(is_there, ids))
    assert log.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(map(is_there, ids)))
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health/live", timeout=PATIENCE_S)


@pytest.mark.evidence
def test_several_devices_have_a_solver_each_and_one_goes_on_without_the_other(serve):
    server = serve("--fronts", str(FRONTS), "--device", "cpu,cpu")
    url, log = server.url, Log(server)
    body = json.dumps(GOOD)
    replies = answers(url, body=body)
    assert {reply[0] for reply in replies} == {200}
    assert len({json.dumps(bare(reply[2])) for reply in replies}) == 1
    solved = value(url, "ik_service_problems_total", '{robot="panda",status="converged"}')
    roles = [log.ids(role) for role in ("solver-1", "solver-2")]
    assert [len(ids) for ids in roles] == [1, 1]
    assert log.ids("solver") == []

    slow = {**large(100_000), "options": {"seeds": 64}}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(httpx2.post, f"{url}{SOLVE}", json=slow, timeout=PATIENCE_S)
        until(lambda: value(url, "ik_service_requests_open") >= 2)  # it, and the question itself
        assert {httpx2.post(f"{url}{SOLVE}", json=GOOD, timeout=PATIENCE_S).status_code for _ in range(8)} == {200}
        os.kill(roles[0][0], signal.SIGKILL)
        until(lambda: any("Process solver-1 has ended with exit code -9" in line for line in log.lines))
        assert {reply[0] for reply in answers(url, "/health/ready", count=4)} == {200}
        assert {reply[0] for reply in answers(url, body=body)} == {200}
        reply = running.result(PATIENCE_S)
        assert reply.status_code == 200 or reply.json()["code"] == "solver_restarting"
    until(lambda: len(log.ids("solver-1")) == 2)
    assert {reply[0] for reply in answers(url, body=body)} == {200}
    assert value(url, "ik_service_problems_total", '{robot="panda",status="converged"}') > solved
    assert log.end() == 0
    assert "Traceback" not in "\n".join(log.lines)


@pytest.mark.evidence
def test_what_is_wrong_at_the_start_is_said_in_one_line(run):
    result = run("serve", "--port", "0", "--device", "cuda:77", "--fronts", "2", code=2)
    assert "cuda:77" in result.stderr
    assert "Traceback" not in result.stderr

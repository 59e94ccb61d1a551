"""A service of several workers: it answers as one process does, and goes on when one of them has ended."""

import http.client
import json
import os
import re
import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from ik_service.robots import builtin_urdf
from tests.bounded import until
from tests.cli.test_drain import GOOD, JSON, PATIENCE_S, START_S

KEYS = {"lab": "0123456789abcdef", "field": "fedcba9876543210"}
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


def answers(url, path=SOLVE, body=None, headers=JSON, count=CONNECTIONS):
    """Answers to one request over many connections at once, so that all workers have some of them."""
    address = urlsplit(url)
    connections = [http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S) for _ in range(count)]
    replies = []
    for connection in connections:
        connection.request("GET" if body is None else "POST", path, body, headers)
    for connection in connections:
        reply = connection.getresponse()
        replies.append((reply.status, dict(reply.getheaders()), reply.read()))
        connection.close()
    return replies


def bare(content):
    return {name: value for name, value in json.loads(content).items() if name not in ("timing_ms", "request_id")}


def value(url, name, labels="", headers=None):
    text = httpx2.get(f"{url}/metrics", headers=headers, timeout=PATIENCE_S).text
    found = [line for line in text.splitlines() if line.startswith(f"{name}{labels} ")]
    return float(found[0].split()[-1]) if found else 0.0


def test_a_killed_worker_is_started_again_and_the_others_go_on(serve, run):
    server = serve("--workers", "2")
    url = server.url
    for options in ((), ("--workers", "2")):  # the sockets of its workers share the address with each other alone
        refused = run("serve", "--device", "cpu", "--port", urlsplit(url).port, *options, code=1)
        assert "Cannot listen on" in refused.stderr
    assert {reply[0] for reply in answers(url, body=json.dumps(GOOD))} == {200}
    counted = value(url, "ik_service_requests_total", SOLVED)
    assert counted == CONNECTIONS

    os.kill(ids(server, "worker-1")[0], signal.SIGKILL)
    until(lambda: any("Process worker-1 has ended with exit code -9" in line for line in server.log))
    assert {reply[0] for reply in answers(url, body=json.dumps(GOOD), count=4)} == {200}
    assert value(url, "ik_service_requests_total", SOLVED) == counted + 4  # what the killed one had counted stays
    ready = ('"role":"worker-1"', "Ready: the first solve")
    until(lambda: sum(all(word in line for word in ready) for line in server.log) == 2, START_S)
    assert len(ids(server, "worker-1")) == 2
    assert {reply[0] for reply in answers(url, body=json.dumps(GOOD))} == {200}
    assert value(url, "ik_service_requests_total", SOLVED) == 2 * counted + 4
    until(lambda: value(url, "ik_service_ready") == 1.0)
    starts = [value(url, "ik_service_worker_starts_total", f'{{worker="{number}"}}') for number in (1, 2)]
    assert starts == [2.0, 1.0]
    assert server.end() == 0
    assert set(roles_of(server, SOLVE)[-CONNECTIONS:]) == {"worker-1", "worker-2"}
    assert "Traceback" not in "\n".join(server.log)


@pytest.mark.evidence
def test_robots_and_keys_are_the_same_in_all_workers(serve, tmp_path):
    server = serve(
        *("--workers", "2"),
        IK_SERVICE_API_KEYS=",".join(f"{name}:{key}" for name, key in KEYS.items()),
        IK_SERVICE_CATALOG_DIR=str(tmp_path / "catalog"),
        IK_SERVICE_UPLOADS_ENABLED="true",
        IK_SERVICE_ROBOTS="panda",
    )
    url, key = server.url, {"X-API-Key": KEYS["lab"]}
    assert {reply[0] for reply in answers(url, "/v1/robots", headers={"X-API-Key": "no key of this one"})} == {401}
    given = {"content": builtin_urdf("ur5e"), "headers": {**key, "Content-Type": "application/xml"}}
    put = httpx2.put(f"{url}/v1/robots/arm", **given, timeout=PATIENCE_S)
    assert put.status_code == 201
    assert {reply[0] for reply in answers(url, "/v1/robots/arm", headers=key)} == {200}
    listed = [json.loads(reply[2])["robots"] for reply in answers(url, "/v1/robots", headers=key)]
    assert {tuple(robot["name"] for robot in robots) for robots in listed} == {("panda", "arm")}
    body = json.dumps({"targets": [{"link": "tool0", "positions": [[0.4, 0.2, 0.4]]}]})
    replies = answers(url, "/v1/robots/arm/solve", body, {**JSON, **key})
    assert {reply[0] for reply in replies} == {200}
    assert len({json.dumps(bare(reply[2])) for reply in replies}) == 1
    waited = "ik_service_queue_wait_seconds_count"  # counted after the answer
    until(lambda: value(url, waited, '{robot="arm"}', key) == CONNECTIONS)
    assert httpx2.delete(f"{url}/v1/robots/arm", headers=key, timeout=PATIENCE_S).status_code == 204
    assert {reply[0] for reply in answers(url, "/v1/robots/arm", headers=key)} == {404}
    assert server.end() == 0
    assert set(roles_of(server, "/v1/robots/arm")) == {"worker-1", "worker-2"}


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

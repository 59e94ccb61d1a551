"""`ik-service serve`: where it listens, what it prints, and that the printed line works."""

import asyncio
import contextlib
import json
import re
import resource
import signal
import socket
import urllib.parse
import urllib.request
from functools import partial

import pytest

from ik_service.cli.announcement import curl_line
from ik_service.cli.serve import RESERVE, with_descriptors
from ik_service.cli.service_server import log_failure
from ik_service.settings import ServiceSettings
from tests.cli.conftest import ServerProcess

CURL = re.compile(r"curl -s (\S+) -H 'Content-Type: application/json' -d '(.*)'")


def test_serve_refuses_an_open_host_before_it_loads_anything(run):
    assert "--insecure" in run("serve", "--host", "0.0.0.0", code=2).stderr


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:80"), ("0.0.0.0", "127.0.0.1:80"), ("::", "[::1]:80"), ("10.0.0.1", "10.0.0.1:80")],
)
def test_the_printed_line_names_an_address_that_can_be_reached(host, address):
    assert CURL.fullmatch(curl_line(host, 80, "iiwa14", {}))[1] == f"http://{address}/v1/robots/iiwa14/solve"


def test_a_port_in_use_is_said_in_one_line(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", port, "--device", "cpu", code=1)
    assert f"Cannot listen on 127.0.0.1:{port}" in result.stderr


@pytest.mark.evidence_cases("options2-cuda:77")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--robots", ","], "setting robots (IK_SERVICE_ROBOTS) names none"),
        (["--device", "cuda:77"], "cuda:77"),
        (["--device", "cuda:77", "--workers", "2"], "cuda:77"),
    ],
)
def test_what_is_wrong_at_the_start_is_said_in_one_line(run, options, said):
    result = run("serve", "--port", "0", "--device", "cpu", *options, code=2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.evidence_cases("for people")
@pytest.mark.parametrize("options", [[], ["--log-format", "console"]], ids=["in a log", "for people"])
def test_the_printed_line_is_for_a_robot_that_is_served_and_interrupting_ends_it(serve, options):
    server = serve("--robots", "ur5e,iiwa14", *options)
    found = next(match for line in server.log if (match := CURL.search(line.replace('\\"', '"'))))
    assert (found[0] in server.log) == bool(options)  # for people it is a line of its own
    request = urllib.request.Request(found[1], found[2].encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer = json.load(reply)
    assert answer["robot"] in ("ur5e", "iiwa14")
    assert answer["success"] == [True]
    assert server.end(signal.SIGINT) in (0, -signal.SIGINT, 130)
    assert "Traceback" not in "\n".join(server.log)
    said = [json.loads(line) for line in server.log if line and not options and not line.startswith("Warp ")]
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in said)


def test_an_announcement_that_fails_is_logged(caplog):
    async def announce():
        raise ValueError("no example")

    async def announced():
        task = asyncio.create_task(announce())
        task.add_done_callback(log_failure)
        await asyncio.wait([task])
        await asyncio.sleep(0)  # callbacks run in the next turn of the loop

    asyncio.run(announced())
    assert "no example" in caplog.text


# ---------------------------------------------------------------------- open files
UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised_to", "connections"),
    [
        (1024, 524_288, 1000 + RESERVE, 1000),
        (1024, UNLIMITED, 1000 + RESERVE, 1000),
        (1000 + RESERVE, 1000 + RESERVE, None, 1000),
        (UNLIMITED, UNLIMITED, None, 1000),
        (512, 1024, 1024, 1024 - RESERVE),
        (1024, 1024, None, 1024 - RESERVE),
        (64, 128, 128, 1),
    ],
)
def test_limits_are_raised_as_far_as_they_may_be(monkeypatch, caplog, soft, hard, raised_to, connections):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert with_descriptors(ServiceSettings(max_connections=1000)).max_connections == connections
    assert asked == ([] if raised_to is None else [(raised_to, hard)])
    assert ("ulimit" in caplog.text) == (connections < 1000)


def test_a_server_with_few_descriptors_keeps_the_last_callers_and_answers_them(serve, monkeypatch):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {RESERVE + 10})); "
    monkeypatch.setattr(ServerProcess, "program", limit + ServerProcess.program)
    server = serve(IK_SERVICE_HEADER_TIMEOUT_S="60")
    address = urllib.parse.urlsplit(server.url)
    with contextlib.ExitStack() as stack:
        connect = partial(socket.create_connection, (address.hostname, address.port), timeout=60)
        callers = [stack.enter_context(connect()) for _ in range(400)]
        assert all(map(_is_closed, callers[:390]))  # they asked for nothing, and gave way
        for caller in callers[390:]:
            caller.sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert caller.recv(12) == b"HTTP/1.1 200"
    assert "At most 10 connections are taken instead of 2048" in "\n".join(server.log)


def _is_closed(caller):
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True

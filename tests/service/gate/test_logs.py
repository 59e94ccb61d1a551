"""Logs: one line a request with its id, nothing of bodies or keys, quiet about supervisors."""

import io
import json
import logging
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from starlette.responses import PlainTextResponse

from ik_service.service.gate.logs import SELDOM_S, AccessLog, configured_logs, is_for_people
from ik_service.settings import ServiceSettings
from tests.bounded import run
from tests.service.gate.gates import ask, gate_around

KEY = "0123456789abcdef"
TERMINAL = SimpleNamespace(isatty=lambda: True)


async def application(scope, receive, send):
    logging.getLogger("ik_service.somewhere").warning("a word about %s", "it")
    if scope["path"] == "/fails":
        raise RuntimeError("inside")
    await PlainTextResponse("fine")(scope, receive, send)


def lines_of(paths, *headers, **options):
    stream = io.StringIO()
    settings = ServiceSettings(**{"log_format": "json", **options})
    with configured_logs(settings, stream):
        client = TestClient(gate_around(application, log=AccessLog(settings, stream), api_keys=f"lab:{KEY}"))
        for path in paths:
            own = {"X-Request-ID": f"id-of-{path.strip('/')}", "X-API-Key": KEY}
            client.get(path, headers=[*own.items(), *headers])
    return [line for line in stream.getvalue().splitlines() if "HTTP Request" not in line]  # of the test's client


def test_every_line_is_json_and_tells_its_request():
    lines = [json.loads(line) for line in lines_of(["/a?secret=1", "/fails"])]
    first, access, _, failure, failed = lines
    assert (first["event"], first["level"]) == ("a word about it", "warning")
    assert (access["event"], access["path"], access["status"], access["key"]) == ("request", "/a", 200, "lab")
    assert first["request_id"] == access["request_id"]
    assert "RuntimeError: inside" in failure["exception"]
    assert (failed["status"], failed["level"]) == (500, "warning")
    assert failure["request_id"] == failed["request_id"] == "id-of-fails"
    assert "secret" not in json.dumps(access)


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "given",
    [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01", f"01-{TRACE}-{PARENT}-01-more"],
    ids=["sampled", "not sampled", "later version", "later version with more fields"],
)
def test_every_line_of_a_request_names_its_trace(given):
    lines = [json.loads(line) for line in lines_of(["/a"], ("traceparent", given))]
    assert [line["event"] for line in lines] == ["a word about it", "request"]
    assert {(line["trace_id"], line["parent_id"]) for line in lines} == {(TRACE, PARENT)}


@pytest.mark.parametrize(
    "given",
    [
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-0",
        f"01-{TRACE}-{PARENT}-01more",
        f"00-{TRACE}-{PARENT}",
        f"0-{TRACE}-{PARENT}-01",
        "",
    ],
)
def test_an_invalid_trace_is_ignored(given):
    lines = lines_of(["/a"], ("traceparent", given))
    assert len(lines) == 2
    assert all("trace_id" not in line and "parent_id" not in line for line in lines)


def test_of_two_traces_none_is_taken_and_none_stays_for_the_next_request():
    trace = ("traceparent", f"00-{TRACE}-{PARENT}-01")
    assert "trace_id" not in "".join(lines_of(["/a"], trace, trace))
    stream = io.StringIO()
    gate = gate_around(application, log=AccessLog(ServiceSettings(log_format="json"), stream))
    run(both(gate, [(trace[0].encode(), trace[1].encode())], []))
    assert ["trace_id" in json.loads(line) for line in stream.getvalue().splitlines()] == [True, False]


async def both(gate, *headers):
    """Ask twice in one task, as over one connection."""
    for each in headers:
        await ask(gate, headers=each)


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_supervisors_leave_no_lines(path):
    (line,) = (line for line in lines_of([path, "/a"]) if '"request"' in line)
    assert json.loads(line)["path"] == "/a"


def test_the_level_holds_for_requests_too():
    assert lines_of(["/a"], log_level="error") == []
    assert len(lines_of(["/fails"], log_level="warning")) == 3


def test_a_terminal_gets_text_and_everything_else_json():
    settings = ServiceSettings()
    assert is_for_people(settings, TERMINAL)
    assert not is_for_people(settings, io.StringIO())
    assert is_for_people(ServiceSettings(log_format="console"), io.StringIO())
    assert not is_for_people(ServiceSettings(log_format="json"), TERMINAL)
    text = "\n".join(lines_of(["/a"], log_format="console"))
    assert "/a" in text
    assert "{" not in text


def test_of_the_server_lines_of_refused_handshakes_are_dropped_and_warnings_are_seldom(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("ik_service.service.gate.logs.time", SimpleNamespace(monotonic=lambda: now))
    stream, server = io.StringIO(), logging.getLogger("uvicorn.error")
    with configured_logs(ServiceSettings(log_format="json"), stream):
        for _ in range(100):
            server.warning("Invalid HTTP request received.")
        server.error("ASGI callable returned without completing handshake.")
        server.error("ASGI callable should return None, but returned '%s'.", 5)
        now += SELDOM_S
        server.warning("Invalid HTTP request received.")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "Invalid HTTP request received.",
        "ASGI callable should return None, but returned '5'.",
        "Invalid HTTP request received.",
    ]
    assert not server.filters


def test_logging_is_as_before_afterwards():
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("uvicorn").level
    lines_of(["/a"])
    assert (root.handlers, root.level, logging.getLogger("uvicorn").level) == before


def test_a_log_that_cannot_be_written_is_no_error_of_the_request():
    stream = io.StringIO()
    log = AccessLog(ServiceSettings(log_format="json"), stream)
    stream.close()
    client = TestClient(gate_around(application, log=log))
    assert client.get("/a").status_code == 200


def test_a_path_does_not_control_the_terminal_of_who_reads_the_log():
    text = "\n".join(lines_of(["/a%00%1b[2J%C2%9b31m%E2%80%AEb"], log_format="console"))
    assert r"/a\x00\x1b[2J\x9b31m\u202eb" in text
    assert all(character.isprintable() or character == "\n" for character in text)

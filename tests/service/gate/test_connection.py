"""The server on a real socket: slow, large and broken requests end, with a problem document where there can be one."""

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
import uvloop

from ik_service.service.gate.connection import EXTRA_MOST, PIPELINED_MOST, AnswerTransport, ConnectionSlots
from ik_service.service.gate.gate import CONTEXT, RequestContext
from ik_service.settings import ServiceSettings
from tests.attacks.frames import rest
from tests.bounded import until
from tests.service.gate.gates import KEYS, PATIENCE_S, api_keys, gate_around, real_server

SETTINGS = ServiceSettings(
    max_header_bytes=2048,
    max_body_bytes=100_000,
    max_connections=8,
    header_timeout_s=0.3,
    body_timeout_s=0.5,
    answer_timeout_s=0.5,
    keep_alive_s=1.0,
)
PIECES, PIECE_BYTES, NO_CODING = 4000, 100_000, (501, "not_implemented")
GATE = gate_around(None, api_keys=api_keys(*KEYS))
EARLY = b"GET /early HTTP/1.1\r\nHost: a\r\n\r\n"
HEALTH = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"


def post(path, fields, body=b""):
    return b"POST /%b HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (path, fields, body)


async def application(scope, receive, send):
    """Answers /early at once, /large and /pieces with much; all else after the body, /later late, x-late longer."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/pieces":
        await send({"type": "http.response.start", "status": 200})
        for _ in range(PIECES):
            await send({"type": "http.response.body", "body": bytes(PIECE_BYTES), "more_body": True})
        return
    scope[CONTEXT] = RequestContext(GATE, scope, receive, send)
    size = 10_000_000 if scope["path"] == "/large" else 2
    more = scope["path"] != "/early"
    while more:
        more = (await receive()).get("more_body", False)
    if scope["path"] == "/later":
        await asyncio.sleep(0.2)
    if (b"x-late", b"1") in scope["headers"]:
        size = 5
    length = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.fixture(scope="module")
def server():
    with real_server(application, SETTINGS) as running:
        yield running


@pytest.fixture
def connect(server):
    opened = []

    def open_one(data=b""):
        """A connection on which some bytes are sent."""
        opened.append(socket.create_connection(server[1], timeout=PATIENCE_S))
        opened[-1].sendall(data)
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()
    until(lambda: not server[0].server_state.connections, PATIENCE_S)


def answer(connection):
    """The short answer to one request."""
    data = b""
    while not data.endswith(b"\r\n\r\nxx"):
        chunk = connection.recv(65536)
        assert chunk, data
        data += chunk
    return data


def problem(data):
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    return int(head.split()[1]), json.loads(body)["code"]


@pytest.mark.parametrize("pieces", [1, 20])
@pytest.mark.parametrize("field", ["GET /%b HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nX-Long: %b\r\n\r\n"])
def test_too_large_headers_are_431(connect, pieces, field):
    data = field.encode() % (b"a" * 5000)
    connection = connect()
    step = len(data) // pieces
    try:
        for start in range(0, len(data), step):
            connection.sendall(data[start : start + step])
            time.sleep(0.002)
        found = rest(connection)
    except (BrokenPipeError, ConnectionResetError):
        found = b""
    if pieces == 1 or found:  # else it may be cut off before all is sent
        assert problem(found) == (431, "headers_too_large")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", (408, "request_timeout")),
        (EARLY + b"GET / HT", (408, "request_timeout")),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"a" * SETTINGS.max_header_bytes, (431, "headers_too_large")),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS\r\n\r\n", (400, "bad_request")),
        (post(b"early", b"Host: a"), (400, "bad_request")),
        (post(b"early", b"Host: b"), (400, "bad_request")),
        (post(b"early", b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"), NO_CODING),
        (post(b"early", b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), NO_CODING),
    ],
    ids=["nothing", "drops", "drops later", "no end", "no HTTP", "two hosts", "other hosts", "coding", "codings"],
)
def test_headers_that_are_slow_large_or_ambiguous_are_refused(connect, data, expected):
    connection = connect(data)
    if data.startswith(EARLY):
        assert answer(connection).startswith(b"HTTP/1.1 200")
    found = rest(connection)
    assert (problem(found) if found else None) == expected


def test_a_body_that_goes_on_after_the_answer_is_cut_off(connect):
    connection = connect(post(b"early", b"Content-Length: 90000", b"xx"))
    assert answer(connection).startswith(b"HTTP/1.1 200")

    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(int(PATIENCE_S / 0.01)):
            connection.sendall(b"x")
            time.sleep(0.01)
        raise AssertionError("it is still open")


def test_a_body_that_ends_after_the_answer_leaves_the_connection_good_and_idle_for_as_long_as_any(connect):
    connection = connect(post(b"early", b"Content-Length: 4", b"xx"))
    assert answer(connection).startswith(b"HTTP/1.1 200")
    connection.sendall(b"xx" + EARLY)
    assert answer(connection).startswith(b"HTTP/1.1 200")
    connection.sendall(post(b"early", b"Content-Length: 4", b"xx"))
    assert answer(connection).startswith(b"HTTP/1.1 200")
    connection.sendall(b"xx")
    began = time.monotonic()
    assert rest(connection) == b""  # an idle one is closed, and not by the time of the body
    assert time.monotonic() - began > SETTINGS.body_timeout_s + 0.2


@pytest.mark.parametrize(("rate", "is_read"), [(1.0, False), (1e6, True)])  # rests of hours, and of 50 ms
def test_a_body_that_is_discarded_rests_as_one_that_is_read(server, connect, monkeypatch, caplog, rate, is_read):
    monkeypatch.setattr("ik_service.service.gate.gate.BODY_RATE", rate)
    monkeypatch.setattr("ik_service.service.gate.gate.AHEAD_S", 0.0)
    monkeypatch.setattr(GATE, "read_until", {})
    connection = connect(post(b"early", b"Content-Length: 50000"))
    assert answer(connection).startswith(b"HTTP/1.1 200")
    (taken,) = server[0].server_state.connections
    connection.sendall(b"x" * 1000)
    until(lambda: GATE.read_until if is_read else taken.flow.read_paused, PATIENCE_S)
    connection.sendall(b"x" * 49_000 + EARLY)
    if is_read:
        assert answer(connection).startswith(b"HTTP/1.1 200")
    assert rest(connection) == b""  # one that rests for too long is cut off
    assert not caplog.records


def test_a_caller_who_does_not_take_the_answer_is_cut_off(server, connect):
    connection = connect(EARLY.replace(b"early", b"large"))
    until(lambda: server[0].server_state.connections, PATIENCE_S)
    until(lambda: not server[0].server_state.connections, PATIENCE_S)
    assert len(rest(connection)) < 10_000_000


@pytest.fixture
def fill(server, connect):
    """Opens as many connections as are allowed; each is known to be open, and if busy to have a request under way."""

    def fill(*, busy):
        held = [connect(EARLY) for _ in range(SETTINGS.max_connections)]
        for connection in held:
            assert answer(connection).startswith(b"HTTP/1.1 200")
            if busy:
                connection.sendall(post(b"late", b"Content-Length: 2"))
        until(lambda: not busy or len(server[0].server_state.tasks) == len(held), PATIENCE_S)
        return held

    return fill


def test_the_connection_that_is_idle_for_longest_gives_way_to_a_new_one(connect, fill):
    first, second, *_ = fill(busy=False)
    assert answer(connect(EARLY)).startswith(b"HTTP/1.1 200")
    assert rest(first) == b""
    second.sendall(EARLY)
    assert answer(second).startswith(b"HTTP/1.1 200")


def test_where_all_connections_are_busy_health_is_answered_and_all_else_is_503(connect, fill):
    fill(busy=True)
    for data in (HEALTH, HEALTH.replace(b"GET", b"HEAD")):
        reply = rest(connect(data))
        assert reply.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in reply
    for data in (EARLY, b""):
        refused = rest(connect(data))
        assert problem(refused) == (503, "unavailable")
        assert b"retry-after: " in refused


def test_an_extra_connection_is_closed_for_the_next(connect, fill):
    fill(busy=True)
    extra = [connect() for _ in range(EXTRA_MOST + 1)]
    assert rest(connect(HEALTH)).startswith(b"HTTP/1.1 200")
    assert rest(extra[0]) == b""


def test_who_has_shown_no_key_gives_way_first_but_for_some_and_then_who_keeps_most():
    closed, slots = [], ConnectionSlots(8)
    for owner, name in [("a", "a1"), ("a", "a2"), ("b", "b1"), (None, "n1"), ("a", "a3"), (None, "n2")]:
        slots.idle[owner][type("Connection", (), {"close_now": partial(closed.append, name)})] = None
    while slots.make_room():
        pass
    assert closed == ["n1", "a1", "a2", "a3", "b1", "n2"]


def chunked(connect, body, coding=b"chunked"):
    connection = connect(post(b"late", b"Transfer-Encoding: " + coding))
    try:
        connection.sendall(body)
    except (BrokenPipeError, ConnectionResetError):
        return b""  # cut off before all was sent
    return connection


@pytest.mark.parametrize(
    "body",
    [
        b"2;" + b"x" * 100_000 + b"\r\nab\r\n0\r\n\r\n",
        b"2\r\nab\r\n0\r\n" + b"".join(b"X-Field-%d: x\r\n" % k for k in range(10_000)) + b"\r\n",
    ],
    ids=["extension", "trailers"],
)
def test_chunks_with_much_around_them_are_refused(connect, body):
    connection = chunked(connect, body)
    found = connection and rest(connection)
    assert not found or problem(found) == (400, "bad_request")


@pytest.mark.parametrize(
    ("coding", "body"),
    [(b"chunked", b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"), (b"Chunked", b"1\r\nx\r\n0\r\nX-Late: 1\r\n\r\n")],
    ids=["small", "with a trailer, which is no header"],
)
def test_chunks_are_taken(connect, coding, body):
    assert answer(chunked(connect, body, coding)).endswith(b"\r\n\r\nxx")


@pytest.mark.parametrize(("sent", "end"), [(b"xx", b"\r\n\r\nxx"), (b"x", b"")], ids=["whole", "half"])
def test_who_sends_no_more_still_gets_the_answer_to_a_whole_request(connect, monkeypatch, sent, end):
    monkeypatch.setattr("ik_service.service.gate.connection.HALF_CLOSED_S", 2 * PATIENCE_S)
    connection = connect(post(b"later", b"Content-Length: 2", sent))
    connection.shutdown(socket.SHUT_WR)
    found = rest(connection)
    assert found.endswith(end)
    assert bool(found) == bool(end)


def test_a_caller_who_takes_an_answer_in_drops_is_cut_off(connect):
    connection = connect(EARLY.replace(b"early", b"pieces"))
    taken, deadline = 0, time.monotonic() + PATIENCE_S
    with contextlib.suppress(ConnectionResetError):
        while (chunk := connection.recv(100_000)) and time.monotonic() < deadline:
            taken += len(chunk)
            time.sleep(0.02)
    assert 0 < taken < PIECES * PIECE_BYTES
    assert time.monotonic() < deadline


class Slow:
    """Answers a request once told to, or once the caller has gone."""

    def __init__(self):
        self.may_answer, self.begun, self.ended = threading.Event(), 0, 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        self.begun += 1
        await receive()
        gone = asyncio.ensure_future(receive())
        while not gone.done() and not self.may_answer.is_set():
            await asyncio.sleep(0.001)
        gone.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"xx"})
        self.ended += 1


@pytest.mark.parametrize("requests", [2, PIPELINED_MOST + 2], ids=["gone", "too many"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_request_that_is_answered_learns_that_its_connection_has_ended(run, requests, caplog):
    application = Slow()
    with real_server(application, ServiceSettings(), run) as (server, address):
        with socket.create_connection(address, timeout=PATIENCE_S) as connection:
            connection.sendall(requests * EARLY)
            until(lambda: application.begun, PATIENCE_S)
            if requests > PIPELINED_MOST:
                assert rest(connection) == b""
        until(lambda: application.ended and not server.server_state.connections, PATIENCE_S)
    assert (application.begun, application.ended) == (1, 1)
    assert not [line for line in caplog.records if line.levelno > logging.WARNING]


def test_as_many_requests_as_allowed_are_answered_in_their_order():
    application = Slow()
    application.may_answer.set()
    with real_server(application, ServiceSettings()) as (_, address), socket.create_connection(address) as connection:
        connection.settimeout(PATIENCE_S)
        connection.sendall((PIPELINED_MOST + 1) * EARLY)
        data = b""
        while data.count(b"\r\n\r\nxx") < PIPELINED_MOST + 1:
            chunk = connection.recv(65536)
            assert chunk
            data += chunk
    assert application.ended == PIPELINED_MOST + 1


@pytest.mark.parametrize(
    ("parts", "packets"),
    [([b"body"], [b"headers" + b"body"]), ([b"one", b"two"], [b"headers" + b"one", b"two"]), ([], [b"headers"])],
)
def test_headers_of_an_answer_leave_with_the_first_part_of_its_body(parts, packets):
    sent = []
    real = SimpleNamespace(write=sent.append, is_closing=bool, close=lambda: sent.append("closed"))
    cycle = SimpleNamespace(transport=real, response_started=False, more_body=False)
    answer = AnswerTransport(cycle)
    answer.write(b"100 Continue")
    assert sent == [b"100 Continue"]  # a caller waits for it before the body
    cycle.response_started = True
    answer.write(b"headers")
    assert len(sent) == 1
    for part in parts:
        answer.write(part)
    answer.close()
    assert sent == [b"100 Continue", *packets, "closed"]

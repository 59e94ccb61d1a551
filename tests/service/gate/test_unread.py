"""Requests that are answered unread, on a real socket: the answer is whole, and the connection good where it can be."""

import select
import socket
from contextlib import ExitStack

import pytest

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import DISCARDED_BYTES_MAX
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError
from ik_service.settings import ServiceSettings
from tests.attacks.frames import rest
from tests.bounded import until
from tests.service.gate.gates import PATIENCE_S, Answer, Pool, gate_around, real_server, whole_body

SETTINGS = ServiceSettings(body_timeout_s=2.0, keep_alive_s=20.0)
PATH = "/v1/robots/panda/solve"
SOLVE = f"POST {PATH}?seeds=3 HTTP/1.1\r\nHost: a\r\n".encode()
WITH_BODY = SOLVE + b"Content-Length: 4\r\n\r\nbody"
FULL = QueueFullError("full", "wait", 7)


@pytest.fixture(scope="module")
def server():
    admission = Admission(10.0)
    gate = gate_around(whole_body, admission=admission, cors_origins="https://lab.example")
    with real_server(gate, SETTINGS) as (_, address):
        yield gate.metrics, admission, address


@pytest.fixture
def record(server):
    record = server[0]
    for noted in (record.reasons, record.answers, record.lines):
        noted.clear()
    return record


@pytest.fixture
def pool(server):
    server[1].pool = Pool(FULL)
    return server[1].pool


@pytest.fixture
def connection(server):
    with socket.create_connection(server[2], timeout=PATIENCE_S) as opened:
        yield opened


def answer(connection, data=b""):
    """The next answer; its length is what its headers say."""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(1)
        assert chunk, data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < size:
        body += connection.recv(size - len(body))
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return Answer(int(head.split()[1]), fields, body)


@pytest.mark.parametrize(
    ("error", "reason", "status", "code", "detail", "later"),
    [
        (FULL, "wait", 503, "queue_full", "More is asked than can be answered in time.", b"7"),
        (ShareExhaustedError("s", 3), "share", 429, "share_exhausted", "Your API key has its share", b"3"),
        (ExpiredError("late"), "deadline", 504, "deadline_passed", "The deadline passed before", None),
    ],
    ids=["full", "share", "deadline"],
)
def test_a_refused_request_gets_a_whole_document(pool, record, connection, error, reason, status, code, detail, later):
    pool.error = error
    connection.sendall(SOLVE + b"X-Request-ID: my-own\r\nOrigin: https://lab.example\r\nContent-Length: 4\r\n\r\nbody")
    found = answer(connection)
    assert found.code == (status, code)
    assert found.document["detail"].startswith(detail)
    assert found.document["request_id"] == "my-own"
    assert found.headers[b"x-content-type-options"] == b"nosniff"
    assert found.headers.get(b"retry-after") == later
    assert found.headers[b"access-control-allow-origin"] == b"https://lab.example"  # a page sees the refusal
    assert b"date" in found.headers
    assert b"connection" not in found.headers
    until(lambda: record.answers)
    assert (record.reasons, record.answers, record.lines) == ([reason], [(PATH, status, True)], [])


def test_the_connection_stays_good_after_refusals(pool, connection):
    for _ in range(5):
        pool.error = FULL
        for _ in range(3):
            connection.sendall(WITH_BODY)
            assert answer(connection).status == 503
        pool.error = None
        connection.sendall(WITH_BODY)
        assert answer(connection).body == b"body"


@pytest.mark.parametrize("comes", [True, False])
def test_the_answer_comes_before_the_body_which_is_thrown_away_and_awaited_for_a_while(pool, connection, comes):
    connection.sendall(SOLVE + b"Content-Length: 100000\r\n\r\nxx")
    assert answer(connection).status == 503
    if comes:
        pool.error = None
        connection.sendall(b"x" * 99_998 + WITH_BODY)
        assert answer(connection).body == b"body"
    else:
        assert rest(connection) == b""


@pytest.mark.parametrize(
    "field",
    [
        b"Content-Length: %d" % (DISCARDED_BYTES_MAX + 1),
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue\r\nContent-Length: 4",
        b"Connection: close\r\nContent-Length: 4",
    ],
    ids=["large", "of unknown length", "only on demand", "the last"],
)
def test_the_connection_ends_where_the_body_may_be_long_or_may_not_come_or_was_the_last(pool, connection, field):
    connection.sendall(SOLVE + field + b"\r\n\r\n")
    found = answer(connection)
    assert (found.status, found.headers[b"connection"]) == (503, b"close")
    assert rest(connection) == b""


def test_a_caller_who_sends_its_body_before_it_reads_gets_the_refusal_and_then_the_end(monkeypatch):
    monkeypatch.setattr("ik_service.service.gate.connection.HALF_CLOSED_S", 0.5)
    admission = Admission(10.0)
    admission.pool, size = Pool(FULL), 8 * 2**20
    with ExitStack() as stack:
        running, address = stack.enter_context(real_server(gate_around(whole_body, admission=admission), SETTINGS))
        caller = stack.enter_context(socket.create_connection(address, timeout=PATIENCE_S))
        caller.sendall(SOLVE + b"Content-Length: %d\r\n\r\n" % size)
        until(lambda: select.select([caller], [], [], 0)[0])  # the answer has been sent
        caller.sendall(b"x" * (size // 2))  # a connection that is reset takes no more
        found = answer(caller)
        assert (found.code, found.headers[b"connection"]) == ((503, "queue_full"), b"close")
        assert rest(caller) == b""
        until(lambda: not running.server_state.connections)  # also where the caller neither sends nor closes


def test_answers_keep_the_order_of_requests_that_come_together(pool, connection):
    connection.sendall(WITH_BODY + b"GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n" + WITH_BODY + WITH_BODY)
    assert [answer(connection).status for _ in range(4)] == [503, 200, 503, 503]


def test_other_requests_are_let_through_and_the_application_says_itself_that_the_service_ends(pool, connection):
    for line in (b"GET /v1/robots/panda/solve", b"POST /v1/robots/panda/forward", b"GET /health/ready"):
        connection.sendall(line + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
        assert answer(connection).status == 200
    pool.error = ClosedError("The service is shutting down.")
    connection.sendall(WITH_BODY)
    assert answer(connection).status == 200

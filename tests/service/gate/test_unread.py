"""Requests that are answered unread, on a real socket: the answer is whole, and the connection good where it can be."""

import json
import socket

import pytest

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import DISCARDED_BYTES_MAX
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError
from ik_service.settings import ServiceSettings
from tests.service.gate.gates import PATIENCE_S, gate_around, real_server

SETTINGS = ServiceSettings(body_timeout_s=2.0, keep_alive_s=20.0)
PATH = "/v1/robots/panda/solve"
SOLVE = f"POST {PATH}?seeds=3 HTTP/1.1\r\nHost: a\r\n".encode()
WITH_BODY = SOLVE + b"Content-Length: 4\r\n\r\nbody"
FULL = QueueFullError("full", "wait", 7)


class Pool:
    """Raises what a test wants."""

    error: Exception | None = None

    def require_room(self, expected, *, timeout_s, lag_s):
        if self.error is not None:
            raise self.error


class Application:
    """Answers with its number of requests so far, once it has read the body."""

    def __init__(self):
        self.pool, self.count = Pool(), 0
        admission = Admission(10.0)
        admission.pool = self.pool
        self.gate = gate_around(self, admission=admission, cors_origins="https://lab.example")
        self.record = self.gate.metrics

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        more = True
        while more:
            more = (await receive()).get("more_body", False)
        self.count += 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": b"%06d" % self.count})


@pytest.fixture(scope="module")
def server():
    application = Application()
    with real_server(application.gate, SETTINGS) as (_, address):
        yield application, address


@pytest.fixture
def application(server):
    found = server[0]
    found.pool.error, found.count = FULL, 0
    for noted in (found.record.reasons, found.record.answers, found.record.lines):
        noted.clear()
    return found


@pytest.fixture
def connection(server):
    with socket.create_connection(server[1], timeout=PATIENCE_S) as opened:
        yield opened


class Answer:
    def __init__(self, head, body):
        lines = head.decode().split("\r\n")
        self.status, self.headers = int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:])
        self.document = json.loads(body) if self.status >= 400 else None


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
    return Answer(head, body)


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    ("error", "reason", "status", "code", "detail", "retry_after"),
    [
        (FULL, "wait", 503, "queue_full", "More is asked than can be answered in time.", "7"),
        (ShareExhaustedError("s", 3), "share", 429, "share_exhausted", "Your API key has its share", "3"),
        (ExpiredError("late"), "deadline", 504, "deadline_passed", "The deadline passed before", None),
    ],
    ids=["full", "share", "deadline"],
)
def test_a_refused_request_gets_a_whole_problem_document(
    application, connection, error, reason, status, code, detail, retry_after
):
    application.pool.error = error
    connection.sendall(SOLVE + b"X-Request-ID: my-own\r\nOrigin: https://lab.example\r\nContent-Length: 4\r\n\r\nbody")
    found = answer(connection)
    assert (found.status, found.document["status"], found.document["code"]) == (status, status, code)
    assert found.document["detail"].startswith(detail)
    assert found.headers["content-type"] == "application/problem+json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers.get("retry-after") == retry_after
    assert found.headers["x-request-id"] == found.document["request_id"] == "my-own"
    assert found.headers["access-control-allow-origin"] == "https://lab.example"  # a page sees the refusal
    assert "date" in found.headers
    assert "connection" not in found.headers
    assert (application.count, application.record.reasons) == (0, [reason])
    assert (application.record.answers, application.record.lines) == ([(PATH, status, True)], [])


def test_every_refusal_has_an_id_of_its_own(application, connection):
    ids = []
    for given in (b"", b"", b"X-Request-ID: not sane\r\n"):
        connection.sendall(SOLVE + given + b"Content-Length: 0\r\n\r\n")
        found = answer(connection)
        assert found.headers["x-request-id"] == found.document["request_id"]
        ids.append(found.document["request_id"])
    assert len(set(ids)) == 3
    assert "not sane" not in ids


def test_the_connection_stays_good_after_refusals(application, connection):
    for _ in range(5):
        application.pool.error = FULL
        for _ in range(3):
            connection.sendall(WITH_BODY)
            assert answer(connection).status == 503
        application.pool.error = None
        connection.sendall(WITH_BODY)
        assert answer(connection).status == 200
    assert application.count == 5


def test_the_answer_comes_before_the_body_and_the_rest_of_it_is_thrown_away(application, connection):
    connection.sendall(SOLVE + b"Content-Length: 100000\r\n\r\n")
    assert answer(connection).status == 503
    application.pool.error = None
    for _ in range(100):
        connection.sendall(b"x" * 1000)
    connection.sendall(WITH_BODY)
    assert answer(connection).status == 200
    assert application.count == 1


def test_a_body_that_does_not_come_after_a_refusal_ends_the_connection(application, connection):
    connection.sendall(SOLVE + b"Content-Length: 1000\r\n\r\nxx")
    assert answer(connection).status == 503
    assert is_closed(connection)


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
def test_the_connection_ends_where_the_body_may_be_long_or_may_not_come_or_was_the_last(application, connection, field):
    connection.sendall(SOLVE + field + b"\r\n\r\n")
    found = answer(connection)
    assert found.status == 503
    assert found.headers["connection"] == "close"
    assert is_closed(connection)


def test_answers_keep_the_order_of_requests_that_come_together(application, connection):
    connection.sendall(WITH_BODY + b"GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n" + WITH_BODY + WITH_BODY)
    assert [answer(connection).status for _ in range(4)] == [503, 200, 503, 503]


@pytest.mark.parametrize(
    "line", [b"GET /v1/robots/panda/solve", b"POST /v1/robots/panda/forward", b"GET /health/ready"]
)
def test_other_requests_are_let_through(application, connection, line):
    connection.sendall(line + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
    assert answer(connection).status == 200


def test_the_application_says_itself_that_the_service_ends(application, connection):
    application.pool.error = ClosedError("The service is shutting down.")
    connection.sendall(WITH_BODY)
    assert answer(connection).status == 200

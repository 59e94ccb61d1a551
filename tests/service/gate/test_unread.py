"""Requests that are answered unread, on a real socket: the answer is whole, and the connection good where it can be."""

import json
import socket

import pytest

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import DISCARDED_BYTES_MAX
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError
from ik_service.settings import ServiceSettings
from tests.service.gate.gates import Record, gate_around
from tests.service.gate.real_server import PATIENCE_S, real_server

SETTINGS = ServiceSettings(body_timeout_s=2.0, keep_alive_s=20.0)
SOLVE = b"POST /v1/robots/panda/solve?seeds=3 HTTP/1.1\r\nHost: a\r\n"
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
        self.admission = Admission(10.0, Record())
        self.admission.pool = Pool()
        self.count = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        more = True
        while more:
            more = (await receive()).get("more_body", False)
        self.count += 1
        body = b"%06d" % self.count
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def server():
    application = Application()
    app = gate_around(application, admission=application.admission)
    with real_server(app, SETTINGS) as (running, address):
        yield application, running, address


@pytest.fixture
def application(server):
    found = server[0]
    found.admission.pool.error = None
    found.admission.observer = Record()
    found.count = 0
    return found


@pytest.fixture
def connection(server):
    with socket.create_connection(server[2], timeout=PATIENCE_S) as opened:
        yield opened


class Answer:
    def __init__(self, head, body):
        lines = head.decode().split("\r\n")
        self.status, self.body = int(lines[0].split()[1]), body
        self.headers = dict(line.split(": ", 1) for line in lines[1:])

    @property
    def document(self):
        return json.loads(self.body)


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


def test_a_refused_request_gets_a_whole_problem_document(application, connection):
    application.admission.pool.error = FULL
    connection.sendall(SOLVE + b"X-Request-ID: my-own\r\nContent-Length: 4\r\n\r\nbody")
    found = answer(connection)
    assert found.status == 503
    assert found.headers["content-type"] == "application/problem+json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["retry-after"] == "7"
    assert found.headers["x-request-id"] == found.document["request_id"] == "my-own"
    assert "date" in found.headers
    assert "connection" not in found.headers
    assert (found.document["code"], found.document["status"]) == ("queue_full", 503)
    assert (application.count, application.admission.observer.statuses) == (0, [503])
    assert application.admission.observer.reasons == ["wait"]


def test_who_has_its_share_already_is_429_unread(application, connection):
    application.admission.pool.error = ShareExhaustedError("share", 3)
    connection.sendall(SOLVE + b"Content-Length: 4\r\n\r\nbody")
    found = answer(connection)
    assert (found.status, found.document["code"], found.document["status"]) == (429, "share_exhausted", 429)
    assert found.headers["retry-after"] == "3"
    assert application.admission.observer.reasons == ["share"]


def test_a_request_past_its_deadline_is_504_unread(application, connection):
    application.admission.pool.error = ExpiredError("late")
    connection.sendall(SOLVE + b"Prefer: wait=0\r\nContent-Length: 4\r\n\r\nbody")
    found = answer(connection)
    assert (found.status, found.document["code"]) == (504, "deadline_passed")
    assert "retry-after" not in found.headers
    assert application.admission.observer.reasons == ["deadline"]


def test_every_refusal_has_an_id_of_its_own(application, connection):
    application.admission.pool.error = FULL
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
        application.admission.pool.error = FULL
        for _ in range(3):
            connection.sendall(SOLVE + b"Content-Length: 4\r\n\r\nbody")
            assert answer(connection).status == 503
        application.admission.pool.error = None
        connection.sendall(SOLVE + b"Content-Length: 4\r\n\r\nbody")
        assert answer(connection).status == 200
    assert application.count == 5


def test_the_answer_comes_before_the_body_and_the_rest_of_it_is_thrown_away(application, connection):
    application.admission.pool.error = FULL
    connection.sendall(SOLVE + b"Content-Length: 100000\r\n\r\n")
    assert answer(connection).status == 503
    application.admission.pool.error = None
    for _ in range(100):
        connection.sendall(b"x" * 1000)
    connection.sendall(SOLVE + b"Content-Length: 4\r\n\r\nbody")
    assert answer(connection).status == 200
    assert application.count == 1


def test_a_body_that_does_not_come_after_a_refusal_ends_the_connection(application, connection):
    application.admission.pool.error = FULL
    connection.sendall(SOLVE + b"Content-Length: 1000\r\n\r\nxx")
    assert answer(connection).status == 503
    assert is_closed(connection)


@pytest.mark.parametrize(
    "field",
    [
        b"Content-Length: %d" % (DISCARDED_BYTES_MAX + 1),
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue\r\nContent-Length: 4",
    ],
    ids=["large", "of unknown length", "only on demand"],
)
def test_the_connection_ends_where_the_body_may_be_long_or_may_not_come(application, connection, field):
    application.admission.pool.error = FULL
    connection.sendall(SOLVE + field + b"\r\n\r\n")
    found = answer(connection)
    assert found.status == 503
    assert found.headers["connection"] == "close"
    assert is_closed(connection)


def test_a_caller_who_wants_no_more_answers_gets_none(application, connection):
    application.admission.pool.error = FULL
    connection.sendall(SOLVE + b"Connection: close\r\nContent-Length: 4\r\n\r\nbody")
    assert answer(connection).headers["connection"] == "close"
    assert is_closed(connection)


def test_answers_keep_the_order_of_requests_that_come_together(application, connection):
    application.admission.pool.error = FULL
    one = SOLVE + b"Content-Length: 4\r\n\r\nbody"
    connection.sendall(one + b"GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n" + one + one)
    assert [answer(connection).status for _ in range(4)] == [503, 200, 503, 503]


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/robots/panda/solve HTTP/1.1\r\nHost: a\r\n",
        b"POST /v1/robots/panda/forward HTTP/1.1\r\nHost: a\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: a\r\n",
        SOLVE + b"Origin: https://lab.example\r\n",  # of a page, which needs the headers of the application
    ],
)
def test_other_requests_are_let_through(application, connection, head):
    application.admission.pool.error = FULL
    connection.sendall(head + b"Content-Length: 4\r\n\r\nbody")
    assert answer(connection).status == 200


def test_the_application_says_itself_that_the_service_ends(application, connection):
    application.admission.pool.error = ClosedError("The service is shutting down.")
    connection.sendall(SOLVE + b"Content-Length: 4\r\n\r\nbody")
    assert answer(connection).status == 200

"""Whatever happens behind, the caller gets a problem document or a whole answer, with the id of the request."""

import asyncio
import json
import logging

import pytest
from fastapi.testclient import TestClient
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse

from tests.bounded import run
from tests.service.gate.gates import KEYS, gate_around


class Observer:
    def __init__(self):
        self.seen, self.open = [], 0

    def began(self):
        self.open += 1

    def answered(self, scope, request_id, status, seconds):
        self.seen.append((scope["path"], request_id, status))
        assert 0.0 < seconds < 60.0
        self.open -= 1
        assert self.open == 0


def front_door(app, *, draining=False):
    observer = Observer()
    return TestClient(gate_around(app, observers=[observer], draining=draining)), observer


async def ok(scope, receive, send):
    await PlainTextResponse("fine")(scope, receive, send)


def raising(error):
    async def app(scope, receive, send):
        raise error

    return app


def answering(status, **headers):
    async def app(scope, receive, send):
        await PlainTextResponse("as the framework says it", status, headers=headers)(scope, receive, send)

    return app


def test_a_sane_request_id_is_kept_and_any_other_replaced():
    client, observer = front_door(ok)
    assert client.get("/a", headers={"X-Request-ID": "trace-1:/a"}).headers["x-request-id"] == "trace-1:/a"
    made = [client.get("/b", headers=h).headers["x-request-id"] for h in ({}, {"X-Request-ID": "a b"})]
    made.append(client.get("/b", headers={"X-Request-ID": "x" * 129}).headers["x-request-id"])
    assert len(set(made)) == 3
    assert all(len(own) == 16 for own in made)
    assert [own for _, own, _ in observer.seen] == ["trace-1:/a", *made]


def test_an_error_raised_in_a_layer_is_a_problem_document_without_its_text(caplog):
    client, observer = front_door(raising(RuntimeError("/srv/secret.py")))
    with caplog.at_level(logging.ERROR):
        reply = client.get("/x")
    assert (reply.status_code, reply.json()["code"]) == (500, "internal_error")
    assert reply.headers["content-type"] == "application/problem+json"
    assert "secret" not in reply.text
    assert reply.json()["request_id"] == reply.headers["x-request-id"]
    assert "secret" in caplog.text  # the log has it
    assert observer.seen[0][2] == 500


@pytest.mark.parametrize(
    ("status", "code"), [(400, "bad_request"), (413, "body_too_large"), (404, "not_found"), (418, "http_418")]
)
def test_errors_in_another_form_are_turned_into_problem_documents(status, code):
    client, _ = front_door(answering(status, vary="Origin"))
    reply = client.get("/x")
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert reply.headers["content-type"] == "application/problem+json"
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert reply.headers["vary"] == "Origin"
    assert "framework" not in reply.text


def test_half_an_answer_does_not_become_a_whole_one():
    async def breaks_off(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("off")

    client, observer = front_door(breaks_off)
    with pytest.raises(RuntimeError):
        client.get("/x")
    assert observer.seen[0][2] == 200


def test_a_caller_who_goes_is_no_fault(caplog):
    _, observer = front_door(ok)

    async def send(message):
        raise AssertionError(message)

    door = gate_around(raising(ClientDisconnect()), observers=[observer])
    asyncio.run(door({"type": "http", "method": "GET", "path": "/x", "headers": []}, None, send))
    assert observer.seen[0][2] == 499
    assert not caplog.records


def test_what_is_cut_off_at_the_end_of_the_drain_is_told_to_come_back():
    client, _ = front_door(raising(asyncio.CancelledError()), draining=True)
    reply = client.get("/x")
    assert (reply.status_code, reply.json()["code"]) == (503, "shutting_down")
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.headers["connection"] == "close"


def test_connections_close_while_draining():
    assert "connection" not in front_door(ok)[0].get("/x").headers
    assert front_door(ok, draining=True)[0].get("/x").headers["connection"] == "close"


def body_messages(*chunks):
    waiting = [{"type": "http.request", "body": c, "more_body": k + 1 < len(chunks)} for k, c in enumerate(chunks)]

    async def receive():
        if waiting and waiting[0]["body"] is not None:
            return waiting.pop(0)
        return await asyncio.Event().wait()  # for ever

    return receive


async def whole_body(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    await PlainTextResponse(body)(scope, receive, send)


def answer_of(gate, receive, headers=()):
    """Status and body of the answer to a request whose body comes as told."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": list(headers)}
    run(gate(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


SHARED = {"api_keys": ",".join(f"{name}:{key}" for name, key in KEYS.items())}
FLOOD = (b"x-api-key", KEYS["flood"].encode())


def test_a_body_that_fills_the_memory_of_all_is_refused_and_gives_back_what_it_held():
    gate = gate_around(whole_body, memory_bytes=2**20, **SHARED)
    chunks = [b"a" * 70_000] * 8
    status, _, body = answer_of(gate, body_messages(*chunks), [FLOOD])
    assert (status, json.loads(body)["code"]) == (429, "share_exhausted")
    assert (gate.memory.cap.used, gate._admission.observer.reasons) == (0, ["share"])
    status, _, body = answer_of(gate, body_messages(*chunks[1:]), [FLOOD])
    assert (status, len(body)) == (200, 490_000)
    assert gate.memory.cap.used == 0


def test_a_long_body_rests_before_more_of_it_is_read(monkeypatch):
    monkeypatch.setattr("ik_service.service.gate.request_context.BODY_RATE", 1.0)
    taken = []

    async def counting(scope, receive, send):
        while (await receive())["more_body"]:
            taken.append(1)

    async def ask():
        receive, gate = body_messages(*4 * [b"a" * 60_000]), gate_around(counting, **SHARED)
        scope = {"type": "http", "method": "POST", "path": "/x", "headers": [FLOOD]}
        reading = asyncio.create_task(gate(scope, receive, None))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not reading.done()
        assert gate.memory.cap.used == 120_000
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert gate.memory.cap.used == 0

    run(ask())
    assert len(taken) == 1  # what is not counted yet; the second part rests


def bounded(max_bytes, **options):
    return gate_around(whole_body, max_body_bytes=max_bytes, **options)


def test_a_body_within_its_bounds_comes_through():
    status, _, body = answer_of(bounded(2000), body_messages(b"a" * 800, b"b" * 1200))
    assert (status, body) == (200, b"a" * 800 + b"b" * 1200)


def test_a_body_that_stops_coming_is_408_and_ends_the_connection():
    status, headers, body = answer_of(bounded(2000, body_timeout_s=0.05), body_messages(b"a", None))
    assert (status, json.loads(body)["code"]) == (408, "body_timeout")
    assert headers[b"connection"] == b"close"


def test_a_body_too_large_is_413_whether_announced_or_not():
    bounds = bounded(2000)
    for receive, headers in [
        (body_messages(b"a" * 1200, b"b" * 1200), ()),
        (body_messages(None), [(b"content-length", b"2001")]),
    ]:
        status, _, body = answer_of(bounds, receive, headers)
        assert (status, json.loads(body)["code"]) == (413, "body_too_large")

"""Whatever happens behind, the caller gets a problem document or a whole answer, with the id of the request."""

import asyncio
import logging

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse

from tests.bounded import run
from tests.service.gate.gates import KEYS, api_keys, ask, gate_around, whole_body

BOTH = {"api_keys": api_keys(*KEYS)}
LAB = {"cors_origins": "https://lab.example"}
FROM_LAB = (b"origin", b"https://lab.example")


def raising(error):
    async def app(scope, receive, send):
        raise error

    return app


def asked_for(app, path="/x", chunks=(b"",), *, key=None, headers=(), **options):
    gate = gate_around(app, **options)
    return gate.metrics, run(ask(gate, path, chunks, key=key, headers=headers))


def test_a_sane_request_id_is_kept_and_any_other_replaced():
    ids = []
    for given in (b"trace-1:/a", b"a b", b"x" * 129, None):
        record, answer = asked_for(whole_body, headers=[(b"x-request-id", given)] if given else [])
        ids.append(answer.headers[b"x-request-id"].decode())
        assert record.lines[0][:3] == (ids[-1], None, 200)
    assert (ids[0], len(set(ids))) == ("trace-1:/a", 4)
    assert all(len(own) == 16 for own in ids[1:])


def test_an_error_raised_in_a_layer_is_a_problem_document_without_its_text(caplog):
    with caplog.at_level(logging.ERROR):
        record, answer = asked_for(raising(RuntimeError("/srv/secret.py")))
    assert answer.code == (500, "internal_error")
    assert b"secret" not in answer.body
    assert "secret" in caplog.text  # the log has it
    assert (record.answers, record.open_requests) == ([("/x", 500, False)], 0)


@pytest.mark.parametrize(("status", "code"), [(400, "bad_request"), (413, "body_too_large"), (418, "http_418")])
def test_errors_in_another_form_are_turned_into_problem_documents(status, code):
    _, answer = asked_for(PlainTextResponse("as the framework says it", status, headers={"vary": "Origin"}))
    assert answer.code == (status, code)
    assert answer.headers[b"vary"] == b"Origin"
    assert b"framework" not in answer.body


def test_half_an_answer_does_not_become_a_whole_one():
    async def breaks_off(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("off")

    gate = gate_around(breaks_off)
    with pytest.raises(RuntimeError):
        run(ask(gate))
    assert gate.metrics.answers == [("/x", 200, False)]


def test_a_caller_who_goes_is_no_fault(caplog):
    gate = gate_around(raising(ClientDisconnect()))
    with pytest.raises(IndexError):  # nothing is sent
        run(ask(gate))
    assert gate.metrics.answers == [("/x", 499, False)]
    assert not caplog.records


def test_while_draining_connections_close_and_what_is_cut_off_is_told_to_come_back():
    assert b"connection" not in asked_for(whole_body)[1].headers
    assert asked_for(whole_body, draining=True)[1].headers[b"connection"] == b"close"
    _, answer = asked_for(raising(asyncio.CancelledError()), draining=True)
    assert answer.code == (503, "shutting_down")
    assert int(answer.headers[b"retry-after"]) >= 1
    assert answer.headers[b"connection"] == b"close"


def test_a_body_that_fills_the_memory_of_all_is_refused_and_gives_back_what_it_held():
    gate, chunks = gate_around(whole_body, memory_bytes=2**20, **BOTH), [b"a" * 70_000] * 8
    assert run(ask(gate, chunks=chunks, key="flood")).code == (429, "share_exhausted")
    assert (gate.memory.used, gate.metrics.reasons) == (0, ["share"])
    assert len(run(ask(gate, chunks=chunks[1:], key="flood")).body) == 490_000
    assert gate.memory.used == 0


def test_a_long_body_rests_before_more_of_it_is_read(monkeypatch):
    monkeypatch.setattr("ik_service.service.gate.gate.BODY_RATE", 1.0)
    taken = []

    async def counting(scope, receive, send):
        while (await receive())["more_body"]:
            taken.append(1)

    async def read():
        gate = gate_around(counting, **BOTH)
        reading = asyncio.create_task(ask(gate, chunks=4 * [b"a" * 60_000], key="flood"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not reading.done()
        assert gate.memory.used == 120_000
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert gate.memory.used == 0

    run(read())
    assert len(taken) == 1  # what is not counted yet; the second part rests


@pytest.mark.parametrize(
    ("chunks", "headers", "expected"),
    [
        ([b"a" * 800, b"b" * 1200], [], (200, None)),
        ([b"a" * 1200, b"b" * 1200], [], (413, "body_too_large")),
        ([None], [(b"content-length", b"2001")], (413, "body_too_large")),
        ([b"a", None], [], (408, "body_timeout")),
    ],
    ids=["within", "too large", "announced", "stops"],
)
def test_a_body_has_bounds_of_bytes_and_time_and_pages_see_the_refusal(chunks, headers, expected):
    bounds = {"max_body_bytes": 2000, "body_timeout_s": 0.05, **LAB}
    _, answer = asked_for(whole_body, chunks=chunks, headers=[*headers, FROM_LAB], **bounds)
    if expected == (200, None):
        assert (answer.status, answer.body) == (200, b"".join(chunks))
    else:
        assert answer.code == expected
    assert answer.headers[b"access-control-allow-origin"] == b"https://lab.example"
    assert answer.headers.get(b"connection") == (b"close" if expected[0] == 408 else None)


@pytest.mark.parametrize("name", ["x-api-key", "authorization", "if-match", "if-none-match"])
def test_a_header_of_which_one_could_be_overlooked_is_sent_once(name):
    field = (name.encode(), KEYS["flood"].encode())
    _, answer = asked_for(whole_body, headers=[field, (b"accept", b"a"), (b"accept", b"b"), field], **BOTH)
    assert answer.code == (400, "bad_request")
    assert f"The request has 2 {name} headers. Send one." in answer.body.decode()


class Waiting:
    """A gate in front of an application that answers once it is let go on."""

    def __init__(self, most, *names):
        self.go_on, self.begun = asyncio.Event(), 0
        self.gate = gate_around(self.answer, max_connections=most, api_keys=api_keys(*names))
        self.reasons = self.gate.metrics.reasons

    async def answer(self, scope, receive, send):
        self.begun += 1
        await self.go_on.wait()
        if scope["path"] == "/fails":
            raise OSError
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask(self, key, path="/v1/robots"):
        return (await ask(self.gate, path, key=key)).status

    async def begin(self, key, path="/v1/robots"):
        """Ask without waiting for the answer."""
        task, before = asyncio.create_task(self.ask(key, path)), self.begun
        while self.begun == before and not task.done():
            await asyncio.sleep(0)
        return task


def test_one_key_cannot_have_all_requests_under_way_and_health_is_always_answered():
    async def asking():
        held = Waiting(4, *KEYS)
        flood = [await held.begin("flood"), await held.begin("flood")]
        assert (await held.ask("flood"), held.reasons) == (429, ["share"])
        others = [await held.begin(*of) for of in (("calm",), ("flood", "/health/live"), ("flood", "/health/ready"))]
        held.go_on.set()
        assert await asyncio.gather(*flood, *others) == [200] * 5
        assert len(held.reasons) == 1

    run(asking())


def test_a_single_key_may_have_all_and_leaves_its_place_however_a_request_ended():
    async def asking():
        held = Waiting(1, "flood")
        first = await held.begin("flood")
        assert (await held.ask("flood"), held.reasons) == (503, ["connections"])
        held.go_on.set()
        assert await first == 200
        assert [await held.ask("flood", path) for path in ("/v1/robots", "/fails", "/v1/robots")] == [200, 500, 200]

    run(asking())

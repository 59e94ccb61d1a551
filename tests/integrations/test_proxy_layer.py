"""What a proxy of Ray says by itself leaves as problem documents, and what a replica says stays as it is."""

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.testclient import TestClient

from ik_service.integrations.proxy_layer import ProxyLayer
from ik_service.service.errors.problem_documents import PROBLEMS, framework_kind, problem_document
from ik_service.service.queue.errors import ExpiredError


def asked(answer, **headers):
    """The reply to a request behind the layer, and the headers that the proxy saw."""
    seen = {}

    async def proxy(scope, receive, send):
        seen.update({name.decode(): value.decode() for name, value in scope["headers"]})
        if answer is not None:
            await answer(scope, receive, send)

    return TestClient(ProxyLayer(proxy), raise_server_exceptions=False).get("/v1/robots", headers=headers), seen


@pytest.mark.parametrize(
    ("status", "told", "code"),
    [(503, 503, "unavailable"), (408, 504, "deadline_passed"), (404, 404, "not_found"), (500, 500, "internal_error")],
)
def test_an_error_in_plain_text_becomes_a_problem_document(status, told, code):
    reply, _ = asked(PlainTextResponse("num_queued_requests=7", status))
    assert (reply.status_code, reply.headers["content-type"]) == (told, "application/problem+json")
    assert reply.json()["code"] == code
    assert "num_queued" not in reply.text
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


KINDS = {status: framework_kind(status) for status in (404, 429, 500, 503)} | {408: PROBLEMS[ExpiredError]}


@pytest.mark.parametrize(("status", "kind"), KINDS.items())
def test_its_documents_are_those_of_the_service(status, kind):
    reply, _ = asked(PlainTextResponse("", status))
    told = {**reply.json(), "detail": ""}
    assert told == {**problem_document(kind, ""), "request_id": reply.headers["x-request-id"]}
    assert reply.headers.get("retry-after") == (None if kind.retry_after_s is None else str(kind.retry_after_s))


async def head_alone(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1135")]})


async def failing(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError("the replica is gone")


@pytest.mark.parametrize("answer", [None, head_alone, failing])
def test_no_answer_at_all_and_one_of_which_only_the_head_comes_mean_that_the_replica_is_gone(answer):
    reply, _ = asked(answer)
    assert (reply.status_code, reply.json()["code"]) == (503, "replica_lost")
    assert reply.json()["request_id"] == reply.headers["x-request-id"]
    assert reply.headers["retry-after"] == "1"


def test_an_answer_in_parts_comes_as_it_is():
    async def in_parts(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"so", "more_body": True})
        await send({"type": "http.response.body", "body": b"me"})

    reply, _ = asked(in_parts)
    assert (reply.status_code, reply.text) == (200, "some")


def test_how_long_to_wait_is_passed_on():
    reply, _ = asked(PlainTextResponse("full", 503, headers={"Retry-After": "7"}))
    assert reply.headers.get_list("retry-after") == ["7"]


def test_answers_of_the_service_stay_but_for_a_second_request_id():
    problem = Response(b'{"code": "unknown_robot"}', 404, media_type="application/problem+json")
    for answer in (JSONResponse({"robots": []}), problem):
        answer.raw_headers += [(b"x-request-id", b"a"), (b"X-Request-ID", b"a")]
        reply, _ = asked(answer, **{"X-Request-ID": "mine"})
        assert (reply.status_code, reply.content) == (answer.status_code, answer.body)
        assert reply.headers.get_list("x-request-id") == ["mine"]


def test_callers_cannot_switch_off_the_bounds_of_the_proxy():
    _, seen = asked(JSONResponse({}), **{"X-Request-Timeout-Seconds": "0", "X-Request-ID": "not sane ;"})
    assert "x-request-timeout-seconds" not in seen
    assert seen["x-request-id"] != "not sane ;"

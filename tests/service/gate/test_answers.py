"""A handler waits only as long as its caller does; long answers go out in pieces, as their caller takes them."""

import asyncio

import numpy as np
import orjson
import pytest
from fastapi import Request
from starlette.requests import ClientDisconnect

from ik_service.service.codecs.codec import PIECE_BYTES
from ik_service.service.documents.solve_answer import BLOCKING_ANSWER_BYTES
from ik_service.service.gate import answers
from ik_service.service.gate.answers import PacedResponse, wait_for
from ik_service.service.gate.gate import CONTEXT
from tests.bounded import run


def request_of(messages):
    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.sleep(60)
        raise AssertionError

    return Request({"type": "http"}, receive)


def test_work_of_a_caller_that_goes_is_cancelled(monkeypatch):
    monkeypatch.setattr(answers, "LISTEN_AFTER_S", 0.0)

    async def ask():
        answer = asyncio.get_running_loop().create_future()
        with pytest.raises(ClientDisconnect):
            await wait_for(request_of([{"type": "http.request"}, {"type": "http.disconnect"}]), answer)
        return answer.cancelled()

    assert run(ask())


def test_an_answer_that_comes_late_is_brought_and_nobody_listens_any_more(monkeypatch):
    monkeypatch.setattr(answers, "LISTEN_AFTER_S", 0.0)

    async def ask():
        loop, before = asyncio.get_running_loop(), len(asyncio.all_tasks())
        answer = loop.create_future()
        loop.call_later(0.05, answer.set_result, 5)
        got = await wait_for(request_of([]), answer)
        await asyncio.sleep(0)
        return got, len(asyncio.all_tasks()) - before

    assert run(ask()) == (5, 0)


def test_an_error_is_brought_and_a_handler_that_is_cancelled_is_cancelled():
    async def ask():
        answer = asyncio.get_running_loop().create_future()
        handler = asyncio.create_task(wait_for(request_of([]), answer))
        await asyncio.sleep(0)
        handler.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handler
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await wait_for(request_of([]), failed)
        return answer.cancelled()

    assert run(ask())


def test_an_answer_in_pieces_goes_on_as_the_caller_takes_it():
    taken = []
    content = [b"a" * (PIECE_BYTES + 5), memoryview(np.arange(10.0)), b"", b"end"]

    async def ask():
        room = asyncio.Semaphore(2)

        async def send(message):
            await room.acquire()
            taken.append(message)

        sending = asyncio.create_task(PacedResponse(content, "text/plain")({"type": "http"}, None, send))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        before = len(taken)
        assert not sending.done()
        for _ in range(10):
            room.release()
        await sending
        return before

    assert run(ask()) == 2
    body = b"".join(message.get("body", b"") for message in taken)
    assert body == b"".join(content)
    assert dict(taken[0]["headers"])[b"content-length"] == str(len(body)).encode()
    assert [message.get("more_body", False) for message in taken[1:]] == [True] * (len(taken) - 2) + [False]


POSE = [0.1, -0.785, 0.2, -2.356, 0.3, 1.571, 0.785]
MANY = 8000
QUICK = {"seeds": 1, "max_iterations": 1}
LARGE = {
    "forward": {"joint_q": [POSE] * MANY, "links": ["panda_hand", "panda_link7"]},
    "solve": {"targets": [{"link": "panda_hand", "positions": [[9.0, 0.0, 0.0]] * MANY}], "options": QUICK},
}


async def taken(app, path, body):
    """Sizes of the pieces of an answer, and bytes that are reserved while its caller takes each."""
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": ""}
    scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    messages, pieces = [{"type": "http.request", "body": orjson.dumps(body)}], []

    async def receive():
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        elif message["body"]:
            pieces.append((len(message["body"]), scope[CONTEXT].held))

    await app(scope, receive, send)
    assert scope[CONTEXT].held == 0
    return pieces


@pytest.mark.parametrize("route", LARGE)
def test_a_large_answer_is_taken_piece_by_piece_while_its_memory_is_reserved(client, route):
    pieces = client.portal.call(taken, client.app, f"/v1/robots/panda/{route}", LARGE[route])
    sizes = [size for size, _ in pieces]
    assert sum(sizes) > BLOCKING_ANSWER_BYTES
    assert max(sizes) <= PIECE_BYTES
    assert all(reserved >= sum(sizes) for _, reserved in pieces)

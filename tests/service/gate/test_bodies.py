"""A handler waits only as long as its caller does."""

import asyncio

import pytest
from fastapi import Request
from starlette.requests import ClientDisconnect

from ik_service.service.gate import bodies
from ik_service.service.gate.bodies import wait_for
from tests.bounded import run


def request_of(messages):
    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.sleep(60)
        raise AssertionError

    return Request({"type": "http"}, receive)


def test_work_of_a_caller_that_goes_is_cancelled(monkeypatch):
    monkeypatch.setattr(bodies, "LISTEN_AFTER_S", 0.0)

    async def ask():
        answer = asyncio.get_running_loop().create_future()
        with pytest.raises(ClientDisconnect):
            await wait_for(request_of([{"type": "http.request"}, {"type": "http.disconnect"}]), answer)
        return answer.cancelled()

    assert run(ask())


def test_an_answer_that_comes_late_is_brought_and_nobody_listens_any_more(monkeypatch):
    monkeypatch.setattr(bodies, "LISTEN_AFTER_S", 0.0)

    async def ask():
        loop, before = asyncio.get_running_loop(), len(asyncio.all_tasks())
        answer = loop.create_future()
        loop.call_later(0.05, answer.set_result, 5)
        got = await wait_for(request_of([]), answer)
        await asyncio.sleep(0)
        return got, len(asyncio.all_tasks()) - before

    assert run(ask()) == (5, 0)


def test_an_error_is_brought():
    async def ask():
        answer = asyncio.get_running_loop().create_future()
        answer.set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await wait_for(request_of([]), answer)

    run(ask())


def test_a_handler_that_is_cancelled_is_cancelled():
    async def ask():
        answer = asyncio.get_running_loop().create_future()
        handler = asyncio.create_task(wait_for(request_of([]), answer))
        await asyncio.sleep(0)
        handler.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handler

    run(ask())

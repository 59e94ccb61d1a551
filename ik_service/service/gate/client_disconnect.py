"""Waiting for a result until the caller disconnects: the work of callers that have gone is cancelled.

Servers do not cancel a handler when its caller disconnects, so a handler that waits for long listens for that.
"""

import asyncio
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

LISTEN_AFTER_S = 0.05
"""Time after which a handler listens; most results come sooner, and listening costs a task."""

Answer = TypeVar("Answer")


async def wait_for(request: Request, answer: "asyncio.Future[Answer]") -> Answer:
    """Return the result of a future; cancel it when the caller disconnects.

    Args:
        request: The caller's request, its body read.
        answer: The future.

    Raises:
        ClientDisconnect: The caller has disconnected.
    """
    gone = False

    async def listen() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        answer.cancel()

    listeners: list[asyncio.Task[None]] = []
    timer = asyncio.get_running_loop().call_later(
        LISTEN_AFTER_S, lambda: listeners.append(asyncio.create_task(listen()))
    )
    try:
        return await answer
    except asyncio.CancelledError:
        if gone:
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        for listener in listeners:
            listener.cancel()

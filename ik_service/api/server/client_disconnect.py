"""Waiting for an answer only as long as somebody wants it: work of callers that have gone is dropped.

Servers do not cancel a handler when its caller goes. So one that waits for long listens for that beside.
"""

import asyncio
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

PATIENCE_S = 0.05
"""How long a handler waits before it listens; most answers are there by then, and listening costs a task."""

Answer = TypeVar("Answer")


async def wait_for(request: Request, answer: "asyncio.Future[Answer]") -> Answer:
    """Return what a future brings; cancel it when the caller goes.

    Args:
        request: The caller's request, its body read.
        answer: The future.

    Raises:
        ClientDisconnect: The caller has gone.
    """
    gone = False

    async def listen() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        answer.cancel()

    listeners: list[asyncio.Task[None]] = []
    timer = asyncio.get_running_loop().call_later(PATIENCE_S, lambda: listeners.append(asyncio.create_task(listen())))
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

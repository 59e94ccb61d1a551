"""Answers: computed only while their caller waits, and sent in pieces if long."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ik_service.service.codecs.codec import PIECE_BYTES

LISTEN_AFTER_S = 0.05
"""Time after which a handler listens for the end of the connection; most results come sooner, and listening costs."""

Answer = TypeVar("Answer")


async def wait_for(request: Request, answer: "asyncio.Future[Answer]") -> Answer:
    """Return the result of a future; cancel the future when the caller disconnects, because servers do not.

    Args:
        request: The caller's request, with its body already read.
        answer: The future.

    Raises:
        ClientDisconnect: The caller has disconnected.
    """
    gone = False
    listeners: list[asyncio.Task[None]] = []

    async def listen() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        answer.cancel()

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


class PacedResponse(Response):
    """Answer of known length in pieces; each piece is sent after the caller has read most of the piece before.

    So the buffer of the connection stays small, and the memory of the request is reserved until nearly all is sent.
    """

    def __init__(self, pieces: Sequence[bytes | memoryview], media_type: str) -> None:
        self._pieces = [memoryview(piece).cast("B") for piece in pieces]
        length = sum(piece.nbytes for piece in self._pieces)
        super().__init__(headers={"content-length": str(length)}, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            for start in range(0, piece.nbytes, PIECE_BYTES):
                body = bytes(piece[start : start + PIECE_BYTES])  # servers accept only bytes
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

"""Bodies of requests, read within limits of bytes and time, and long bodies of answers, sent in pieces."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ik_service.service.codecs.codec import PIECE_BYTES
from ik_service.service.errors.exceptions import BodyTimeoutError, BodyTooLargeError
from ik_service.service.gate.request_context import UNCOUNTED_BYTES, context_of

if sys.version_info >= (3, 11):
    from asyncio import timeout_at
else:
    from async_timeout import timeout_at

LISTEN_AFTER_S = 0.05
"""Time after which a handler listens for the end of the connection; most results come sooner, and listening costs."""

Answer = TypeVar("Answer")


class LimitedBody:
    """Receives the body of a request: counts and times its bytes, and reserves memory for them.

    Args:
        scope: The request's scope.
        receive: Receives its messages.
        most: Most bytes.
        timeout_s: Longest time from the first to the last byte [s].
    """

    def __init__(self, scope: Scope, receive: Receive, most: int, timeout_s: float) -> None:
        self._scope, self._receive, self._most, self._timeout_s = scope, receive, most, timeout_s
        self._size, self._end, self._is_complete = 0, 0.0, False
        is_split = scope["method"] == "POST"
        self._advice = "Split the problems over several requests." if is_split else "That is the most for any body."

    def check_announced(self) -> None:
        """Refuse a body whose header says that it is too large."""
        length = next((value for name, value in self._scope["headers"] if name == b"content-length"), b"")
        _check(_announced(length.decode("latin-1")), self._most, self._advice)

    async def receive(self) -> Message:
        """Return the next message; after the body that is the end of the connection, which has no time limit."""
        if self._is_complete:
            return await self._receive()
        self._end = self._end or asyncio.get_running_loop().time() + self._timeout_s
        try:
            async with timeout_at(self._end):
                message = await self._receive()
        except asyncio.TimeoutError:
            raise BodyTimeoutError(f"The body did not come in within {self._timeout_s:g} s.") from None
        if message["type"] == "http.request":
            amount = len(message.get("body", b""))
            self._size += amount
            _check(self._size, self._most, self._advice)
            context = context_of(self._scope)
            context.reserve(amount)
            if self._size > UNCOUNTED_BYTES:
                await asyncio.sleep(context.rest_s(amount))
            self._is_complete = not message.get("more_body", False)
        return message


async def read_body(request: Request, limit: int, advice: str) -> bytes:
    """Return the body of a request; of bodies whose limit is the gate's, `request.body` is enough.

    Args:
        request: The request; its body must not have been read.
        limit: Most bytes allowed.
        advice: Added to the text of the error.

    Raises:
        BodyTooLargeError: More bytes than allowed, announced or sent.
    """
    _check(_announced(request.headers.get("content-length", "")), limit, advice)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        _check(size, limit, advice)
        chunks.append(chunk)
    return b"".join(chunks)


async def wait_for(request: Request, answer: "asyncio.Future[Answer]") -> Answer:
    """Return the result of a future; cancel the future when the caller disconnects, which servers do not do.

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


class PacedResponse(Response):
    """An answer of known length in pieces, each sent once the caller has read most of the one before.

    So the buffer of the connection stays small, and the memory of the request is reserved until nearly all is sent.

    Args:
        pieces: Its bytes, in order.
        media_type: Its media type.
    """

    def __init__(self, pieces: Sequence[bytes | memoryview], media_type: str) -> None:
        length = sum(memoryview(piece).nbytes for piece in pieces)
        super().__init__(headers={"content-length": str(length)}, media_type=media_type)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            view = memoryview(piece).cast("B")
            for start in range(0, view.nbytes, PIECE_BYTES):
                body = bytes(view[start : start + PIECE_BYTES])  # servers accept nothing else
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _announced(length: str) -> int:
    return int(length) if length.isascii() and length.isdigit() else 0


def _check(size: int, limit: int, advice: str) -> None:
    if size > limit:
        raise BodyTooLargeError(f"The body is larger than {limit} bytes. {advice}")

"""Limits of request bodies: their bytes, and the time in which they must come in.

The memory that a request has reserved is released here, when the request has ended and the caller has its answer.
"""

import asyncio

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ik_service.service.errors.exceptions import BodyTimeoutError, BodyTooLargeError
from ik_service.service.errors.problem_documents import send_error
from ik_service.service.gate.request_memory import RESERVATION, UNCOUNTED_BYTES, MemoryBudget, MemoryReservation
from ik_service.service.gate.timeouts import timeout_at

SPLIT = "Split the problems over several requests."


async def read_body(request: Request, limit: int, advice: str = SPLIT) -> bytes:
    """Return the body of a request.

    Args:
        request: The request; its body must not have been read.
        limit: Most bytes allowed.
        advice: Added to the text of the error.

    Raises:
        BodyTooLargeError: More bytes than allowed, announced or sent.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit, advice)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit, advice)
        chunks.append(chunk)
    return b"".join(chunks)


class BodyLimitMiddleware:
    """ASGI layer that ends requests whose body is too large or too slow.

    Args:
        app: The application behind it.
        max_bytes: Most bytes of a body.
        timeout_s: Longest time from the first to the last byte [s].
        budget: Memory that all requests may reserve together.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float, budget: MemoryBudget) -> None:
        self._app, self._max_bytes, self._timeout_s, self._budget = app, max_bytes, timeout_s, budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; its body is counted and timed while it is read."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        reservation = scope[RESERVATION] = MemoryReservation(self._budget, scope)
        announced = dict(scope["headers"]).get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self._max_bytes:
            return await send_error(self._too_large(scope["method"]), scope, receive, send)
        try:
            return await self._app(scope, self._limited(receive, scope["method"], reservation), send)
        finally:
            reservation.end()

    def _too_large(self, method: str) -> BodyTooLargeError:
        return _too_large(self._max_bytes, SPLIT if method == "POST" else "That is the most for any body.")

    def _limited(self, receive: Receive, method: str, reservation: MemoryReservation) -> Receive:
        """Return what receives a body: it counts and times the bytes, and reserves memory for them."""
        size = reserved = 0
        end: float | None = None
        is_complete = False

        async def limited_receive() -> Message:
            nonlocal size, reserved, end, is_complete
            if is_complete:  # the next message is the end of the connection, which has no time limit
                return await receive()
            if end is None:
                end = asyncio.get_running_loop().time() + self._timeout_s
            try:
                async with timeout_at(end):
                    message = await receive()
            except asyncio.TimeoutError:
                raise BodyTimeoutError(f"The body did not come in within {self._timeout_s:g} s.") from None
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                if size > self._max_bytes:
                    raise self._too_large(method)
                if size > UNCOUNTED_BYTES:
                    reservation.reserve(size - reserved)
                    await asyncio.sleep(reservation.rest_s(size - reserved))
                    reserved = size
                is_complete = not message.get("more_body", False)
            return message

        return limited_receive


def _too_large(limit: int, advice: str) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is larger than {limit} bytes. {advice}")

"""Bounds of a request's body, whatever reads it: how many bytes, and how long they may take to come in.

What requests hold in memory is given back here: when all of a request has ended, its answer taken by the caller.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ik_service.api.admission.request_memory import BOOKING, UNCOUNTED_BYTES, Booking, RequestMemory
from ik_service.api.errors.exceptions import BodyTimeoutError, BodyTooLargeError
from ik_service.api.errors.problem_documents import send_error
from ik_service.api.server.body import SPLIT, too_large


class BodyBounds:
    """ASGI layer that ends requests whose body is too large or too slow.

    Args:
        app: What stands behind.
        max_bytes: Most bytes of a body.
        timeout_s: Longest time from the first to the last byte [s].
        memory: What requests may hold together.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float, memory: RequestMemory) -> None:
        self._app, self._max_bytes, self._timeout_s, self._memory = app, max_bytes, timeout_s, memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; its body is counted and timed while somebody reads it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        announced = dict(scope["headers"]).get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self._max_bytes:
            return await send_error(self._too_large(scope["method"]), scope, receive, send)
        booking = scope[BOOKING] = Booking(self._memory, scope)
        try:
            return await self._app(scope, _BoundedBody(receive, self, scope["method"], booking).receive, send)
        finally:
            booking.end()

    def _too_large(self, method: str) -> BodyTooLargeError:
        return too_large(self._max_bytes, SPLIT if method == "POST" else "That is the most for any body.")

    def check(self, byte_count: int, method: str) -> None:
        """Refuse a body once it is too large.

        Args:
            byte_count: Its bytes so far.
            method: Of HTTP.

        Raises:
            BodyTooLargeError: More bytes than allowed.
        """
        if byte_count > self._max_bytes:
            raise self._too_large(method)

    async def next_message(self, receive: Receive, end: float) -> Message:
        """Wait for more of a body.

        Args:
            receive: Gives the next message.
            end: When it is too late, on the loop's clock [s].

        Raises:
            BodyTimeoutError: It is too late.
        """
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            raise BodyTimeoutError(f"The body did not come in within {self._timeout_s:g} s.") from None

    def end(self) -> float:
        """Return when a body that is asked for now must be there, on the loop's clock [s]."""
        return asyncio.get_running_loop().time() + self._timeout_s


class _BoundedBody:
    """The body of one request."""

    __slots__ = ("_booked", "_booking", "_bounds", "_byte_count", "_complete", "_end", "_method", "_receive")

    def __init__(self, receive: Receive, bounds: BodyBounds, method: str, booking: Booking) -> None:
        self._receive, self._bounds, self._method, self._booking = receive, bounds, method, booking
        self._booked = 0
        self._byte_count, self._complete, self._end = 0, False, 0.0

    async def receive(self) -> Message:
        if self._complete:  # what comes now is the end of the connection, and may take as long as it likes
            return await self._receive()
        if not self._end:
            self._end = self._bounds.end()
        message = await self._bounds.next_message(self._receive, self._end)
        if message["type"] == "http.request":
            self._byte_count += len(message.get("body", b""))
            self._bounds.check(self._byte_count, self._method)
            if self._byte_count > UNCOUNTED_BYTES:
                self._booking.take(self._byte_count - self._booked)
                self._booked = self._byte_count
            self._complete = not message.get("more_body", False)
        return message

"""Shares of requests under way: no API key can occupy all connections."""

from starlette.types import ASGIApp, Receive, Scope, Send

from ik_service.service.errors.problem_documents import send_error
from ik_service.service.gate.access import owner_of
from ik_service.service.gate.request_memory import Refused
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.queue.fair_cap import FairCap


class RequestShareMiddleware:
    """ASGI layer that refuses requests of an API key whose share is under way; health is never refused.

    Args:
        app: The application behind it.
        most: Requests that may be under way.
        is_shared: Whether there are several API keys.
        refused: Called for every refusal.
    """

    def __init__(self, app: ASGIApp, most: int, *, is_shared: bool, refused: Refused) -> None:
        self._app, self._refused = app, refused
        self._cap = FairCap(most, "requests under way", "connections", is_shared=is_shared)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["path"].startswith("/health/"):
            return await self._app(scope, receive, send)
        owner = owner_of(scope)
        try:
            self._cap.acquire(owner)
        except QueueFullError as error:
            self._refused(error.reason)
            return await send_error(error, scope, receive, send)
        try:
            return await self._app(scope, receive, send)
        finally:
            self._cap.release(owner)

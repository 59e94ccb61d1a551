"""The ASGI layer around the application: request ids, answers to errors, and observers of requests."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ik_service.service.errors.problem_documents import PROBLEM_MEDIA_TYPE, framework_kind, problem_response, send_error
from ik_service.service.errors.request_id import REQUEST_ID_HEADER, current_request_id, request_id
from ik_service.service.queue.errors import ClosedError

CLIENT_GONE = 499
"""Status in logs and metrics of a request whose caller disconnected before the answer."""
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")
_MEDIA_TYPE = PROBLEM_MEDIA_TYPE.encode()

_logger = logging.getLogger(__name__)


class RequestObserver(Protocol):
    """Observes requests."""

    def began(self) -> None:
        """Called where a request begins."""

    def answered(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """Called where a request has been answered, or its caller has disconnected."""


class RequestMiddleware:
    """ASGI layer that gives requests their ids and turns every error into a problem document.

    Args:
        app: The application behind it.
        observers: Observers of every request.
        is_draining: Returns whether the service is about to end; connections are closed then.
    """

    def __init__(self, app: ASGIApp, observers: Sequence[RequestObserver], is_draining: Callable[[], bool]) -> None:
        self._app, self._observers, self._is_draining = app, tuple(observers), is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer errors."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        started = time.perf_counter()
        own_id = request_id(_header(scope["headers"], REQUEST_ID_HEADER))
        current_request_id.set(own_id)
        for observer in self._observers:
            observer.began()
        answer = _ResponseSender(send, own_id.encode(), closes=self._is_draining())
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            answer.status = CLIENT_GONE
        except asyncio.CancelledError:
            if answer.is_started or not self._is_draining():
                answer.status = answer.status or CLIENT_GONE
                raise
            await send_error(ClosedError("The service is shutting down."), scope, receive, answer.send)
        except Exception as error:
            _logger.error("%s %s failed", scope.get("method", "WEBSOCKET"), scope["path"], exc_info=error)
            if not answer.is_started:
                await send_error(error, scope, receive, answer.send)
            elif answer.is_open:
                raise  # the server closes the connection, so that half an answer is not taken for a whole one
        finally:
            seconds = time.perf_counter() - started
            for observer in self._observers:
                observer.answered(scope, own_id, answer.status or CLIENT_GONE, seconds)
        return None


class _ResponseSender:
    """Sends an answer with the request's id; errors of other forms are replaced by problem documents.

    Attributes:
        status: HTTP status, 0 before it is known.
        is_open: Whether the answer has begun and not ended.
    """

    __slots__ = ("_closes", "_id", "_replaced", "_send", "is_open", "status")

    def __init__(self, send: Send, own_id: bytes, *, closes: bool) -> None:
        self._send, self._id, self._closes = send, own_id, closes
        self.status, self.is_open, self._replaced = 0, False, False

    @property
    def is_started(self) -> bool:
        return self.status != 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status, self.is_open = message["status"], True
            headers = [*message.get("headers", ()), (REQUEST_ID_HEADER, self._id), _NO_SNIFFING]
            if self._closes and _header(headers, b"connection") is None:
                headers.append(_CLOSE)
            if self.status >= 400 and _header(headers, b"content-type") != _MEDIA_TYPE:
                return await self._replace(kind, headers)
            message = {**message, "headers": headers}
        elif kind in ("http.response.body", "websocket.http.response.body"):
            self.is_open = message.get("more_body", False)
            if self._replaced:
                return None
        elif kind == "websocket.accept":
            self.status = 101
            message = {**message, "headers": [*message.get("headers", ()), (REQUEST_ID_HEADER, self._id)]}
        elif kind == "websocket.close":
            self.status = self.status or 403
        return await self._send(message)

    async def _replace(self, kind: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send a problem document in place of an error of the framework."""
        self._replaced = True
        problem = framework_kind(self.status)
        detail = problem.detail or f"{problem.title}."
        response = problem_response(problem, detail, headers=_kept(headers))
        await self._send({"type": kind, "status": self.status, "headers": response.raw_headers})
        await self._send({"type": kind.replace("start", "body"), "body": response.body})


def _kept(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers
        if not name.lower().startswith(b"content-") and name.lower() != b"transfer-encoding"
    }


def _header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None

"""The gate: one ASGI layer around the application, which every request and every handshake of a stream passes.

    id -> refused unread? -> observers -> body limited -> CORS -> API key -> share of requests under way -> application

Callers get a whole answer or a problem document with the request's id, whatever happens behind. Each request has
one object, its `RequestContext`; the memory that a request holds is released after its answer.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ik_service.service.errors.exceptions import AccessError, BodyTooLargeError
from ik_service.service.errors.problem_documents import (
    PROBLEM_MEDIA_TYPE,
    error_response,
    framework_kind,
    problem_response,
    send_error,
)
from ik_service.service.errors.request_id import REQUEST_ID_HEADER, current_request_id, request_id
from ik_service.service.gate.access import Access
from ik_service.service.gate.admission import Admission
from ik_service.service.gate.bodies import LimitedBody
from ik_service.service.gate.request_context import CONTEXT, MemoryBudget, RequestContext, context_of
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError
from ik_service.service.queue.fair_cap import FairCap
from ik_service.settings import ServiceSettings

CLIENT_GONE = 499
"""Status in logs and metrics of a request whose caller disconnected before the answer."""
DISCARDED_BYTES_MAX = 256 * 1024
"""Longest body [bytes] that is read and discarded to keep a connection open."""
_CORS_METHODS = ("GET", "POST", "PUT", "DELETE")
_CORS_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "Prefer", "X-API-Key", "X-Request-ID")
_CORS_EXPOSED = ("ETag", "Retry-After", "X-Request-ID")
_UNREAD = {
    ShareExhaustedError: "Your API key has its share of what may wait already. The request was not read; wait until "
    "some have ended, and have fewer at once.",
    QueueFullError: "More is asked than can be answered in time. The request was not read; try again later.",
    ExpiredError: "The deadline passed before the request could be read. Nothing was solved.",
}
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_MEDIA_TYPE = PROBLEM_MEDIA_TYPE.encode()

_logger = logging.getLogger(__name__)


class RequestObserver(Protocol):
    """Observes requests."""

    def began(self) -> None:
        """Called where a request begins."""

    def answered(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """Called where a request has been answered, or its caller has disconnected."""


class Gate:
    """The layer.

    Args:
        app: The application behind it.
        settings: The settings.
        bound_to: Address that the server listens on; None where it is not known.
        admission: Refuses requests to solve by their headers alone.
        observers: Observers of every request that is not refused unread.
        is_draining: Returns whether the service is about to end; connections are closed then.

    Attributes:
        memory: Memory that all requests hold.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        bound_to: str | None,
        admission: Admission,
        observers: Sequence[RequestObserver] = (),
        is_draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app, self._settings, self._admission = app, settings, admission
        self._observers, self._is_draining = tuple(observers), is_draining
        self._access, is_shared = Access(settings, bound_to), len(settings.keys) > 1
        refused, most = admission.observer.refused, settings.max_connections
        self.memory = MemoryBudget(
            settings.memory_bytes, settings.max_answer_bytes, is_shared=is_shared, refused=refused
        )
        self._under_way = FairCap(most, "requests under way", "connections", is_shared=is_shared)
        self._behind: ASGIApp = self._admit
        if settings.cors_origins:
            self._behind = CORSMiddleware(
                self._admit, settings.cors_origins, _CORS_METHODS, _CORS_HEADERS, expose_headers=_CORS_EXPOSED
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        own_id = request_id(_header(scope["headers"], REQUEST_ID_HEADER))
        current_request_id.set(own_id)
        context = RequestContext(self.memory)
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith("/solve"):
            path = scope.get("raw_path") or scope["path"].encode()
            arrival = context.arrival = self._admission.arrives(path, scope["headers"])
            try:
                if not arrival.is_of_page:  # a browser shows its page only answers with CORS headers: the route refuses
                    self._admission.require_room(arrival)
            except ClosedError:
                pass  # the application says so
            except (QueueFullError, ExpiredError) as error:
                return await self._answer_unread(error, own_id, scope, receive, send)
        scope[CONTEXT], started = context, time.perf_counter()
        for observer in self._observers:
            observer.began()
        answer = _SentAnswer(send, own_id, closes=self._is_draining())
        try:
            await self._pass_on(scope, receive, answer)
        finally:
            context.release(context.held)
            seconds = time.perf_counter() - started
            for observer in self._observers:
                observer.answered(scope, own_id, answer.status or CLIENT_GONE, seconds)
        return None

    async def _answer_unread(
        self, error: QueueFullError | ExpiredError, own_id: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Refuse a request by its headers; the server discards a body that is short and sure to come."""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        is_discarded = length.isdigit() and int(length) <= DISCARDED_BYTES_MAX and b"expect" not in headers
        error.args = (next(text for kind, text in _UNREAD.items() if isinstance(error, kind)),)
        response = error_response(error)
        self._admission.observer.answered_unread(response.status_code, self._admission.lag.seconds)
        await response(scope, receive, _SentAnswer(send, own_id, closes=not is_discarded).send)

    async def _pass_on(self, scope: Scope, receive: Receive, answer: "_SentAnswer") -> None:
        """Pass a request on, and answer errors that no route or handler has answered."""
        try:
            if scope["type"] == "http":
                settings = self._settings
                body = LimitedBody(scope, receive, settings.max_body_bytes, settings.body_timeout_s)
                receive = body.receive
                body.check_announced()
            await self._behind(scope, receive, answer.send)
        except ClientDisconnect:
            answer.status = CLIENT_GONE
        except asyncio.CancelledError:
            if answer.is_started or not self._is_draining():
                answer.status = answer.status or CLIENT_GONE
                raise
            await send_error(ClosedError("The service is shutting down."), scope, receive, answer.send)
        except Exception as error:
            if not isinstance(error, BodyTooLargeError):
                _logger.error("%s %s failed", scope.get("method", "WEBSOCKET"), scope["path"], exc_info=error)
            if not answer.is_started:
                await send_error(error, scope, receive, answer.send)
            elif answer.is_open:
                raise  # the server closes the connection, so that half an answer is not taken for a whole one

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check API key, Host and Origin, and whether the key has its share of requests under way; never of health."""
        context, is_counted = context_of(scope), False
        try:
            context.owner = self._access.key_name(scope)
            if scope["type"] == "http" and not scope["path"].startswith("/health/"):
                self._under_way.acquire(context.owner)
                is_counted = True
        except AccessError as error:
            return await send_error(error, scope, receive, send)
        except QueueFullError as error:
            self._admission.observer.refused(error.reason)
            return await send_error(error, scope, receive, send)
        try:
            return await self._app(scope, receive, send)
        finally:
            if is_counted:
                self._under_way.release(context.owner)


class _SentAnswer:
    """Sends an answer with the request's id; errors of other forms are replaced by problem documents.

    Attributes:
        status: HTTP status, 0 before it is known.
        is_open: Whether the answer has begun and not ended.
    """

    __slots__ = ("_closes", "_id", "_replaced", "_send", "is_open", "status")

    def __init__(self, send: Send, own_id: str, *, closes: bool) -> None:
        self._send, self._id, self._closes = send, (REQUEST_ID_HEADER, own_id.encode()), closes
        self.status, self.is_open, self._replaced = 0, False, False

    @property
    def is_started(self) -> bool:
        return self.status != 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status, self.is_open = message["status"], True
            headers = [*message.get("headers", ()), self._id, _NO_SNIFFING]
            if self._closes and _header(headers, b"connection") is None:
                headers.append((b"connection", b"close"))
            if self.status >= 400 and _header(headers, b"content-type") != _MEDIA_TYPE:
                return await self._replace(kind, headers)
            message = {**message, "headers": headers}
        elif kind in ("http.response.body", "websocket.http.response.body"):
            self.is_open = message.get("more_body", False)
            if self._replaced:
                return None
        elif kind == "websocket.accept":
            self.status = 101
            message = {**message, "headers": [*message.get("headers", ()), self._id]}
        elif kind == "websocket.close":
            self.status = self.status or 403
        return await self._send(message)

    async def _replace(self, kind: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send a problem document in place of an error of the framework."""
        self._replaced = True
        problem = framework_kind(self.status)
        response = problem_response(problem, problem.detail or f"{problem.title}.", headers=_kept(headers))
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

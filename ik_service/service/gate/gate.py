"""Gate: one ASGI layer around the application, passed by every request and every handshake of a stream.

    id -> metrics, log -> CORS -> time left? -> body limited -> API key -> rate -> share under way -> application

Callers always get a complete answer, or a problem document with the request's id. Each request has one
`RequestContext`. One rule bounds its memory before any allocation: up to `UNCOUNTED_BYTES` per request are not counted;
a larger request takes all its bytes from `memory_bytes`, shared among the API keys. The rule covers bodies (as their
bytes arrive) and decoded documents, results and answers (by their shapes); error documents have fewer bytes. All bytes
are released after the answer. The number of connections bounds the buffers of the connections.
"""

import asyncio
import logging
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from random import Random

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ik_service.service.errors import exceptions as api
from ik_service.service.errors import problem_documents as problems
from ik_service.service.errors.problem_documents import current_request_id, send_error
from ik_service.service.gate.access import Access
from ik_service.service.gate.admission import Admission, Arrival
from ik_service.service.gate.logs import AccessLog, current_trace, trace_fields
from ik_service.service.gate.metrics import SOLVE_CALLS, ServiceMetrics
from ik_service.service.gate.request_rate import RequestRate
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError
from ik_service.service.queue.fair_cap import FairCap, Owner
from ik_service.settings import ServiceSettings

if sys.version_info >= (3, 11):
    from asyncio import timeout_at
else:
    from async_timeout import timeout_at

CONTEXT = "ik_service"
"""Key of the `RequestContext` of a request in its ASGI scope, put there by the gate."""
IS_BODY_HERE = "ik_service.is_body_here"
"""Key of a function in the ASGI scope, from servers that know: whether `receive` gives the rest of the body at once."""
CLIENT_GONE = 499
"""Status in logs and metrics of a request whose caller disconnected before the answer."""
UNCOUNTED_BYTES = 64 * 1024
"""Most bytes that a request holds without being counted."""
BODY_RATE, AHEAD_S = 2**26, 0.5
"""Bytes per second of long bodies of one API key, and how far ahead of that they may be [s]: 1 MB takes up to 1 ms."""
DISCARDED_BYTES_MAX = 256 * 1024
"""Longest body [bytes] that is read and discarded to keep a connection open."""
REQUEST_ID_HEADER = b"x-request-id"
_VALID_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_RANDOM = Random(secrets.randbits(128))  # new ids are no secrets, and need no call into the kernel
_CORS_METHODS = ("GET", "POST", "PUT", "DELETE")
_CORS_HEADERS = ("Authorization", "If-Match", "If-None-Match", "Prefer", "X-API-Key", "X-Request-ID", "traceparent")
_CORS_EXPOSED = ("ETag", "Retry-After", "X-Request-ID")
_SENT_ONCE = frozenset((b"authorization", b"if-match", b"if-none-match", b"x-api-key"))
_UNREAD = {
    ShareExhaustedError: "Your API key has its share of what may wait already. The request was not read; wait until "
    "some have ended, and have fewer at once.",
    QueueFullError: "More is asked than can be answered in time. The request was not read; try again later.",
    ExpiredError: "The deadline passed before the request could be read. Nothing was solved.",
}
_REFUSALS = (api.AccessError, api.BodyTooLargeError, api.RepeatedHeaderError, QueueFullError, ExpiredError)
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")

_logger = logging.getLogger(__name__)


class Gate:
    """ASGI layer of the gate.

    Args:
        app: The application behind the gate.
        settings: The settings.
        bound_to: Listening address of the server; None if unknown.
        admission: Refuses solve requests by their headers alone.
        metrics: Counts all requests.
        log: Access log, with a line for every request except requests refused unread.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        bound_to: str | None,
        admission: Admission,
        metrics: ServiceMetrics,
        log: AccessLog | None = None,
    ) -> None:
        self._app, self._log, self._access = app, log, Access(settings, bound_to)
        self.settings, self.metrics, self.admission = settings, metrics, admission
        self.is_shared = is_shared = len(settings.keys) > 1  # whether several API keys share the service
        # counts the bytes held by all requests
        self.memory = FairCap(settings.memory_bytes, "bytes of bodies and answers", "bytes", is_shared=is_shared)
        # by API key: time at which the bytes read so far would have arrived at `BODY_RATE` [s]
        self.read_until = dict[Owner, float]()
        most = settings.max_connections
        per_s = settings.requests_per_s
        self._rate = None if per_s is None else RequestRate(per_s, settings.requests_burst)
        self._under_way = FairCap(most, "requests under way", "connections", is_shared=is_shared)
        self._behind: ASGIApp = self._answer
        if settings.cors_origins:
            self._behind = CORSMiddleware(
                self._answer, settings.cors_origins, _CORS_METHODS, _CORS_HEADERS, expose_headers=_CORS_EXPOSED
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        started = time.perf_counter()
        context = scope[CONTEXT] = RequestContext(self, scope, receive, send)
        current_request_id.set(context.id)
        current_trace.set(trace_fields(scope["headers"]))
        self.metrics.open_requests += 1
        try:
            await self._behind(scope, context.receive, context.send)
        finally:
            context.release(context.held)
            status, seconds = context.status or CLIENT_GONE, time.perf_counter() - started
            self.metrics.answered(scope, status, seconds, is_unread=context.is_unread)
            if self._log is not None and not context.is_unread:  # a log line costs more than this refusal
                self._log.answered(scope, context.id, context.owner, status, seconds)
        return None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; answer refusals, and failures not answered by a route or handler."""
        context: RequestContext = scope[CONTEXT]
        try:
            try:
                self._admit(scope, context)
            except _REFUSALS as error:
                return await self._refuse(error, scope, receive, send)
            await self._app(scope, receive, send)
        except ClientDisconnect:
            context.status = CLIENT_GONE
        except asyncio.CancelledError:
            if context.status or not self.admission.draining:
                raise
            await send_error(ClosedError("The service is shutting down."), scope, receive, send)
        except Exception as error:
            _logger.error("%s %s failed", scope.get("method", "WEBSOCKET"), scope["path"], exc_info=error)
            if not context.status:
                await send_error(error, scope, receive, send)
            elif context.is_open:
                raise  # the server closes the connection: half an answer must not look complete
        finally:
            if context.is_counted:
                self._under_way.release(context.owner)
        return None

    def _admit(self, scope: Scope, context: "RequestContext") -> None:
        """Refuse a request by its headers, by one of `_REFUSALS`."""
        is_http, path, headers = scope["type"] == "http", scope["path"], scope["headers"]
        is_post = is_http and scope["method"] == "POST"
        if is_post and path.endswith(SOLVE_CALLS):
            try:
                context.arrival = self.admission.admit(scope.get("raw_path") or path.encode(), headers)
            except (QueueFullError, ExpiredError):
                context.is_unread = True
                raise
        if is_http:
            advice = "Split the problems over several requests." if is_post else "That is the most for any body."
            context.limit_body(self.settings.max_body_bytes, advice)
        once = [name for name, _ in headers if name in _SENT_ONCE]
        for name in once:
            if once.count(name) > 1:  # a reader could overlook the second header
                raise api.RepeatedHeaderError(f"The request has {once.count(name)} {name.decode()} headers. Send one.")
        context.owner = self._access.key_name(scope)
        if self._rate is not None and context.owner is not None:
            self._rate.take(context.owner)
        if is_http and not path.startswith("/health/"):
            self._under_way.acquire(context.owner)
            context.is_counted = True

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal by the headers; the server discards an unread body if it is short and of known length."""
        context: RequestContext = scope[CONTEXT]
        if isinstance(error, (QueueFullError, ExpiredError)):
            self.metrics.refused(error.reason if isinstance(error, QueueFullError) else "deadline")
        if not context.is_unread:
            return await send_error(error, scope, receive, send)
        error.args = (next(text for kind, text in _UNREAD.items() if isinstance(error, kind)),)
        response, length = problems.error_response(error), context.headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) > DISCARDED_BYTES_MAX or b"expect" in context.headers:
            response.headers["Connection"] = "close"
        return await response(scope, receive, send)


class RequestContext:
    """Context of one request: receives the body and sends the answer, within the limits of the gate.

    Attributes:
        headers: Headers by name; of a repeated header the first.
        id: Id of the request: from its header if valid, else a new one.
        owner: Name of the API key; None without a key, or before the key is checked.
        arrival: Time and sender; solve requests only.
        is_unread: Whether admission has refused the request by its headers.
        is_counted: Whether the request counts as under way.
        held: Bytes held by the request.
        status: Status of the answer; 0 before the answer begins.
        is_open: Whether the answer has begun and not ended.
    """

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate, self._receive, self._send = gate, receive, send
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        given = self.headers.get(REQUEST_ID_HEADER, b"")
        self.id = given.decode() if _VALID_ID.fullmatch(given) else f"{_RANDOM.getrandbits(64):016x}"
        self._closes = gate.admission.draining
        self.owner: Owner = None
        self.arrival: Arrival | None = None
        self.held = self._counted = self.status = self._body_bytes = 0
        self.is_unread = self.is_counted = self.is_open = False
        self._is_body_here: Callable[[], bool] = scope.get(IS_BODY_HERE, bool)
        self._body_most, self._advice = 0, ""
        self._body_end: float | None = 0.0 if scope["type"] == "http" else None  # [s]; None after the body
        self._replacement: bytes | None = None

    # ------------------------------------------------------------------ body
    def limit_body(self, most: int, advice: str) -> None:
        """Bound the body; call before the body is read.

        Raises:
            BodyTooLargeError: Content-Length is larger; `receive` raises the same error if more bytes arrive.
        """
        self._body_most, self._advice = most, advice
        length = self.headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise self._body_too_large()

    def _body_too_large(self) -> api.BodyTooLargeError:
        return api.BodyTooLargeError(f"The body is larger than {self._body_most} bytes. {self._advice}")

    async def receive(self) -> Message:
        """Return the next message; the time for the body is limited, the wait for the disconnect is not."""
        if self._body_end is None:
            return await self._receive()
        timeout_s = self._gate.settings.body_timeout_s
        self._body_end = self._body_end or asyncio.get_running_loop().time() + timeout_s
        try:
            async with nullcontext() if self._is_body_here() else timeout_at(self._body_end):
                message = await self._receive()
        except asyncio.TimeoutError:
            raise api.BodyTimeoutError(f"The body did not come in within {timeout_s:g} s.") from None
        if message["type"] == "http.request":
            amount = len(message.get("body", b""))
            self._body_bytes += amount
            if self._body_bytes > self._body_most:
                raise self._body_too_large()
            self.reserve(amount)
            if self._body_bytes > UNCOUNTED_BYTES:
                await asyncio.sleep(self.rest_s(amount))
            if not message.get("more_body", False):
                self._body_end = None
        return message

    def rest_s(self, amount: int, *, is_discarded: bool = False) -> float:
        """Count bytes of a body; return the pause before more bytes of the same API key are read [s].

        Refused bodies always wait. Other bodies wait only if several keys share the service.
        """
        if self.is_unread or not (is_discarded or self._gate.is_shared):
            return 0.0
        until, now = self._gate.read_until, time.monotonic()
        until[self.owner] = end = max(until.get(self.owner, now), now) + amount / BODY_RATE
        return end - now if end - now > AHEAD_S else 0.0

    # ------------------------------------------------------------------ memory
    def reserve(self, amount: int) -> None:
        """Hold more bytes until the request ends.

        Raises:
            ShareExhaustedError: Requests of this API key would exceed its share.
            QueueFullError: All requests together would exceed the budget.
        """
        held = self.held + amount
        if held > max(UNCOUNTED_BYTES, self._counted):
            try:
                self._gate.memory.acquire(self.owner, held - self._counted)
            except QueueFullError as error:
                self._gate.metrics.refused(error.reason)
                raise
            self._counted = held
        self.held = held

    def release(self, amount: int) -> None:
        """Hold fewer bytes."""
        self.held -= amount
        counted = self.held if self.held > UNCOUNTED_BYTES else 0
        if counted < self._counted:
            self._gate.memory.release(self.owner, self._counted - counted)
            self._counted = counted

    @contextmanager
    def reserved(self, amount: int) -> Iterator[None]:
        """Hold more bytes within a block; errors as in `reserve`."""
        self.reserve(amount)
        try:
            yield
        finally:
            self.release(amount)

    def reserve_answer(self, amount: int) -> None:
        """Hold bytes for the largest possible answer; further errors as in `reserve`.

        Raises:
            AnswerTooLargeError: The answer would exceed the limit of a single answer.
        """
        most = self._gate.settings.max_answer_bytes
        if amount > most:
            raise api.AnswerTooLargeError(
                f"The answer may have {amount} bytes, and at most {most} are sent. Ask for fewer problems, "
                "configurations, solutions or links at once, include less, or accept application/msgpack."
            )
        self.reserve(amount)

    # ------------------------------------------------------------------ answer
    async def send(self, message: Message) -> None:
        """Send a message with the request's id; a problem document replaces an error of another form."""
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status, self.is_open = message["status"], True
            headers = [*message.get("headers", ()), (REQUEST_ID_HEADER, self.id.encode()), _NO_SNIFFING]
            if self._closes and b"connection" not in dict(headers):
                headers.append((b"connection", b"close"))
            if self.status >= 400 and dict(headers).get(b"content-type") != problems.PROBLEM_MEDIA_TYPE.encode():
                problem = problems.framework_kind(self.status)
                response = problems.problem_response(problem, problem.detail or f"{problem.title}.")
                kept = [field for field in headers if not field[0].lower().startswith((b"content-", b"transfer-"))]
                headers, self._replacement = [*kept, *response.raw_headers], bytes(response.body)
            message = {**message, "headers": headers}
        elif kind in ("http.response.body", "websocket.http.response.body"):
            self.is_open = message.get("more_body", False)
            if self._replacement is not None:
                if self.is_open:
                    return
                message = {**message, "body": self._replacement}
        elif kind == "websocket.accept":
            self.status = 101
            message = {**message, "headers": [*message.get("headers", ()), (REQUEST_ID_HEADER, self.id.encode())]}
        elif kind == "websocket.close":
            self.status = self.status or 403
        await self._send(message)

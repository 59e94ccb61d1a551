"""A middleware for Ray's proxies: their own errors become problem documents like those of the service.

Ray answers overload and timeouts in plain text, and gives no answer when a replica dies. Ray loads this middleware from
`ik_service.integrations.proxy_layer.layers` where the variable `RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH` of the
cluster's environment has this value. It has no effect where HAProxy replaces Ray's proxy.
"""

import re
import secrets
from collections.abc import Iterable
from http.client import responses
from typing import Any

import orjson
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing of the service is imported: a proxy has 5 s to start, of which Warp would take one, and memory.
MEDIA_TYPE = b"application/problem+json"
REQUEST_ID = b"x-request-id"
_SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")

Problem = tuple[int, str, str]  # status, code and title, as in `ik_service.service.errors.problem_documents`
REPLICA_LOST: Problem = (503, "replica_lost", "The process that was answering has ended")
"""The answer to a request whose replica died."""
LOST_DETAIL = "The process that was answering this request has ended, and another one takes its place. Ask again."
PROXY_PROBLEMS: dict[int, Problem] = {
    404: (404, "not_found", "Not found"),
    408: (504, "deadline_passed", "The deadline passed"),
    500: (500, "internal_error", "Internal error"),
    503: (503, "unavailable", "The service cannot answer now"),
}
"""Problems by the status of Ray's own errors."""
_FOR_RAY_ALONE = frozenset((b"x-request-timeout-seconds", b"x-request-disconnect-disabled"))
"""Headers that would switch off Ray's limits; callers must not send them."""
_RETRY_AFTER_S = b"1"


def layers() -> list[Middleware]:
    """Return the middleware of Ray's proxies."""
    return [Middleware(ProxyLayer)]


class ProxyLayer:
    """ASGI middleware around a proxy of Ray."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and replace errors of Ray."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        given = _header(scope["headers"], REQUEST_ID)
        own_id = given if given is not None and _SANE_ID.fullmatch(given) else secrets.token_hex(8).encode()
        kept = [field for field in scope["headers"] if field[0] not in (REQUEST_ID, *_FOR_RAY_ALONE)]
        answer = _Answer(send, own_id)
        try:
            await self._app({**scope, "headers": [*kept, (REQUEST_ID, own_id)]}, receive, answer.send)
        except Exception:
            if answer.head is not None:
                await answer.send_problem(REPLICA_LOST, LOST_DETAIL)
            raise
        if scope["type"] == "http" and not answer.is_started:
            await answer.send_problem(REPLICA_LOST, LOST_DETAIL)
        return None


class _Answer:
    """The answer to a caller. Its head waits for the body's first part, since a replica may be lost between the two."""

    def __init__(self, send: Send, own_id: bytes) -> None:
        self._send, self._id = send, own_id
        self.is_started, self._is_replaced = False, False  # whether a message has been sent; whether it is another one
        self.head: Message | None = None  # a head that has come without anything of a body

    async def send(self, message: Message) -> None:
        """Send a message, or a problem document instead."""
        if message["type"] == "http.response.start":
            headers = [field for field in message.get("headers", ()) if field[0].lower() != REQUEST_ID]
            status = message["status"]
            if status >= 400 and _header(headers, b"content-type") != MEDIA_TYPE:
                self._is_replaced = True
                problem = PROXY_PROBLEMS.get(status, (status, f"http_{status}", responses.get(status, "Error")))
                return await self.send_problem(problem, f"{problem[2]}.", _header(headers, b"retry-after"))
            self.head = {**message, "headers": [*headers, (REQUEST_ID, self._id)]}
            return None
        if self._is_replaced:
            return None
        self.is_started = True
        if self.head is not None:
            head, self.head = self.head, None
            await self._send(head)
        return await self._send(message)

    async def send_problem(self, problem: Problem, detail: str, retry_after: bytes | None = None) -> None:
        """Send a problem document."""
        self.is_started = True
        body = orjson.dumps(_document(problem, detail, self._id.decode("ascii")))
        headers = [(b"content-type", MEDIA_TYPE), (b"content-length", b"%d" % len(body)), (REQUEST_ID, self._id)]
        if problem[0] == 503:
            headers.append((b"retry-after", retry_after or _RETRY_AFTER_S))
        await self._send({"type": "http.response.start", "status": problem[0], "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _document(problem: Problem, detail: str, own_id: str) -> dict[str, Any]:
    status, code, title = problem
    kind = f"urn:ik-service:problem:{code}"
    return {"type": kind, "title": title, "status": status, "code": code, "detail": detail, "request_id": own_id}


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for key, value in headers if key.lower() == name), None)

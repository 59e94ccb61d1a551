"""What stands in Ray's proxies before they pass requests on: their own errors are problem documents as all others are.

Ray's answers, that too much waits or that time is over, are plain text, and a replica that dies leaves no answer at
all. Ray finds this layer through the variable `RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH`, which the environment of the
cluster sets to `ik_service.deploy.proxy_layer.layers`. HAProxy in the place of Ray's proxy asks nobody.
"""

from typing import Any

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ik_service.api.problems import MEDIA_TYPE, PROBLEMS, Kind, framework_kind, problem_response
from ik_service.api.request_id import HEADER, current_request_id, request_id
from ik_service.batching.errors import ExpiredError

REPLICA_LOST = Kind(503, "replica_lost", "The process that was answering has ended", retry_after_s=1)
"""How a request is answered whose replica died."""
LOST_DETAIL = "The process that was answering this request has ended, and another one takes its place. Ask again."
_TIME_OVER = 408
"""What Ray says where the time of a request is over."""
_FOR_RAY_ALONE = frozenset((b"x-request-timeout-seconds", b"x-request-disconnect-disabled"))
"""Headers that would switch off Ray's bounds; they are for proxies before it, not for callers."""


def layers() -> list[Middleware]:
    """Return what Ray puts around its proxies."""
    return [Middleware(ProxyLayer)]


class ProxyLayer:
    """ASGI layer around a proxy of Ray.

    Args:
        app: The proxy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and see that its answer is one of the service."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        own_id = request_id(_header(scope["headers"], HEADER))
        current_request_id.set(own_id)
        kept = [field for field in scope["headers"] if field[0] != HEADER and field[0] not in _FOR_RAY_ALONE]
        answer = _Answer(send, own_id)
        await self._app({**scope, "headers": [*kept, (HEADER, own_id.encode())]}, receive, answer.send)
        if scope["type"] == "http" and not answer.is_started:
            await answer.send_problem(REPLICA_LOST, LOST_DETAIL)
        return None


class _Answer:
    """What goes to the caller.

    Attributes:
        is_started: Whether anything has been sent.
    """

    def __init__(self, send: Send, own_id: str) -> None:
        self._send, self._id = send, own_id.encode()
        self.is_started, self._is_replaced = False, False

    async def send(self, message: Message) -> None:
        """Send a message, or a problem document in its place."""
        if message["type"] == "http.response.start":
            headers = [field for field in message.get("headers", ()) if field[0].lower() != HEADER]
            if message["status"] >= 400 and _header(headers, b"content-type") != MEDIA_TYPE.encode():
                self._is_replaced = True
                kind = PROBLEMS[ExpiredError] if message["status"] == _TIME_OVER else framework_kind(message["status"])
                return await self.send_problem(kind, f"{kind.title}.", _header(headers, b"retry-after"))
            message = {**message, "headers": [*headers, (HEADER, self._id)]}
        elif self._is_replaced:
            return None
        self.is_started = True
        return await self._send(message)

    async def send_problem(self, kind: Kind, detail: str, retry_after: bytes | None = None) -> None:
        """Send a problem document."""
        own = {HEADER.decode(): self._id.decode()}
        response = problem_response(kind, detail, headers=own)
        if retry_after is not None:
            response.headers["Retry-After"] = retry_after.decode("latin-1")
        self.is_started = True
        await self._send({"type": "http.response.start", "status": kind.status, "headers": response.raw_headers})
        await self._send({"type": "http.response.body", "body": response.body})


def _header(headers: Any, name: bytes) -> bytes | None:
    return next((value for key, value in headers if key.lower() == name), None)

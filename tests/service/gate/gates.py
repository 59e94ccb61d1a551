"""Gates around applications of tests, and servers of applications on real sockets."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn
from starlette.responses import PlainTextResponse

from ik_service.service.gate.admission import Admission
from ik_service.service.gate.connection import server_config
from ik_service.service.gate.gate import Gate
from ik_service.settings import ServiceSettings
from tests.bounded import until

PATIENCE_S = 20.0  # for a server that is to act within half a second, on a busy machine
KEYS = {name: f"{name}-0123456789abcdef" for name in ("flood", "calm")}


def api_keys(*names: str) -> str:
    return ",".join(f"{name}:{KEYS[name]}" for name in names)


class Pool:
    """Refuses what a test wants, as a pool does that would take too long, and notes what it is asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.error = error

    def require_room(self, expected: Any, *, timeout_s: float, lag_s: float) -> None:
        self.asked.append((expected, timeout_s, lag_s))
        if self.error is not None:
            raise self.error


class Record:
    """Notes what metrics and the log are told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.answers: list[tuple[str, int, bool]] = []
        self.lines: list[tuple[Any, ...]] = []
        self.open_requests = 0

    def refused(self, reason: str) -> None:
        self.reasons.append(reason)

    def answered(self, scope: Any, *told: Any, is_unread: bool | None = None) -> None:
        if is_unread is None:
            self.lines.append(told)
        else:
            status, seconds = told
            assert 0.0 < seconds < 60.0
            self.answers.append((scope["path"], status, is_unread))
            self.open_requests -= 1


def gate_around(
    app: Callable[..., Any],
    *,
    draining: bool = False,
    admission: Admission | None = None,
    log: Any = None,
    **options: Any,
) -> Gate:
    """The gate of a service with some settings, its metrics a `Record`; without API keys where these name none."""
    settings, metrics = ServiceSettings(**{"insecure": True, **options}), Record()
    admission = admission or Admission(10.0)
    admission.draining = draining
    own: Any = metrics  # a record of calls in place of metrics and log
    return Gate(app, settings, None, admission, own, log or own)


async def whole_body(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers with the body."""
    if scope["type"] == "http":
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        await PlainTextResponse(body)(scope, receive, send)


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def code(self) -> tuple[int, str]:
        """Status and code of a problem document."""
        assert self.headers[b"content-type"] == b"application/problem+json"
        assert int(self.headers[b"content-length"]) == len(self.body)
        assert self.document["request_id"] == self.headers[b"x-request-id"].decode()
        return self.status, self.document["code"]

    @property
    def document(self) -> Any:
        return json.loads(self.body)


async def ask(
    gate: Gate,
    path: str = "/x",
    chunks: Iterable[bytes | None] = (b"",),
    *,
    key: str | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
    method: str = "POST",
) -> Answer:
    """The answer to a request whose body comes in chunks; a chunk that is None never comes."""
    waiting, sent = list(chunks), []
    given = [*headers, *([(b"x-api-key", KEYS[key].encode())] if key else [])]

    async def receive() -> Any:
        if not waiting or waiting[0] is None:
            return await asyncio.Event().wait()  # for ever
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    await gate({"type": "http", "method": method, "path": path, "headers": given}, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], dict(sent[0]["headers"]), body)


@contextmanager
def real_server(
    app: Any, settings: ServiceSettings, run: Callable[[Any], Any] = asyncio.run
) -> Iterator[tuple[uvicorn.Server, tuple[str, int]]]:
    """The server of an application and its address; `run` makes its event loop."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = uvicorn.Server(server_config(app, settings))
        thread = threading.Thread(target=lambda: run(running.serve(sockets=[listener])))
        thread.start()
        until(lambda: running.started, PATIENCE_S)
        try:
            yield running, listener.getsockname()
        finally:
            running.should_exit = True
            thread.join(PATIENCE_S)
        assert not thread.is_alive()

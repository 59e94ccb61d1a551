"""One connection of the HTTP server, with bounds that uvicorn does not have: for headers, for slow callers, for errors.

Callers are cut off who open a connection and send nothing, send headers in drops, go on sending a body after the
answer, or do not take the answer. Bodies that somebody reads are the business of `body_bounds`. Requests that come in
one piece meet no timer here.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import Any, Protocol, cast

import orjson
from fastapi import FastAPI
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ik_service.api.admission import Admission
from ik_service.api.limits import MAX_STREAM_MESSAGE_BYTES
from ik_service.api.problems import MEDIA_TYPE, Kind, framework_kind, problem_document
from ik_service.api.refusing import RefusingConnection
from ik_service.settings import ServiceSettings


def server_config(app: FastAPI, settings: ServiceSettings) -> Config:
    """Return how uvicorn serves the application."""
    return Config(
        app,
        http=_bounded_connection(settings, getattr(app, "admission", None)),
        ws_max_size=MAX_STREAM_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # messages are small; packing them costs more than it saves
        timeout_keep_alive=math.ceil(settings.keep_alive_s),
        timeout_graceful_shutdown=math.ceil(settings.drain_s),
        backlog=2048,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
    )


@dataclass(frozen=True)
class ConnectionBounds:
    """Bounds of one connection; see the settings of the same names."""

    max_header_bytes: int
    max_connections: int
    header_timeout_s: float
    body_timeout_s: float
    answer_timeout_s: float
    keep_alive_s: float


def _bounded_connection(settings: ServiceSettings, admission: Admission | None) -> type[asyncio.Protocol]:
    """Return the class of connections, which uvicorn makes by itself."""
    names = ConnectionBounds.__dataclass_fields__
    found = ConnectionBounds(**{name: getattr(settings, name) for name in names})
    return type("Connection", (BoundedConnection,), {"bounds": found, "admission": admission})


class _Timer(Protocol):
    def cancel(self) -> None: ...


class BoundedConnection(RefusingConnection):
    """A connection that does not wait for ever. The class attribute `bounds` says for how long."""

    bounds: ConnectionBounds

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._incoming: _Timer | None = None  # headers, or the rest of a body that nobody reads
        self._outgoing: _Timer | None = None
        self._in_headers, self._header_bytes = False, 0
        self._refusal: Kind | None = None

    # ------------------------------------------------------------------ incoming
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request; refuse where too many connections are open."""
        super().connection_made(cast(asyncio.Transport, transport))  # of TCP
        if len(self.connections) > self.bounds.max_connections:
            self._refuse(framework_kind(503), "Too many connections are open.")
        else:
            self._await_incoming(self.bounds.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; headers that are not complete yet are counted and timed."""
        super().data_received(data)
        if self._in_headers and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > self.bounds.max_header_bytes:
                self._refuse(framework_kind(431), self._headers_too_large())
            elif self._incoming is None:
                self._await_incoming(self.bounds.header_timeout_s)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Check the size of the headers and start the request."""
        self._in_headers = False
        self._end_incoming()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.bounds.max_header_bytes:
            self._refusal = framework_kind(431)
            raise ValueError(self._headers_too_large())  # the parser gives up and `send_400_response` answers
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request, also one whose answer has gone out before."""
        super().on_message_complete()
        if self._incoming is not None and self.cycle is not None and self.cycle.response_complete:
            self._await_incoming(self.bounds.keep_alive_s)

    def on_response_complete(self) -> None:
        """Wait for the next request; what is left of this one's body is thrown away, for a while."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_outgoing()
        elif not self.pipeline and self.cycle.response_complete and self.cycle.more_body:
            self._await_incoming(self.bounds.body_timeout_s)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over."""
        self._disarm()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or has too large headers."""
        kind, self._refusal = self._refusal, None
        if kind is None:
            self._refuse(framework_kind(400), "This is not a valid HTTP request.")
        else:
            self._refuse(kind, self._headers_too_large())

    # ------------------------------------------------------------------ outgoing
    def pause_writing(self) -> None:
        """Begin to wait for a caller that does not take the answer."""
        super().pause_writing()
        self._await_outgoing()

    def resume_writing(self) -> None:
        """The caller has taken most of the answer."""
        super().resume_writing()
        self._end_outgoing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a request."""
        super().timeout_keep_alive_handler()
        self._await_outgoing()

    # ------------------------------------------------------------------ timers
    def _await_incoming(self, seconds: float) -> None:
        self._end_incoming()
        self._incoming = self.loop.call_later(seconds, self._incoming_late)

    def _end_incoming(self) -> None:
        if self._incoming is not None:
            self._incoming.cancel()
            self._incoming = None

    def _await_outgoing(self) -> None:
        if self._outgoing is None and self.transport.get_write_buffer_size() > 0:
            self._outgoing = self.loop.call_later(self.bounds.answer_timeout_s, self.transport.abort)

    def _end_outgoing(self) -> None:
        if self._outgoing is not None:
            self._outgoing.cancel()
            self._outgoing = None

    def _disarm(self) -> None:
        self._end_incoming()
        self._end_outgoing()

    def _incoming_late(self) -> None:
        self._incoming = None
        if self.transport.is_closing():
            return
        if self._in_headers:
            seconds = self.bounds.header_timeout_s
            self._refuse(framework_kind(408), f"The headers did not come in within {seconds:g} s.")
        else:
            self.transport.close()

    # ------------------------------------------------------------------ answers
    def _refuse(self, kind: Kind, detail: str) -> None:
        """Answer without the application, and close."""
        body = orjson.dumps(problem_document(kind, detail))
        lines = [
            STATUS_LINE[kind.status],
            *(b"%b: %b\r\n" % field for field in self.server_state.default_headers),
            f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n".encode(),
        ]
        if kind.retry_after_s is not None:
            lines.append(b"retry-after: %d\r\n" % kind.retry_after_s)
        self._end_incoming()
        self.transport.write(b"".join([*lines, b"\r\n", body]))
        self.transport.close()
        self._await_outgoing()

    def _headers_too_large(self) -> str:
        return f"The request's line and headers are larger than {self.bounds.max_header_bytes} bytes."

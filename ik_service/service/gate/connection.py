"""Connections of the HTTP server, with more limits than uvicorn's: header size, times, ambiguous requests.

The server closes a connection if the caller sends nothing, sends headers too slowly, goes on sending a body after the
answer, or does not read the answer. A request in one piece starts no timer here. Ambiguous requests, read differently
by different HTTP parsers, are refused: two Host headers, transfer codings other than chunked, long chunk extensions.
"""

import asyncio
import math
from collections import defaultdict
from typing import Any, cast

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ik_service.service.errors.problem_documents import framework_kind, problem_response
from ik_service.service.gate.gate import BODY_RATE, CONTEXT, IS_BODY_HERE
from ik_service.service.gate.stream_connection import StreamConnection
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.schema.limits import MAX_STREAM_MESSAGE_BYTES
from ik_service.settings import ServiceSettings

HALF_CLOSED_S = 2.0
"""Time for the answer to a caller with a closed side, and for a caller to see the end of the service's side."""
PIPELINED_MOST = 64
"""Requests that a caller may send before it has the answer to the first."""
HTTP_SLICE_BYTES = 16 * 1024
"""Bytes that are parsed at once; limits are checked in between."""
CHUNK_LINE_BYTES, CHUNK_EXTRA_BYTES = 16, 16 * 1024
"""Usual bytes around a chunk, and further ones that a body may have: extensions and trailers."""
SPARED_PART = 8
"""This part of all connections, an eighth, may be idle without an API key before those of keys are closed."""
EXTRA_MOST = 64
"""Extra connections at once; the oldest is closed for the next."""
EXTRA_S = 1.0
"""Time that an extra connection may take to send its request."""
LOOKS = 4
"""So often in the time of an answer is looked whether the caller has taken all; the time is exact to one of them."""
_FULL = 503, "Too many connections are open."


class ConnectionSlots:
    """Connection slots of a server; a new connection beyond the limit closes an idle connection or becomes an extra.

    Order of closing: first connections without an API key, except a spared part, because supervisors have no key; then
    connections of the key with the most idle connections. In each case the longest idle connection is closed. If all
    connections have requests under way, a new connection is an extra connection: its only allowed request is a health
    route, at once. So supervisors always get their answers.
    """

    def __init__(self, most: int) -> None:
        self._spared = max(1, most // SPARED_PART)
        # by the API key of their last request (None: no key); longest idle first
        self.idle = defaultdict[Owner, dict[LimitedConnection, None]](dict)
        self.extra: dict[LimitedConnection, None] = {}  # oldest first

    def make_room(self) -> bool:
        """Close an idle connection; return whether any was idle."""
        bare = self.idle[None]
        most = max((held for owner, held in self.idle.items() if owner is not None), key=len, default=bare)
        if len(bare) > self._spared or not most:
            most = bare
        return _close_first(most)


def _close_first(connections: "dict[LimitedConnection, None]") -> bool:
    first = next(iter(connections), None)
    if first is not None:
        del connections[first]
        first.close_now()
    return first is not None


class AnswerTransport:
    """Transport of one answer: sends headers with the first part of the body, since a call of the kernel takes long."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle, self._transport, self.is_closing = cycle, cycle.transport, cycle.transport.is_closing
        self.is_ending = False  # whether the caller still sends a body, and no answer will follow
        self.headers: bytes | None = None  # the waiting headers; None before the headers, empty after they are sent

    def write(self, data: bytes) -> None:
        """Send a part of the answer; headers wait for the next part, which may be empty."""
        if self.headers is None and self._cycle.response_started:
            self.headers = data
        else:
            self._transport.write(self.headers + data if self.headers else data)
            self.headers = self.headers and b""

    def close(self) -> None:
        """Send waiting headers, and close; only the own side during a body: a reset could overtake the answer."""
        if self.headers:
            self.write(b"")
        self.is_ending = self._cycle.more_body and not self.is_closing()
        if self.is_ending:
            self._transport.write_eof()
        else:
            self._transport.close()


class LimitedConnection(HttpToolsProtocol):
    """HTTP connection with limits."""

    settings: ServiceSettings  # the settings with the limits (class attribute)
    slots: ConnectionSlots  # slots of all connections of the server (class attribute)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._incoming: asyncio.TimerHandle | None = None  # timer of headers, or of the rest of a discarded body
        self._looking: asyncio.TimerHandle | None = None
        self._untaken: RequestResponseCycle | None = None  # request with an unread answer at the last check
        self._untaken_looks = 0
        self._in_headers, self._is_extra = False, False
        self._beside_body = 0  # bytes of headers; after the headers, bytes around the chunks of the body
        self._idle_among: dict[LimitedConnection, None] = {}
        self._running: RequestResponseCycle | None = None  # the newest request is `cycle`; it may wait behind this one

    # ------------------------------------------------------------------ incoming
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first request; beyond the limit, close an idle connection or become an extra one."""
        super().connection_made(cast(asyncio.Transport, transport))  # a TCP transport
        self._is_extra = len(self.connections) > self.settings.max_connections and not self.slots.make_room()
        if self._is_extra:
            self.slots.extra[self] = None
            if len(self.slots.extra) > EXTRA_MOST:
                _close_first(self.slots.extra)
        else:
            self._idle_among = self.slots.idle[None]
            self._idle_among[self] = None
        self._await_incoming(min(EXTRA_S if self._is_extra else math.inf, self.settings.header_timeout_s))
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and notify the request under way."""
        self._let_go()
        self.close_now()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the web socket protocol."""
        self._let_go()
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Take bytes in slices, check the limits of incomplete headers, and limit the rate of a discarded body."""
        if self._running is not None and self._answer.is_ending:
            self.flow.pause_reading()
            self.loop.call_later(len(data) / BODY_RATE, self.flow.resume_reading)
            return None
        for start in range(0, len(data), HTTP_SLICE_BYTES):
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return None
            part = data[start : start + HTTP_SLICE_BYTES]
            super().data_received(part)
            self._beside_body += len(part)
            if self.transport.is_closing():
                return None
            if self._in_headers:
                if self._beside_body > self.settings.max_header_bytes:
                    return self._refuse(*self._headers_too_large())
                if self._incoming is None:
                    self._await_incoming(self.settings.header_timeout_s)
            elif self._beside_body > CHUNK_EXTRA_BYTES:
                return self._refuse(400, "There is too much around the chunks of the body.")
        cycle: Any = self.cycle
        if cycle is not None and cycle.response_complete and cycle.more_body and CONTEXT in cycle.scope:
            self.flow.pause_reading()
            rest_s = cycle.scope[CONTEXT].rest_s(len(data), is_discarded=True)
            self.loop.call_later(rest_s, self.flow.resume_reading)
        return None

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_headers, self._beside_body = True, 0

    def on_headers_complete(self) -> None:
        """Check the headers and start the request."""
        self._in_headers = False
        if self._incoming is not None:
            self._end_incoming()
        fault: tuple[int, str] | None = None
        size, hosts, coding = len(self.url), 0, b""
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                coding += b"," + value if coding else value
        if size > self.settings.max_header_bytes:
            fault = self._headers_too_large()
        elif hosts > 1:
            fault = 400, f"The request has {hosts} Host headers. Send one."
        elif coding and coding.strip().lower() != b"chunked":
            given = coding[:100].decode("latin-1")
            fault = 501, f"Transfer-Encoding is {given!r}. Send 'chunked' or a Content-Length."
        elif self._is_extra and not self.url.startswith(b"/health/"):
            fault = _FULL
        elif len(self.pipeline) >= PIPELINED_MOST:
            fault = 400, f"More than {PIPELINED_MOST} requests came before their answers."
        if fault is not None:
            self._refuse(*fault)
            raise ValueError  # ends the parser
        self._beside_body = -HTTP_SLICE_BYTES  # the number of header bytes in this slice is unknown
        self._idle_among.pop(self, None)
        super().on_headers_complete()
        self.headers = self.headers[:]  # a copy: uvicorn would add the trailers of the body to the headers
        if self._is_extra and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_chunk_header(self) -> None:
        """Allow the line of a chunk."""
        self._beside_body -= CHUNK_LINE_BYTES

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._beside_body -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, also a request answered before its end."""
        super().on_message_complete()
        if self._incoming is not None and self.cycle is not None and self.cycle.response_complete:
            self._await_incoming(self.settings.keep_alive_s)

    def on_response_complete(self) -> None:
        """Wait for the next request; discard the rest of the answered request's body for a limited time."""
        if self._answer.headers:
            self._answer.write(b"")  # an answer without a body
        super().on_response_complete()
        if self.cycle.response_complete:
            scope: Any = self.cycle.scope
            owner = scope[CONTEXT].owner if CONTEXT in scope else None
            self._idle_among = self.slots.idle[owner]
            self._idle_among[self] = None
            if self.cycle.more_body and not self.pipeline and not self.transport.is_closing():
                self._await_incoming(HALF_CLOSED_S if self._answer.is_ending else self.settings.body_timeout_s)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        if not self.transport.is_closing():  # closing: the headers were refused already
            self._refuse(400, "This is not a valid HTTP request.")

    def eof_received(self) -> Any:
        """Answer complete requests of a half-closed connection, if the answers come soon.

        Returns:
            True keeps the writing side open in asyncio; False closes the connection. uvicorn declares None.
        """
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._await_incoming(HALF_CLOSED_S)
        return True

    def close_now(self) -> None:
        """Close at once and disconnect the request under way, because uvicorn may not notify this request."""
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running, self._answer = cycle, AnswerTransport(cycle)
        cast(Any, cycle.scope)[IS_BODY_HERE] = lambda: not cycle.more_body
        cycle.transport = cast(asyncio.Transport, self._answer)
        super()._start_asgi_task(cycle, app)

    def _let_go(self) -> None:
        self._end_incoming()
        if self._looking is not None:
            self._looking.cancel()
        self._idle_among.pop(self, None)
        self.slots.extra.pop(self, None)

    # ------------------------------------------------------------------ outgoing
    def _refuse(self, status: int, detail: str) -> None:
        """Answer without the application, and close; close without an answer if earlier answers are outstanding."""
        cycle = self.cycle
        if cycle is not None and (self.pipeline or (cycle.response_started and not cycle.response_complete)):
            self.close_now()
            return
        response = problem_response(framework_kind(status), detail, headers={"Connection": "close"})
        fields = [b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *response.raw_headers)]
        self._end_incoming()
        self.transport.write(b"".join([STATUS_LINE[status], *fields, b"\r\n", bytes(response.body)]))
        self.transport.close()

    def _headers_too_large(self) -> tuple[int, str]:
        return 431, f"The request's line and headers are larger than {self.settings.max_header_bytes} bytes."

    # ------------------------------------------------------------------ timers
    def _await_incoming(self, seconds: float) -> None:
        self._end_incoming()
        self._incoming = self.loop.call_later(seconds, self._incoming_late)

    def _end_incoming(self) -> None:
        if self._incoming is not None:
            self._incoming.cancel()
            self._incoming = None

    def _look(self) -> None:
        """Close the connection of a caller slow to read an answer, also while the connection is closing."""
        is_same = self.transport.get_write_buffer_size() > 0 and self._untaken is self._running
        self._untaken, self._untaken_looks = self._running, self._untaken_looks + 1 if is_same else 0
        if self._untaken_looks < LOOKS:
            self._looking = self.loop.call_later(self.settings.answer_timeout_s / LOOKS, self._look)
        else:
            self.close_now()

    def _incoming_late(self) -> None:
        self._incoming = None
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._refuse(408, f"The headers did not come in within {self.settings.header_timeout_s:g} s.")
        elif self._is_extra and self.cycle is None:
            self._refuse(*_FULL)
        elif self.cycle is not None and not self.cycle.response_complete:
            self.close_now()  # half-closed: the caller may have gone
        else:
            self.transport.close()


def server_config(app: ASGIApp, settings: ServiceSettings) -> Config:
    """Return the uvicorn configuration, with a connection class for these settings."""
    parts = {"settings": settings, "slots": ConnectionSlots(settings.max_connections)}
    return Config(
        app,
        http=type("Connection", (LimitedConnection,), parts),
        ws=StreamConnection,
        ws_max_size=MAX_STREAM_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # messages are small; compression costs more than it saves
        timeout_keep_alive=math.ceil(settings.keep_alive_s),
        timeout_graceful_shutdown=math.ceil(settings.drain_s),
        backlog=2048,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
    )

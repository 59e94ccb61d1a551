"""One connection of the HTTP server, with limits that uvicorn does not have: of headers, of time, of ambiguity.

A connection is closed whose caller sends nothing, sends headers too slowly, goes on sending a body after the answer, or
does not read the answer. `bodies` limits bodies that are read. A request that comes in one piece starts no
timer here. Requests that two readers of HTTP could read differently are refused: two Host headers, transfer codings
other than chunks, chunks with long extensions.
"""

import asyncio
from typing import Any, cast

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ik_service.service.errors.problem_documents import (
    PROBLEM_MEDIA_TYPE,
    ProblemKind,
    framework_kind,
    problem_document,
)
from ik_service.service.gate.request_context import CONTEXT, context_of, owner_of
from ik_service.service.queue.fair_cap import Owner
from ik_service.settings import ServiceSettings

HALF_CLOSED_S = 2.0
"""Time for the answer to a caller that has closed its side: one that has gone looks the same."""
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


class ConnectionSlots:
    """Slots of a server's connections: idle ones are closed where there are too many, and some extra ones are open.

    Where no further connection is allowed, an idle one is closed: first one that has shown no API key, but for a part
    of those, since supervisors have none; then one of the key that has most, the one that was idle for longest first.
    Where all have requests under way, a new connection is an extra one: it may ask for health, at once, and for nothing
    else. So supervisors get their answers whatever callers do.

    Args:
        most: Connections that the server may have.
    """

    def __init__(self, most: int) -> None:
        self._spared = max(1, most // SPARED_PART)
        self._idle: dict[Owner, dict[LimitedConnection, None]] = {}  # by API key, longest idle first
        self._owners: dict[LimitedConnection, Owner] = {}
        self._extra: dict[LimitedConnection, None] = {}

    def add_idle(self, connection: "LimitedConnection", owner: Owner) -> None:
        """Note that a connection has no request under way.

        Args:
            connection: The connection.
            owner: The API key of its last request, None without.
        """
        self.set_busy(connection)
        self._owners[connection] = owner
        self._idle.setdefault(owner, {})[connection] = None

    def set_busy(self, connection: "LimitedConnection") -> None:
        """Note that a connection is not idle."""
        if connection in self._owners:
            owner = self._owners.pop(connection)
            del self._idle[owner][connection]
            if not self._idle[owner]:
                del self._idle[owner]

    def remove(self, connection: "LimitedConnection") -> None:
        """Note that a connection is closed."""
        self.set_busy(connection)
        self._extra.pop(connection, None)

    def make_room(self) -> bool:
        """Close an idle connection; return whether there was one."""
        if not self._idle:
            return False
        keys = [owner for owner in self._idle if owner is not None]
        owner = max(keys, key=lambda key: len(self._idle[key]), default=None)
        if len(self._idle.get(None, ())) > self._spared:
            owner = None
        connection = next(iter(self._idle[owner]))
        self.set_busy(connection)
        connection.close_now()
        return True

    def admit_extra(self, connection: "LimitedConnection") -> None:
        """Admit an extra connection; close the oldest one where there are too many."""
        self._extra[connection] = None
        if len(self._extra) > EXTRA_MOST:
            first = next(iter(self._extra))
            del self._extra[first]
            first.close_now()


class LimitedConnection(HttpToolsProtocol):
    """A connection with limits.

    Attributes:
        settings: The settings, which have the limits; an attribute of the class.
        slots: Slots of all connections of the server, an attribute of the class.
    """

    settings: ServiceSettings
    slots: ConnectionSlots

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._incoming: asyncio.TimerHandle | None = None  # headers, or the rest of a body that nobody reads
        self._outgoing: asyncio.TimerHandle | None = None
        self._in_headers, self._header_bytes = False, 0
        self._refusal: tuple[ProblemKind, str] | None = None
        self._is_extra = False
        self._running: RequestResponseCycle | None = None  # `cycle` is the newest request, which may wait behind it
        # Of a body in chunks: bytes fed to the parser, bytes of the body among them, and chunks.
        self._is_chunked, self._fed, self._body_bytes, self._chunks = False, 0, 0, 0

    # ------------------------------------------------------------------ incoming
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first request; with too many connections, close an idle one or be an extra one."""
        super().connection_made(cast(asyncio.Transport, transport))  # of TCP
        self._is_extra = len(self.connections) > self.settings.max_connections and not self.slots.make_room()
        if self._is_extra:
            self.slots.admit_extra(self)
            self._await_incoming(min(EXTRA_S, self.settings.header_timeout_s))
        else:
            self.slots.add_idle(self, None)
            self._await_incoming(self.settings.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and tell the request that is being answered."""
        self._disarm()
        self.slots.remove(self)
        self.close_now()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, in slices; a body that is discarded comes in as slowly as one that is read."""
        for start in range(0, len(data), HTTP_SLICE_BYTES):
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            self._take(data[start : start + HTTP_SLICE_BYTES])
        cycle: Any = self.cycle
        if cycle is not None and cycle.response_complete and cycle.more_body and CONTEXT in cycle.scope:
            self.flow.pause_reading()
            rest_s = context_of(cycle.scope).rest_s(len(data), is_discarded=True)
            self.loop.call_later(rest_s, self.flow.resume_reading)

    def _take(self, data: bytes) -> None:
        """Take bytes; incomplete headers are counted and timed, and bytes around chunks counted."""
        was_chunked = self._is_chunked
        super().data_received(data)
        if self._is_chunked and not self.transport.is_closing():
            if was_chunked:
                self._fed += len(data)
            else:  # how many of these bytes are headers is not known
                self._body_bytes, self._chunks = 0, 0
            if self._fed - self._body_bytes - CHUNK_LINE_BYTES * self._chunks > CHUNK_EXTRA_BYTES:
                self._refuse(framework_kind(400), "There is too much around the chunks of the body.")
                return
        if self._in_headers and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > self.settings.max_header_bytes:
                self._refuse(framework_kind(431), self._headers_too_large())
            elif self._incoming is None:
                self._await_incoming(self.settings.header_timeout_s)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers of a body in chunks are ignored."""
        if self._in_headers:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Count a chunk."""
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Check the headers and start the request."""
        self._in_headers = False
        self._end_incoming()
        self._refusal = self._fault()
        if self._refusal is not None:
            raise ValueError(self._refusal[1])  # the parser gives up and `send_400_response` answers
        self.slots.set_busy(self)
        super().on_headers_complete()
        if self._is_extra and self.cycle is not None:
            self.cycle.keep_alive = False

    def _fault(self) -> tuple[ProblemKind, str] | None:
        """Return why the headers of a request are refused, None where they are not."""
        size, hosts, coding = len(self.url), 0, b""
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                coding += b"," + value if coding else value
        self._is_chunked, self._fed = bool(coding), 0
        if size > self.settings.max_header_bytes:
            return framework_kind(431), self._headers_too_large()
        if hosts > 1:
            return framework_kind(400), f"The request has {hosts} Host headers. Send one."
        if coding and coding.strip().lower() != b"chunked":
            given = coding[:100].decode("latin-1")
            return framework_kind(501), f"Transfer-Encoding is {given!r}. Send 'chunked' or a Content-Length."
        if self._is_extra and not self.url.startswith(b"/health/"):
            return framework_kind(503), "Too many connections are open."
        if len(self.pipeline) >= PIPELINED_MOST:
            return framework_kind(400), f"More than {PIPELINED_MOST} requests came before their answers."
        return None

    def on_message_complete(self) -> None:
        """End a request, also one that was answered before."""
        self._is_chunked = False
        super().on_message_complete()
        if self._incoming is not None and self.cycle is not None and self.cycle.response_complete:
            self._await_incoming(self.settings.keep_alive_s)

    def on_response_complete(self) -> None:
        """Wait for the next request; the rest of this one's body is discarded, for a limited time."""
        super().on_response_complete()
        if not self.flow.write_paused:
            self._end_outgoing()
        if self.cycle.response_complete:
            self.slots.add_idle(self, owner_of(self.cycle.scope))
        if self.transport.is_closing():
            self._await_outgoing()
        elif not self.pipeline and self.cycle.response_complete and self.cycle.more_body:
            self._await_incoming(self.settings.body_timeout_s)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the web socket protocol."""
        self._disarm()
        self.slots.remove(self)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, or headers that are refused."""
        refusal, self._refusal = self._refusal, None
        self._refuse(*(refusal or (framework_kind(400), "This is not a valid HTTP request.")))

    def eof_received(self) -> Any:
        """Answer complete requests of a caller that has closed its side, if the answers come soon.

        Returns:
            True, by which asyncio keeps the side that writes open, or False; uvicorn declares None.
        """
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._await_incoming(HALF_CLOSED_S)
        return True

    def close_now(self) -> None:
        """Close at once; the request that is being answered, which uvicorn may not tell, writes nothing more."""
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # ------------------------------------------------------------------ outgoing
    def pause_writing(self) -> None:
        """Start the timer of a caller that does not read the answer."""
        super().pause_writing()
        self._await_outgoing()

    def resume_writing(self) -> None:
        """Stop that timer once the answer has been read whole."""
        super().resume_writing()
        if self.cycle is None or self.cycle.response_complete:
            self._end_outgoing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
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
            self._outgoing = self.loop.call_later(self.settings.answer_timeout_s, self.close_now)

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
            seconds = self.settings.header_timeout_s
            self._refuse(framework_kind(408), f"The headers did not come in within {seconds:g} s.")
        elif self._is_extra and self.cycle is None:
            self._refuse(framework_kind(503), "Too many connections are open.")
        elif self.cycle is not None and not self.cycle.response_complete:
            self.close_now()  # its caller has closed its side, and may have gone
        else:
            self.transport.close()

    # ------------------------------------------------------------------ answers
    def _refuse(self, kind: ProblemKind, detail: str) -> None:
        """Answer without the application, and close; only close where earlier answers are still to come."""
        cycle = self.cycle
        if cycle is not None and (self.pipeline or (cycle.response_started and not cycle.response_complete)):
            return self.close_now()
        body = orjson.dumps(problem_document(kind, detail))
        lines = [
            STATUS_LINE[kind.status],
            *(b"%b: %b\r\n" % field for field in self.server_state.default_headers),
            f"content-type: {PROBLEM_MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n".encode(),
        ]
        if kind.retry_after_s is not None:
            lines.append(b"retry-after: %d\r\n" % kind.retry_after_s)
        self._end_incoming()
        self.transport.write(b"".join([*lines, b"\r\n", body]))
        self.transport.close()
        self._await_outgoing()
        return None

    def _headers_too_large(self) -> str:
        return f"The request's line and headers are larger than {self.settings.max_header_bytes} bytes."

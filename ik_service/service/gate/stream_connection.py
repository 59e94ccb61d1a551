"""The connection of one stream, with limits that uvicorn does not have: for callers that do not read, and for floods.

While a caller does not read what it is sent, nothing is read from it; after a while its connection is closed, also
where the stream is closing. Bytes are parsed in slices, so that the event loop serves others in between. The rate of
frames that are no messages is limited.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

from ik_service.service.schema.stream import CloseCode

FRAME_SLICE_BYTES = 4096
"""Bytes that are parsed in one turn of the event loop: some 30 ticks, or 700 empty frames, which take 10 ms."""
UNTAKEN_S = 10.0
"""Time between two looks; a caller must have read what it was sent, or answered the closing, from one to the next."""
CONTROL_BURST, CONTROL_RATE = 200.0, 100.0
"""Frames that are no messages (pings, pongs, empty parts): so many at once, then so many per second."""


class StreamConnection(WebSocketsSansIOProtocol):
    """A web socket connection with limits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn.debug = False  # else the library logs all headers of the handshake, API keys among them
        self._unparsed = bytearray()
        self._control_left, self._control_at = CONTROL_BURST, self.loop.time()
        self._is_stuck = False
        self._looking = self.loop.call_later(UNTAKEN_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking and parsing."""
        self._looking.cancel()
        self._unparsed.clear()
        super().connection_lost(exc)

    # ------------------------------------------------------------------ incoming
    def data_received(self, data: bytes) -> None:
        """Take bytes; more than a slice is parsed in later turns of the event loop, and nothing is read until then."""
        is_parsing = bool(self._unparsed)
        self._unparsed += data
        if not is_parsing:
            self._parse()

    def _parse(self) -> None:
        data = bytes(self._unparsed[:FRAME_SLICE_BYTES])
        if not data or self.transport.is_closing():
            return
        super().data_received(data)
        del self._unparsed[:FRAME_SLICE_BYTES]
        if self._unparsed:
            self.loop.call_soon(self._parse)
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Read only where all bytes are parsed, all messages taken by the session, and all answers read."""
        if self.transport.is_closing():
            return
        if self._unparsed or self.read_paused or not self.writable.is_set():
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """Return the next event; continue reading once none is left."""
        message = await super().receive()
        self._read_or_not()
        return message

    def handle_events(self) -> None:
        """Handle what was parsed; too many frames that are no messages end the stream."""
        control = sum(map(_is_control, self.conn.events))
        if control:
            now = self.loop.time()
            allowed = min(CONTROL_BURST, self._control_left + CONTROL_RATE * (now - self._control_at))
            self._control_left, self._control_at = allowed - control, now
            if self._control_left < 0.0:
                return self._fail(CloseCode.POLICY, "Too many frames that are no messages.")
        super().handle_events()
        if self.conn.handshake_exc is not None:
            self.transport.close()  # a handshake that cannot be read has no event and no timer
        return None

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; text that is not UTF-8 ends the stream."""
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                return self._fail(CloseCode.NOT_TEXT, "Text must be UTF-8.")
        return super().send_receive_event_to_app()

    def _fail(self, code: int, reason: str) -> None:
        if not self.transport.is_closing() and not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    # ------------------------------------------------------------------ outgoing
    def pause_writing(self) -> None:
        """Stop reading from a caller that does not read."""
        super().pause_writing()
        self._read_or_not()

    def resume_writing(self) -> None:
        """Read again."""
        super().resume_writing()
        self._is_stuck = False
        self._read_or_not()

    def _look(self) -> None:
        """Cut off a caller that has read nothing, or not answered the closing, since the last look."""
        was_stuck = self._is_stuck
        self._is_stuck = self.close_sent or self.transport.is_closing() or not self.writable.is_set()
        if was_stuck and self._is_stuck:
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(UNTAKEN_S, self._look)


def _is_control(event: Any) -> bool:
    """Return whether a frame is no message; no size limits empty parts."""
    return isinstance(event, Frame) and (
        event.opcode in (Opcode.PING, Opcode.PONG) or (event.opcode is Opcode.CONT and not event.data and not event.fin)
    )

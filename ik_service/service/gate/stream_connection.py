"""Connection of one stream, with more limits than uvicorn's: backpressure for slow readers, protection from floods.

While a caller does not read its answers, the service reads no messages from this caller; after a while the connection
is closed, also while the stream is closing. Bytes are parsed in slices, so that the event loop serves other callers in
between. The rate of control frames and empty frames is limited.
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
    """Web socket connection with limits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn.debug = False  # otherwise the library logs all headers of the handshake, with API keys
        self._unparsed = bytearray()
        self._control_left, self._control_at = CONTROL_BURST, self.loop.time()
        self._is_stuck = False
        self._looking = self.loop.call_later(UNTAKEN_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and the parsing."""
        self._looking.cancel()
        self._unparsed.clear()
        super().connection_lost(exc)

    # ------------------------------------------------------------------ incoming
    def data_received(self, data: bytes) -> None:
        """Take bytes; bytes beyond a slice are parsed in later turns of the event loop, with reading paused."""
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
        """Read only if all bytes are parsed, the session has taken all messages and the caller has read all answers."""
        if self.transport.is_closing():
            return
        if self._unparsed or self.read_paused or not self.writable.is_set():
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """Return the next event; continue reading after the last event."""
        message = await super().receive()
        self._read_or_not()
        return message

    def handle_events(self) -> None:
        """Handle parsed frames; too many control frames or empty frames end the stream."""
        # The size limit does not cover empty parts.
        frames = [event for event in self.conn.events if isinstance(event, Frame)]
        empty = [frame for frame in frames if frame.opcode is Opcode.CONT and not frame.data and not frame.fin]
        control = len(empty) + sum(frame.opcode in (Opcode.PING, Opcode.PONG) for frame in frames)
        if control:
            now = self.loop.time()
            allowed = min(CONTROL_BURST, self._control_left + CONTROL_RATE * (now - self._control_at))
            self._control_left, self._control_at = allowed - control, now
            if self._control_left < 0.0:
                return self._fail(CloseCode.POLICY, "Too many frames that are no messages.")
        super().handle_events()
        if self.conn.handshake_exc is not None:
            self.transport.close()  # an invalid handshake has no event and no timer
        return None

    def send_receive_event_to_app(self) -> None:
        """Pass a message to the session; text with invalid UTF-8 ends the stream."""
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
        """Stop reading, because the caller does not read its answers."""
        super().pause_writing()
        self._read_or_not()

    def resume_writing(self) -> None:
        """Read again."""
        super().resume_writing()
        self._is_stuck = False
        self._read_or_not()

    def _look(self) -> None:
        """Close the connection if the caller has read nothing, or not answered the closing, since the last check."""
        was_stuck = self._is_stuck
        self._is_stuck = self.close_sent or self.transport.is_closing() or not self.writable.is_set()
        if was_stuck and self._is_stuck:
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(UNTAKEN_S, self._look)

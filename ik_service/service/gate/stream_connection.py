"""The connection of one stream, with limits that uvicorn does not have: for callers that do not read, and for floods.

While a caller does not read what it is sent, nothing is read from it; after a while its connection is closed, also
where the stream is closing. Bytes are parsed in slices, so that the event loop serves others in between. The rate of
frames that are no messages is limited.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ik_service.service.schema.stream import CloseCode

FRAME_SLICE_BYTES = 4096
"""Bytes that are parsed in one turn of the event loop: some 30 ticks, or 700 empty frames, which take 10 ms."""
UNTAKEN_S = 10.0
"""Longest time for a caller to read what it was sent, and to answer the closing of a stream."""
CONTROL_BURST, CONTROL_RATE = 200.0, 100.0
"""Frames that are no messages (pings, pongs, empty parts): so many at once, then so many per second."""


class StreamConnection(WebSocketsSansIOProtocol):
    """A web socket connection with limits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn.debug = False  # else the library logs all headers of the handshake, API keys among them
        self._unparsed = bytearray()
        self._parsing: asyncio.Handle | None = None
        self._untaken: asyncio.TimerHandle | None = None
        self._control_left, self._control_at = CONTROL_BURST, self.loop.time()

    # ------------------------------------------------------------------ incoming
    def data_received(self, data: bytes) -> None:
        """Take bytes; more than a slice is parsed in later turns of the event loop, and nothing is read until then."""
        if not self._unparsed and len(data) <= FRAME_SLICE_BYTES:
            return super().data_received(data)
        self._unparsed += data
        if self._parsing is None:
            self._parse()
        return None

    def handle_events(self) -> None:
        """Handle what was parsed; a handshake that cannot be read has no event and no timer, and ends here."""
        super().handle_events()
        if self.conn.handshake_exc is not None:
            self.transport.close()

    def _parse(self) -> None:
        self._parsing = None
        if self.transport.is_closing():
            self._unparsed.clear()
            return
        data = bytes(self._unparsed[:FRAME_SLICE_BYTES])
        del self._unparsed[:FRAME_SLICE_BYTES]
        super().data_received(data)
        if self._unparsed:
            self._parsing = self.loop.call_soon(self._parse)
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

    def handle_ping(self) -> None:
        """Answer a ping; too many end the stream."""
        if self._counts_control():
            super().handle_ping()

    def handle_pong(self, event: Any) -> None:
        """Take a pong; too many end the stream."""
        if self._counts_control():
            super().handle_pong(event)

    def handle_cont(self, event: Any) -> None:
        """Take a part of a message; empty parts are counted, since no size limits them."""
        if len(event.data) or event.fin or self._counts_control():
            super().handle_cont(event)

    def _counts_control(self) -> bool:
        """Count a frame that is no message; return False and end the stream where there are too many."""
        now = self.loop.time()
        self._control_left = min(CONTROL_BURST, self._control_left + CONTROL_RATE * (now - self._control_at)) - 1.0
        self._control_at = now
        if self._control_left >= 0.0:
            return True
        self._fail(CloseCode.POLICY, "Too many frames that are no messages.")
        return False

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; text that is not UTF-8 ends the stream."""
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.NOT_TEXT, "Text must be UTF-8.")
                return
        super().send_receive_event_to_app()

    def _fail(self, code: int, reason: str) -> None:
        if self.transport.is_closing() or self.close_sent:
            return
        self.conn.fail(code, reason)
        self.handle_parser_exception()
        self._cut_off_later()

    # ------------------------------------------------------------------ outgoing
    def pause_writing(self) -> None:
        """Stop reading from a caller that does not read, and start its timer."""
        super().pause_writing()
        self._read_or_not()
        self._cut_off_later()

    def resume_writing(self) -> None:
        """Stop that timer, and read again."""
        super().resume_writing()
        if self._untaken is not None and not self.transport.is_closing() and not self.close_sent:
            self._untaken.cancel()
            self._untaken = None
        self._read_or_not()

    async def send(self, message: Any) -> None:
        """Send an event; after the last one the timer of the caller's answer starts."""
        await super().send(message)
        if self.close_sent or self.transport.is_closing():
            self._cut_off_later()

    def handle_close(self, event: Any) -> None:
        """End because the caller closes the stream."""
        super().handle_close(event)
        self._cut_off_later()

    def shutdown(self) -> None:
        """End because the service ends."""
        super().shutdown()
        self._cut_off_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        if self._untaken is not None:
            self._untaken.cancel()
        if self._parsing is not None:
            self._parsing.cancel()
        self._unparsed.clear()
        super().connection_lost(exc)

    def _cut_off_later(self) -> None:
        if self._untaken is None:
            self._untaken = self.loop.call_later(UNTAKEN_S, self.transport.abort)

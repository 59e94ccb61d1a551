"""One keep-alive HTTP/1.1 connection that costs little, so that the load and not its maker is measured."""

import asyncio
from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


class HttpConnection(asyncio.Protocol):
    """Sends one request at a time and waits for its answer.

    Attributes:
        answers: Answers so far.
    """

    def __init__(self) -> None:
        self.answers = 0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._lost = asyncio.Event()

    @classmethod
    async def open(cls, host: str, port: int) -> "Self":
        """Connect.

        Raises:
            OSError: Nobody listens there.
        """
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        return connection

    @property
    def is_open(self) -> bool:
        """Whether the other side has not closed."""
        return self._transport is not None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request; return status and body of the answer.

        Raises:
            ConnectionError: The other side has closed.
        """
        if self._transport is None:
            raise ConnectionResetError("The connection is closed.")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    async def close(self) -> None:
        """Disconnect, and wait until that is done."""
        if self._transport is not None:
            self._transport.close()
        await self._lost.wait()

    # what asyncio calls
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # of TCP
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request under way."""
        self._transport = None
        self._lost.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("The connection was closed before the answer."))

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        self._parser.feed_data(data)

    # what the parser calls
    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Bring the answer."""
        body, self._body = b"".join(self._body), []
        self.answers += 1
        status = self._parser.get_status_code()
        self._parser = httptools.HttpResponseParser(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, body))


def raw_request(method: str, path: str, host: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a request.

    Args:
        method: HTTP method.
        path: Path and query.
        host: Host and port.
        body: Body, if any.
        headers: Further headers.
    """
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body

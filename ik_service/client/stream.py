"""Streams of the clients: one web socket each, a step and its answer at a time."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2
from numpy.typing import ArrayLike
from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from ik_service.client.errors import ClientError, UnreachableError
from ik_service.client.messages.reply_errors import check_reply
from ik_service.client.messages.stream_messages import Conversation, StreamAnswer, StreamConfigured

_FAILURES = (OSError, TimeoutError, WebSocketException)


class _Base:
    """What both kinds of streams have in common.

    Args:
        url: Address of the stream.
        headers: Of the handshake.
        conversation: What is said.
        timeout_s: Longest time to connect, or to wait for a message [s].
    """

    def __init__(self, url: str, headers: dict[str, str], conversation: Conversation, timeout_s: float) -> None:
        self._url, self._conversation, self._timeout_s = url, conversation, timeout_s
        self._options: dict[str, Any] = {
            "additional_headers": headers,
            "open_timeout": timeout_s,
            "compression": None,  # messages are small; packing them costs more than it saves
        }
        self._configured: StreamConfigured | None = None

    @property
    def configured(self) -> StreamConfigured:
        """Names of the coordinates, engine, device and seeds.

        Raises:
            ClientError: The stream has not been opened.
        """
        if self._configured is None:
            raise ClientError("Open the stream first: use it in a `with` block.")
        return self._configured

    def _failed(self, error: Exception) -> ClientError:
        """What a failure of the connection means to the caller."""
        if isinstance(error, InvalidStatus):
            refused = error.response
            request = httpx2.Request("GET", self._url)
            headers = list(refused.headers.raw_items())
            try:
                check_reply(
                    httpx2.Response(refused.status_code, headers=headers, content=bytes(refused.body), request=request)
                )
            except ClientError as told:
                return told
        return UnreachableError(f"{self._url}: {str(error) or type(error).__name__}.")


class Stream(_Base):
    """Follows targets, each step from where the last one ended. Use it in a `with` block, from one thread.

    `configured` tells names and device once it is open. After an error of a step the stream goes on.
    """

    _connection: ClientConnection

    def __enter__(self) -> Self:
        """Connect and configure; kernels are there once this is done.

        Raises:
            ServiceError: The service refuses the stream or its configuration.
            UnreachableError: There is no service, or no answer in time.
        """
        self._block = ExitStack()
        try:
            self._connection = self._block.enter_context(connect(self._url, **self._options))
        except _FAILURES as error:
            raise self._failed(error) from error
        try:
            self._send(self._conversation.configuration)
            self._configured = self._conversation.configured(self._receive())
        except ClientError:
            self._block.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._block.close()

    def step(
        self,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        joint_q: ArrayLike | None = None,
    ) -> StreamAnswer:
        """Send targets and wait for the configuration that meets them.

        Args:
            positions: Target positions [m], shape [targets, 3], or [3] for a single target; rows of targets that leave
                the position free are None.
            orientations_xyzw: Target orientations, shape [targets, 4], or [4] for a single target; the same.
            joint_q: Start here instead of at the last answer [rad or m], shape [joint_coord_count].

        Raises:
            ServiceError: The step is refused or fails.
            UnreachableError: The connection has ended, or there is no answer in time.
        """
        seq, message = self._conversation.step(positions, orientations_xyzw, joint_q)
        self._send(message)
        while (answer := self._conversation.answer(self._receive(), seq)) is None:
            pass
        return answer

    def _send(self, message: str | bytes) -> None:
        try:
            self._connection.send(message)
        except _FAILURES as error:
            raise self._failed(error) from error

    def _receive(self) -> str | bytes:
        try:
            return self._connection.recv(self._timeout_s)
        except _FAILURES as error:
            raise self._failed(error) from error


class AsyncStream(_Base):
    """Follows targets, each step from where the last one ended. Use it in an `async with` block, from one task.

    `configured` tells names and device once it is open. After an error of a step the stream goes on.
    """

    _connection: AsyncConnection

    async def __aenter__(self) -> Self:
        """Connect and configure; kernels are there once this is done.

        Raises:
            ServiceError: The service refuses the stream or its configuration.
            UnreachableError: There is no service, or no answer in time.
        """
        self._block = AsyncExitStack()
        try:
            self._connection = await self._block.enter_async_context(connect_async(self._url, **self._options))
        except _FAILURES as error:
            raise self._failed(error) from error
        try:
            await self._send(self._conversation.configuration)
            self._configured = self._conversation.configured(await self._receive())
        except ClientError:
            await self._block.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._block.aclose()

    async def step(
        self,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        joint_q: ArrayLike | None = None,
    ) -> StreamAnswer:
        """Send targets and wait for the configuration that meets them.

        Args:
            positions: Target positions [m], shape [targets, 3], or [3] for a single target; rows of targets that leave
                the position free are None.
            orientations_xyzw: Target orientations, shape [targets, 4], or [4] for a single target; the same.
            joint_q: Start here instead of at the last answer [rad or m], shape [joint_coord_count].

        Raises:
            ServiceError: The step is refused or fails.
            UnreachableError: The connection has ended, or there is no answer in time.
        """
        seq, message = self._conversation.step(positions, orientations_xyzw, joint_q)
        await self._send(message)
        while (answer := self._conversation.answer(await self._receive(), seq)) is None:
            pass
        return answer

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._connection.send(message)
        except _FAILURES as error:
            raise self._failed(error) from error

    async def _receive(self) -> str | bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._connection.recv()
        except _FAILURES as error:
            raise self._failed(error) from error


def stream_url(base_url: str, robot: str) -> str:
    """Return the address of a robot's stream below that of the service."""
    return f"{base_url.replace('http', 'ws', 1).rstrip('/')}/v1/robots/{quote(robot, safe='')}/stream"

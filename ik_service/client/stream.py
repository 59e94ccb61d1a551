"""Streams of the clients: one web socket each, a step and its answer at a time."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.sync.client import ClientConnection, connect

from ik_service.client.actions import awaitable, blocking
from ik_service.client.messages.stream_messages import Frame
from ik_service.client.stream_core import StreamCore, StreamMethods


class Stream(StreamCore):
    """Follows targets, each step from where the last one ended. Use it in a `with` block, from one thread.

    `configured` tells names and device once it is open. After an error of a step the stream goes on.
    """

    step = blocking(StreamMethods.step)

    _configure = blocking(StreamMethods.configure)
    _connection: ClientConnection

    def __enter__(self) -> Self:
        """Connect and configure; kernels are there once this is done.

        Raises:
            ServiceError: The service refuses the stream or its configuration.
            UnreachableError: There is no service, or no answer in time.
        """
        with ExitStack() as block:
            with self._connection_errors():
                self._connection = block.enter_context(connect(self._url, **self._options))
            self._configure()
            self._block = block.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._block.close()

    def _perform(self, message: Frame | None) -> Frame | None:
        with self._connection_errors():
            if message is not None:
                self._connection.send(message)
                return None
            return self._connection.recv(self._timeout_s)


class AsyncStream(StreamCore):
    """Follows targets, each step from where the last one ended. Use it in an `async with` block, from one task.

    `configured` tells names and device once it is open. After an error of a step the stream goes on.
    """

    step = awaitable(StreamMethods.step)

    _configure = awaitable(StreamMethods.configure)
    _connection: AsyncConnection

    async def __aenter__(self) -> Self:
        """Connect and configure; kernels are there once this is done.

        Raises:
            ServiceError: The service refuses the stream or its configuration.
            UnreachableError: There is no service, or no answer in time.
        """
        async with AsyncExitStack() as block:
            with self._connection_errors():
                self._connection = await block.enter_async_context(connect_async(self._url, **self._options))
            await self._configure()
            self._block = block.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._block.aclose()

    async def _perform(self, message: Frame | None) -> Frame | None:
        with self._connection_errors():
            if message is not None:
                await self._connection.send(message)
                return None
            async with asyncio.timeout(self._timeout_s):
                return await self._connection.recv()

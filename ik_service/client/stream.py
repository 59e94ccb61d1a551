"""Streams of the clients: a web socket each, one step at a time."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.sync.client import ClientConnection, connect

from ik_service.client.actions import awaitable, blocking
from ik_service.client.stream_core import StreamCore, StreamMethods
from ik_service.client.stream_messages import Message

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


class Stream(StreamCore):
    """A stream of targets; each step starts at the last answer. Use it in a `with` block, from one thread.

    `configured` has names and device once it is open. An error of a step does not end the stream.
    """

    step = blocking(StreamMethods.step)

    _configure = blocking(StreamMethods.configure)
    _connection: ClientConnection

    def __enter__(self) -> "Self":
        """Connect and configure; the kernels are compiled when this returns.

        Raises:
            ServiceError: The service refuses the stream or its configuration.
            UnreachableError: The service cannot be reached, or does not answer in time.
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

    def _perform(self, message: Message | None) -> Message | None:
        with self._connection_errors():
            if message is not None:
                self._connection.send(message)
                return None
            return self._connection.recv(self._timeout_s)


class AsyncStream(StreamCore):
    """A stream of targets; each step starts at the last answer. Use it in an `async with` block, from one task.

    `configured` has names and device once it is open. An error of a step does not end the stream.
    """

    step = awaitable(StreamMethods.step)

    _configure = awaitable(StreamMethods.configure)
    _connection: AsyncConnection

    async def __aenter__(self) -> "Self":
        """Connect and configure; the kernels are compiled when this returns.

        Raises:
            ServiceError: The service refuses the stream or its configuration.
            UnreachableError: The service cannot be reached, or does not answer in time.
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

    async def _perform(self, message: Message | None) -> Message | None:
        with self._connection_errors():
            if message is not None:
                await self._connection.send(message)
                return None
            return await asyncio.wait_for(self._connection.recv(), self._timeout_s)

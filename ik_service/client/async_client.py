"""The client for programs with an event loop."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

import httpx2

from ik_service.client.actions import Wait, awaitable
from ik_service.client.client_core import ClientCore, ClientMethods
from ik_service.client.requests import Call
from ik_service.client.stream import AsyncStream

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


class AsyncClient(ClientCore[AsyncStream, httpx2.AsyncBaseTransport]):
    """A client of the service. Use it in an `async with` block, or close it; tasks may share it."""

    solve = awaitable(ClientMethods.solve)
    forward = awaitable(ClientMethods.forward)
    robots = awaitable(ClientMethods.robots)
    robot = awaitable(ClientMethods.robot)
    put_robot = awaitable(ClientMethods.put_robot)
    delete_robot = awaitable(ClientMethods.delete_robot)

    _stream_class, _http_class = AsyncStream, httpx2.AsyncClient
    _http: httpx2.AsyncClient

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "Self":
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def _perform(self, action: Call | Wait) -> httpx2.Response | httpx2.RequestError | None:
        if isinstance(action, Wait):
            await asyncio.sleep(action.seconds)
            return None
        try:
            return await self._http.request(action.method, action.path, content=action.content, headers=action.headers)
        except httpx2.RequestError as error:
            return error

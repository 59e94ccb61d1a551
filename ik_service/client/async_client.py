"""The client for programs with an event loop."""

import asyncio
from types import TracebackType
from typing import Self

import httpx2

from ik_service.client.actions import Wait, awaitable
from ik_service.client.client_core import ClientCore, ClientMethods
from ik_service.client.messages.requests import Call, Encoding
from ik_service.client.stream import AsyncStream


class AsyncClient(ClientCore[AsyncStream]):
    """A client of the service. Use it in an `async with` block, or close it; tasks may share it.

    Args:
        url: Address of the service, such as "http://127.0.0.1:8000".
        api_key: API key, where the service requires one.
        timeout_s: Longest time to connect, to send or to wait for bytes, and of all waits between tries [s]. The
            service gets it as the deadline of a solve. Infinity is eleven days.
        retries: Further tries where the service is busy or there is no connection.
        encoding: Encoding of problems and results, "msgpack" or "json".
        transport: Replaces the network in tests.
    """

    solve = awaitable(ClientMethods.solve)
    forward = awaitable(ClientMethods.forward)
    robots = awaitable(ClientMethods.robots)
    robot = awaitable(ClientMethods.robot)
    put_robot = awaitable(ClientMethods.put_robot)
    delete_robot = awaitable(ClientMethods.delete_robot)

    _stream_class = AsyncStream
    _http: httpx2.AsyncClient

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 3,
        encoding: Encoding = "msgpack",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(timeout_s, retries, encoding)
        headers = {} if api_key is None else {"X-API-Key": api_key}
        self._http = httpx2.AsyncClient(base_url=url, headers=headers, timeout=self._timeout_s, transport=transport)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
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

"""The client for programs without an event loop."""

import time
from types import TracebackType
from typing import Self

import httpx2

from ik_service.client.actions import Wait, blocking
from ik_service.client.client_core import ClientCore, ClientMethods
from ik_service.client.messages.requests import Call, Encoding
from ik_service.client.stream import Stream


class Client(ClientCore[Stream]):
    """A client of the service. Use it in a `with` block, or close it; threads may share it.

    Args:
        url: Address of the service, such as "http://127.0.0.1:8000".
        api_key: API key, where the service requires one.
        timeout_s: Longest time to connect, to send or to wait for bytes, and of all waits between tries [s]. The
            service gets it as the deadline of a solve. Infinity is eleven days.
        retries: Further tries where the service is busy or there is no connection.
        encoding: Encoding of problems and results, "msgpack" or "json".
        transport: Replaces the network in tests.
    """

    solve = blocking(ClientMethods.solve)
    forward = blocking(ClientMethods.forward)
    robots = blocking(ClientMethods.robots)
    robot = blocking(ClientMethods.robot)
    put_robot = blocking(ClientMethods.put_robot)
    delete_robot = blocking(ClientMethods.delete_robot)

    _stream_class = Stream
    _http: httpx2.Client

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 3,
        encoding: Encoding = "msgpack",
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(timeout_s, retries, encoding)
        headers = {} if api_key is None else {"X-API-Key": api_key}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=self._timeout_s, transport=transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def _perform(self, action: Call | Wait) -> httpx2.Response | httpx2.RequestError | None:
        if isinstance(action, Wait):
            time.sleep(action.seconds)
            return None
        try:
            return self._http.request(action.method, action.path, content=action.content, headers=action.headers)
        except httpx2.RequestError as error:
            return error

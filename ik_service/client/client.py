"""The client for programs without an event loop."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

import httpx2

from ik_service.client.actions import Wait, blocking
from ik_service.client.client_core import ClientCore, ClientMethods
from ik_service.client.requests import Call
from ik_service.client.stream import Stream

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


class Client(ClientCore[Stream, httpx2.BaseTransport]):
    """A client of the service. Use it in a `with` block, or close it; threads may share it."""

    solve = blocking(ClientMethods.solve)
    forward = blocking(ClientMethods.forward)
    robots = blocking(ClientMethods.robots)
    robot = blocking(ClientMethods.robot)
    put_robot = blocking(ClientMethods.put_robot)
    delete_robot = blocking(ClientMethods.delete_robot)

    _stream_class, _http_class = Stream, httpx2.Client
    _http: httpx2.Client

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Self":
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

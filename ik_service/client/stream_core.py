"""What both kinds of streams have in common: their state, and their methods as generators, see `actions`."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from numpy.typing import ArrayLike
from websockets.exceptions import InvalidStatus, WebSocketException

from ik_service.client.actions import Steps
from ik_service.client.errors import ClientError, UnreachableError
from ik_service.client.reply_errors import check_reply
from ik_service.client.stream_messages import Conversation, StreamAnswer, StreamConfigured


class StreamCore:
    """The state of a stream.

    Args:
        url: Address of the stream.
        headers: Headers of the handshake.
        conversation: Writes and reads its messages.
        timeout_s: Longest time to connect, or to wait for a message [s].
    """

    def __init__(self, url: str, headers: dict[str, str], conversation: Conversation, timeout_s: float) -> None:
        self._url, self._conversation, self._timeout_s = url, conversation, timeout_s
        self._options: dict[str, Any] = {
            "additional_headers": headers,
            "open_timeout": timeout_s,
            "compression": None,  # messages are small
        }
        self._configured: StreamConfigured | None = None

    @property
    def configured(self) -> StreamConfigured:
        """Names of joints and coordinates, engine, device and seeds.

        Raises:
            ClientError: The stream has not been opened.
        """
        if self._configured is None:
            raise ClientError("Open the stream first: use it in a `with` block.")
        return self._configured

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        """Raise an error of the client for a failure of the connection."""
        try:
            yield
        except (OSError, asyncio.TimeoutError, WebSocketException) as error:
            raise self._client_error(error) from error

    def _client_error(self, error: Exception) -> ClientError:
        if isinstance(error, InvalidStatus):
            refused = error.response
            request = httpx2.Request("GET", self._url)
            headers = list(refused.headers.raw_items())
            try:
                check_reply(
                    httpx2.Response(refused.status_code, headers=headers, content=bytes(refused.body), request=request)
                )
            except ClientError as refusal:
                return refusal
        return UnreachableError(f"{self._url}: {str(error) or type(error).__name__}.")


class StreamMethods(StreamCore):
    """The methods of both streams as generators: they yield messages to send, and None to receive one."""

    def configure(self) -> Steps[None]:
        """Send the configuration and wait until the service accepts it."""
        yield self._conversation.configuration
        self._configured = self._conversation.configured((yield None))

    def step(
        self,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        joint_q: ArrayLike | None = None,
    ) -> Steps[StreamAnswer]:
        """Send targets and wait for their configuration.

        Args:
            positions: Target positions [m], shape [targets, 3], or [3] for a single target; None in place of a row
                leaves the position free.
            orientations_xyzw: Target orientations, shape [targets, 4], or [4] for a single target; None likewise.
            joint_q: Start here instead of at the last answer [rad or m], shape [joint_coord_count].

        Raises:
            ServiceError: The step is refused or fails.
            UnreachableError: The connection has ended, or there is no answer in time.
        """
        seq, message = self._conversation.step(positions, orientations_xyzw, joint_q)
        yield message
        while (answer := self._conversation.answer((yield None), seq)) is None:
            pass
        return answer

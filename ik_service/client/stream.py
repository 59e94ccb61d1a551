"""Streams of the clients: a web socket each, one step at a time."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import ArrayLike, NDArray
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from ik_service.client.blocking import blocking, result_of
from ik_service.client.errors import ClientError, ServiceError, UnreachableError, foreign_refused, service_error
from ik_service.client.messages import Encoding, encoded


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamAnswer:
    """The answer to one step.

    Attributes:
        seq: Number of the step, from 0.
        joint_q: The configuration [rad or m], shape [joint_coord_count].
        success: Whether every target is met within its tolerance.
        status: How the problem ended, such as "converged".
        position_error_m: Worst over the targets [m]; None where all leave the position free.
        orientation_error_rad: Worst over the targets [rad]; None where all leave the orientation free.
        skipped: Earlier steps skipped because this step replaced them.
    """

    seq: int
    joint_q: NDArray[np.float64]
    success: bool
    status: str
    position_error_m: float | None
    orientation_error_rad: float | None
    skipped: int


@dataclass(frozen=True, kw_only=True)
class StreamConfigured:
    """The configuration accepted by the service.

    Attributes:
        joint_names: Names of the robot's joints.
        coordinate_names: Names of the entries of `joint_q`.
        engine: Engine of the solves.
        device: Device of the solves.
        seeds: Starts available to each step.
    """

    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    engine: str
    device: str
    seeds: int


class StreamCore:
    """Shared part of both streams: messages, and errors of the connection."""

    _received: Callable[[], Coroutine[Any, Any, Any]]
    _connection: Any

    def __init__(
        self, url: str, key: Mapping[str, str], configuration: Mapping[str, Any], timeout_s: float, encoding: Encoding
    ) -> None:
        """Take the address, the headers of the handshake, the first message, and the longest time of each wait [s]."""
        self._url, self._timeout_s, self._encoding = url, timeout_s, encoding
        self._options: dict[str, Any] = {"additional_headers": key, "open_timeout": timeout_s, "compression": None}
        self._first_message = encoded(configuration, encoding, packs=False)
        self._is_single, self._next_seq = len(configuration["targets"]) == 1, 0
        self._configured: StreamConfigured | None = None

    @property
    def configured(self) -> StreamConfigured:
        """Names of joints and coordinates, engine, device and seeds, once the stream is open."""
        if self._configured is None:
            raise ClientError("Open the stream first: use it in a `with` block.")
        return self._configured

    async def _configure(self) -> None:
        """Send the configuration and wait for its acceptance by the service."""
        with self._connection_errors(), foreign_refused("The first message of the stream"):
            await result_of(self._connection.send(self._first_message))
            document = _document(await self._received(), 0)
            fields = {name: document["resolved"][name] for name in ("engine", "device", "seeds")}
            fields |= {name: tuple(document[name]) for name in ("joint_names", "coordinate_names")}
            self._configured = StreamConfigured(**fields)

    def _rows(self, given: ArrayLike | None) -> Any:
        """A row per target; a single target may be given without its row."""
        if given is None or (isinstance(given, list | tuple) and any(row is None for row in given)):
            return given
        rows = np.asarray(given, np.float64)
        return rows[None] if rows.ndim == 1 and self._is_single else rows

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        """Raise an error of the client for a failure of the connection."""
        try:
            yield
        except (OSError, asyncio.TimeoutError, WebSocketException) as error:
            refusal = error.response if isinstance(error, InvalidStatus) else None
            if refusal is None or 200 <= refusal.status_code < 300:
                raise UnreachableError(f"{self._url}: {str(error) or type(error).__name__}.") from error
            headers = {name.lower(): value for name, value in refusal.headers.raw_items()}
            raise service_error(refusal.status_code, headers, bytes(refusal.body or b"")) from error


class AsyncStream(StreamCore):
    """A stream of targets; each step starts at the last answer. Use an `async with` block, from one task.

    `configured` has names and device once the stream is open. An error of a step does not end the stream.
    """

    async def __aenter__(self) -> "AsyncStream":
        """Connect and configure; the kernels are compiled when this returns."""
        async with AsyncExitStack() as block:
            with self._connection_errors():
                self._connection = await block.enter_async_context(connect_async(self._url, **self._options))
            await self._configure()
            self._block = block.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._block.aclose()

    async def step(
        self,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        joint_q: ArrayLike | None = None,
    ) -> StreamAnswer:
        """Send targets and wait for their configuration.

        Args:
            positions: Target positions [m], shape [targets, 3], or [3] for a single target; None in place of a row
                leaves the position free.
            orientations_xyzw: Target orientations, shape [targets, 4], or [4] for a single target; None likewise.
            joint_q: Start here instead of at the last answer [rad or m], shape [joint_coord_count].
        """
        _ = self.configured  # else there is no connection
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        rows = {"positions": self._rows(positions), "orientations_xyzw": self._rows(orientations_xyzw)}
        message = encoded({"seq": seq, **rows, "joint_q": joint_q}, self._encoding, packs=False)
        with self._connection_errors(), foreign_refused("A message of the stream"):
            await result_of(self._connection.send(message))
            while (document := _document(await self._received(), seq)) is None:
                pass  # the answer to an earlier step, whose wait has ended
            fields = {name: document[name] for name in StreamAnswer.__dataclass_fields__}
            return StreamAnswer(**fields | {"joint_q": np.asarray(fields["joint_q"], np.float64)})

    async def _received(self) -> Any:
        return await asyncio.wait_for(self._connection.recv(), self._timeout_s)


class Stream(StreamCore):
    """A stream of targets; each step starts at the last answer. Use a `with` block, from one thread.

    `configured` has names and device once the stream is open. Steps and errors are as in `AsyncStream`, but block.
    """

    step = blocking(AsyncStream.step)
    _configure_now = blocking(StreamCore._configure)

    def __enter__(self) -> "Stream":
        """Connect and configure; the kernels are compiled when this returns."""
        with ExitStack() as block:
            with self._connection_errors():
                self._connection = block.enter_context(connect(self._url, **self._options))
            self._configure_now()
            self._block = block.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._block.close()

    async def _received(self) -> Any:
        return self._connection.recv(self._timeout_s)


def _document(message: str | bytes, seq: int) -> Any:
    """Return the document in a message, None for an answer to an earlier step; raise the error of an error message."""
    document = json.loads(message) if isinstance(message, str) else msgpack.unpackb(message)
    if document.get("seq") is not None and document["seq"] < seq:
        return None
    if document["type"] == "error":
        problem = document["problem"]
        errors, request_id = tuple(problem.get("errors", ())), problem.get("request_id")
        raise ServiceError(problem["status"], document["code"], problem["detail"], errors, None, request_id)
    return document

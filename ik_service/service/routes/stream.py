"""`WS /v1/robots/{robot}/stream`: a control loop's targets in, joint configurations out.

Each solve starts at the previous solution.

    reader task: messages -> the newest message replaces waiting older messages
    session:     newest message -> request -> bridge -> pool -> answer -> message, one at a time

Requests of several streams share batches. An invalid tick is answered with an error and the stream goes on; an invalid
configuration ends the stream.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from ik_service.robots import RobotModel
from ik_service.service.codecs.codec import Codec
from ik_service.service.documents.envelope import read_envelope
from ik_service.service.documents.stream_messages import (
    JSON,
    Message,
    StreamPlan,
    answer_message,
    configured_message,
    decode_message,
    error_message,
    read_configuration,
    sequence_of,
    tick_request,
)
from ik_service.service.errors.problem_documents import kind_of
from ik_service.service.gate.access import STREAM_PROTOCOL
from ik_service.service.gate.gate import CONTEXT
from ik_service.service.pool.loop_bridge import LoopBridge
from ik_service.service.queue.errors import ClosedError, QueueFullError, SolverLostError
from ik_service.service.queue.solve_request import SolveRequest, TimedResult
from ik_service.service.routes.state import ServiceState
from ik_service.service.schema.limits import MAX_STREAM_MESSAGE_BYTES
from ik_service.service.schema.stream import CloseCode, Tick

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

CONFIGURE_S = 10.0
"""Longest time until the first message."""
IDLE_S = 300.0
"""Longest time between two messages."""
SEND_S = 10.0
"""Longest time for a client to read a message."""
_ENDS = "The service is shutting down."

router = APIRouter(prefix="/v1")

_logger = logging.getLogger(__name__)


@router.websocket("/robots/{robot}/stream")
async def stream(websocket: WebSocket, robot: str) -> None:
    """Serve one stream; an unknown robot, or one stream too many, is refused before the handshake."""
    state = websocket.app.state.service
    assert isinstance(state, ServiceState)  # put there by create_app
    owner = websocket.scope[CONTEXT].owner
    try:
        state.stream_cap.acquire(owner)
    except QueueFullError as error:
        state.metrics.refused(error.reason)
        raise
    try:
        session = StreamSession(websocket, robot, await state.robot(robot), state.bridge)
        await websocket.accept(STREAM_PROTOCOL if STREAM_PROTOCOL in websocket.scope["subprotocols"] else None)
        state.streams.add(session.end)
        try:
            await session.run()
        finally:
            state.streams.discard(session.end)
    finally:
        state.stream_cap.release(owner)


class StreamSession:
    """Serves one accepted connection to its end."""

    def __init__(self, websocket: WebSocket, name: str, robot: RobotModel, bridge: LoopBridge) -> None:
        self._websocket, self._name, self._robot, self._bridge = websocket, name, robot, bridge
        self._newest: Message | None = None  # newest message not yet taken
        self._skipped, self._is_over = 0, False  # number of replaced messages; True: no more messages
        self._arrived = asyncio.Event()
        self._solving: asyncio.Future[TimedResult] | None = None
        self._codec: Codec = JSON
        self._close: tuple[int, str] | None = None

    async def run(self) -> None:
        """Serve until the client disconnects or breaks a rule, or the service ends."""
        reader = asyncio.create_task(self._read())
        reader.add_done_callback(lambda _: self._end_messages())
        try:
            await self._serve()
        except WebSocketDisconnect:
            pass
        except asyncio.TimeoutError:
            self._close = CloseCode.POLICY, "Nothing came for a long time."
        except ClosedError as error:
            await self._send(error_message(error, None))
            lost = isinstance(error, SolverLostError)
            self._close = (CloseCode.TRY_LATER, "The solver has failed.") if lost else (CloseCode.GOING_AWAY, _ENDS)
        except asyncio.CancelledError:
            if not self._is_over:
                raise
        finally:
            reader.cancel()
        if self._close is not None:
            with suppress(WebSocketDisconnect, RuntimeError, asyncio.TimeoutError):
                async with timeout(SEND_S):
                    await self._websocket.close(*self._close)

    def end(self, code: int | None = CloseCode.GOING_AWAY, reason: str = _ENDS) -> None:
        """Stop waiting for messages and for the solver, by default because the service ends; `run` returns soon after.

        The close code is None if the client has disconnected.
        """
        self._close = None if code is None else (code, reason)
        self._end_messages()
        if self._solving is not None:
            self._solving.cancel()

    # ------------------------------------------------------------------ in
    async def _read(self) -> None:
        """Receive messages until the connection ends."""
        while True:
            message = await self._websocket.receive()
            if message["type"] != "websocket.receive":
                self.end(None)
                return
            content = message.get("text")
            content = message["bytes"] if content is None else content
            if len(content) > MAX_STREAM_MESSAGE_BYTES:
                self.end(CloseCode.TOO_LARGE, f"A message has at most {MAX_STREAM_MESSAGE_BYTES} bytes.")
                return
            self._skipped += self._newest is not None
            self._newest = content
            self._arrived.set()

    def _end_messages(self) -> None:
        self._is_over = True
        self._arrived.set()

    async def _take(self, timeout_s: float) -> Message | None:
        """Wait for a message, else TimeoutError; return the newest message, None at the end of the connection."""
        if self._newest is None and not self._is_over:
            async with timeout(timeout_s):
                await self._arrived.wait()
        message, self._newest = self._newest, None
        self._arrived.clear()
        return None if self._is_over else message

    # ------------------------------------------------------------------ the loop
    async def _serve(self) -> None:
        message = await self._take(CONFIGURE_S)
        if message is None:
            return
        try:
            plan = read_configuration(message, self._robot)
            self._codec = plan.codec
            warm_up = await self._solve(plan.request)
        except ClosedError:
            raise
        except Exception as error:  # noqa: BLE001  # objectives and Warp raise any error; the client gets the error, and the stream ends
            await self._fail(error, None)
            status = kind_of(error).status
            code = CloseCode.FAILED if status == 500 else CloseCode.TRY_LATER if status > 500 else CloseCode.POLICY
            self._close = code, "The configuration cannot be used."
            return
        await self._send(configured_message(self._robot, self._name, warm_up.result))
        await self._follow(plan)

    async def _follow(self, plan: StreamPlan) -> None:
        joint_q = plan.joint_q
        while (message := await self._take(IDLE_S)) is not None:
            seq: int | None = None
            try:
                document = decode_message(message)
                seq = sequence_of(document)
                tick = read_envelope(Tick, document)
                answer = await self._solve(tick_request(tick, plan, joint_q), plan.tick_timeout_s)
            except ClosedError:
                raise
            except Exception as error:  # noqa: BLE001  # objectives and Warp raise any error; the client gets the error, the next tick may succeed
                await self._fail(error, seq)
                continue
            joint_q = answer.result.joint_q[0]
            skipped, self._skipped = self._skipped, 0
            await self._send(answer_message(tick.seq, answer.result, skipped, plan.codec))

    async def _solve(self, request: SolveRequest, timeout_s: float | None = None) -> TimedResult:
        owner = self._websocket.scope[CONTEXT].owner
        self._solving = self._bridge.solve(self._robot, request, timeout_s=timeout_s, label=self._name, owner=owner)
        task = asyncio.current_task()
        try:
            return await self._solving
        except asyncio.CancelledError:
            if self._is_over or (task is not None and task.cancelling()):
                raise
            raise ClosedError(_ENDS) from None  # the pool has dropped the request
        finally:
            self._solving = None

    async def _fail(self, error: Exception, seq: int | None) -> None:
        if kind_of(error).status == 500:
            _logger.error("A message of a stream of '%s' failed", self._name, exc_info=error)
        skipped, self._skipped = self._skipped, 0
        await self._send(error_message(error, seq, skipped))

    async def _send(self, message: Mapping[str, Any]) -> None:
        content = self._codec.encode(message)
        async with timeout(SEND_S):
            if self._codec.is_binary:
                await self._websocket.send({"type": "websocket.send", "bytes": content})
            else:
                await self._websocket.send({"type": "websocket.send", "text": content.decode()})

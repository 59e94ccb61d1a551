"""`WS /v1/robots/{robot}/stream`: a control loop's targets in, joint configurations out."""

from fastapi import APIRouter, WebSocket

from ik_service.service.gate.access import STREAM_PROTOCOL
from ik_service.service.gate.gate import context_of
from ik_service.service.gate.stream_session import StreamSession
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.routes.state import ServiceState

router = APIRouter(prefix="/v1")


@router.websocket("/robots/{robot}/stream")
async def stream(websocket: WebSocket, robot: str) -> None:
    """Serve one stream; an unknown robot, or one stream too many, is refused before the handshake."""
    state = websocket.app.state.service
    assert isinstance(state, ServiceState)  # put there by create_app
    owner = context_of(websocket.scope).owner
    try:
        state.stream_cap.acquire(owner)
    except QueueFullError as error:
        state.metrics.refused(error.reason)
        raise
    try:
        session = StreamSession(websocket, robot, await state.robot(robot), state.bridge)
        await websocket.accept(STREAM_PROTOCOL if STREAM_PROTOCOL in websocket.scope["subprotocols"] else None)
        state.streams.add(session)
        try:
            await session.run()
        finally:
            state.streams.discard(session)
    finally:
        state.stream_cap.release(owner)

"""The configuration of uvicorn that serves an application."""

import math

from starlette.types import ASGIApp
from uvicorn import Config

from ik_service.service.gate.connection import ConnectionSlots, LimitedConnection
from ik_service.service.gate.stream_connection import StreamConnection
from ik_service.service.schema.limits import MAX_STREAM_MESSAGE_BYTES
from ik_service.settings import ServiceSettings


def server_config(app: ASGIApp, settings: ServiceSettings) -> Config:
    """Return how uvicorn serves the application; uvicorn makes the connections, of a class with the settings."""
    parts = {"settings": settings, "slots": ConnectionSlots(settings.max_connections)}
    return Config(
        app,
        http=type("Connection", (LimitedConnection,), parts),
        ws=StreamConnection,
        ws_max_size=MAX_STREAM_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # messages are small; compression costs more than it saves
        timeout_keep_alive=math.ceil(settings.keep_alive_s),
        timeout_graceful_shutdown=math.ceil(settings.drain_s),
        backlog=2048,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
    )

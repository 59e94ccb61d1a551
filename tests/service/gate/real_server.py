"""An application behind the service's own connections, on a real socket."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from ik_service.service.gate.server_config import server_config
from ik_service.settings import ServiceSettings
from tests.bounded import until

PATIENCE_S = 20.0  # for a server that is to act within half a second, on a busy machine


@contextmanager
def real_server(
    app: Any, settings: ServiceSettings, run: Callable[[Any], Any] = asyncio.run
) -> Iterator[tuple[uvicorn.Server, tuple[str, int]]]:
    """The server of an application and its address; `run` makes its event loop."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = uvicorn.Server(server_config(app, settings))
        thread = threading.Thread(target=lambda: run(running.serve(sockets=[listener])))
        thread.start()
        until(lambda: running.started, PATIENCE_S)
        yield running, listener.getsockname()
        running.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

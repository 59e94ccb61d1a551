"""A process that solves for all fronts, on one device."""

import asyncio
import gc
import logging
import signal
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection

import uvicorn

from ik_service.cli.process_link import ProcessLink, StartFailed, end_this_process
from ik_service.cli.service_server import end_children
from ik_service.service.app import solver_pool
from ik_service.service.gate.logs import configured_logs
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.remote.pool_server import PoolServer
from ik_service.service.routes.state import POOL_END_S
from ik_service.settings import ServiceSettings
from objectives.errors import IKError

LEFT_S, LOOK_S = 5.0, 0.1
"""Time that fronts have beyond their own to end where the supervisor was killed, and from one look to the next [s]."""

_logger = logging.getLogger(__name__)


def run_solver(role: str, connection: Connection, settings: ServiceSettings, path: str) -> None:
    """Solve until told to end; runs in the process.

    Args:
        role: Its name in logs.
        connection: To the supervisor.
        settings: The settings.
        path: The socket that fronts connect to.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the supervisor ends this one
    with configured_logs(settings, role=role):
        observer = ServiceMetrics(lambda name: name in server.served)
        try:
            pool = solver_pool(settings, observer)
        except IKError as error:
            ProcessLink(connection, end_this_process).say(StartFailed.of(error))
            sys.exit(1)
        server = PoolServer(pool, observer.forget)
        observer.watch(pool, lambda: 0, lambda: True)  # what robots there are, and what is ready, fronts know
        ProcessLink(connection, partial(_end_after_fronts, server, settings)).watch(observer.snapshot)
        is_told = _run(server, path)
        closing = threading.Thread(target=pool.close, daemon=True)  # a kernel that is being compiled goes on
        closing.start()
        closing.join(POOL_END_S)
        end_children()
    sys.exit(0 if is_told else 1)


def _run(server: PoolServer, path: str) -> bool:
    """Serve until a signal comes; return whether it has come, and not the end of the solver's thread."""
    make_loop = uvicorn.Config("").get_loop_factory() or asyncio.new_event_loop
    loop = make_loop()
    serving = loop.create_task(server.serve(path))
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    warming = loop.create_task(_freeze(server))
    loop.run_until_complete(asyncio.wait([serving]))
    warming.cancel()
    if serving.cancelled():
        return True
    serving.result()
    _logger.error("The solver's thread has ended, and with it this process.")
    return False


async def _freeze(server: PoolServer) -> None:
    """After the first answers take what has been loaded out of garbage collection, as a service of one process does."""
    while not server.has_answered:
        await asyncio.sleep(LOOK_S)
    gc.collect()
    gc.freeze()


def _end_after_fronts(server: PoolServer, settings: ServiceSettings) -> None:
    """End this process once the fronts have ended, which do so by themselves without a supervisor."""
    until = time.monotonic() + settings.drain_delay_s + settings.drain_s + LEFT_S
    while server.ends and time.monotonic() < until:
        time.sleep(LOOK_S)
    end_this_process()

"""The server of an application: uvicorn, with a report when ready, and with all requests finished at the end.

A service has one process with this server, or several workers; each worker has its own socket at the same address.
"""

import asyncio
import gc
import logging
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import NamedTuple

import uvicorn
import warp as wp
from fastapi import FastAPI
from prometheus_client import values

from ik_service.cli.announcement import Announcement, Example, example_request
from ik_service.cli.console import message_console
from ik_service.cli.health_command import reachable_url
from ik_service.cli.page_command import run_page
from ik_service.service.app import create_app, worker_role
from ik_service.service.gate.connection import server_config
from ik_service.service.gate.logs import configured_logs
from ik_service.service.queue.solve_request import TimedResult
from ik_service.settings import ServiceSettings
from ik_service.warp_start import start_warp
from objectives.errors import IKError, InputError

_logger = logging.getLogger(__name__)

SETTLE_S = 0.1
"""Time to read what callers had sent before the end: uvicorn closes connections on which it has read nothing."""
SETTLE_TURNS = 10
"""Turns of the event loop for the same, where it lags: to accept a connection and to read from it takes four."""
BACKLOG = 2048  # connections that wait to be accepted
REFRESH_TICKS = 10
"""Ticks of uvicorn, of 0.1 s each, from one look of a worker at its solver and its metrics to the next."""
PAGE_START_S, PAGE_ASKED_S = 60.0, 0.2
"""Longest wait for the live page before the service says where to look, and from one look to the next."""


class ServiceServer(uvicorn.Server):
    """A server that prints when ready, stops after a failed first solve, and finishes its requests at the end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: ServiceSettings) -> None:
        super().__init__(config)
        self.failure: BaseException | None = None
        self._app, self._settings = app, settings
        self._announcing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then wait for the first solve in parallel."""
        await super().startup(sockets)
        if self.started and sockets:
            self._announcing = asyncio.create_task(self.announce(*sockets[0].getsockname()[:2]))
            self._announcing.add_done_callback(log_failure)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Report the service as not ready, and shut down."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.admission.draining = True
        if sig == signal.SIGTERM:
            self.should_exit = True  # uvicorn would afterwards end the process by the signal, an exit with failure
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer until load balancers have seen the state "not ready"; then finish all requests."""
        if self.failure is None:
            await asyncio.sleep(max(self._settings.drain_delay_s, SETTLE_S))
            for _ in range(SETTLE_TURNS):
                await asyncio.sleep(0)
        under_way = len(self.server_state.tasks)
        _logger.info("Ending: %d requests are under way and have %g s.", under_way, self._settings.drain_s)
        service = getattr(self._app.state, "service", None)
        if service is not None:
            await service.end_streams()
        await super().shutdown(sockets)
        end_children()  # here, because uvicorn lets the signal end the process as soon as this is done

    async def announce(self, host: str, port: int) -> None:
        """Announce the open port, then the ready service; meanwhile start the live page."""
        announcement = Announcement(self._settings, host, port)
        if self._settings.page_port is not None:  # parallel to the first solve: both take seconds
            start_page(reachable_url(host, port), self._settings.page_port)
        announcement.say_listening()
        solved = await self.first_solve()
        if solved is None:
            return
        announcement.say_ready(solved.result.device, example_request(self._app.state.service))
        if announcement.is_for_people and self._settings.page_port is not None:
            await _connected(self._settings.page_port)
        announcement.say_where_to_look()

    async def first_solve(self) -> TimedResult | None:
        """Wait for the first solve; return None if the solve failed (the server ends) or was given up."""
        warm_up: asyncio.Future[TimedResult] = asyncio.wrap_future(self._app.state.service.warm_up)
        await asyncio.wait([warm_up])
        if warm_up.cancelled():
            return None
        self.failure = warm_up.exception()
        if self.failure is not None:
            self.should_exit = True
            return None
        # Warp, the robots and their kernels stay as long as the process. A full collection over all these objects
        # would delay all callers by a tenth of a second.
        gc.collect()
        gc.freeze()
        return warm_up.result()


class WorkerReady(NamedTuple):
    """Message of a ready worker."""

    device: str  # device of its solver
    example: Example  # a request to try


class WorkerFailed(NamedTuple):
    """A worker cannot start."""

    reason: str  # text of the error
    is_input: bool  # whether a setting is to blame


class WorkerServer(ServiceServer):
    """The server of a worker: reports to its supervisor when ready, and ends if its solver is lost."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: ServiceSettings, connection: Connection) -> None:
        super().__init__(config, app, settings)
        self._connection = connection

    async def announce(self, host: str, port: int) -> None:
        """Report to the supervisor when ready."""
        solved = await self.first_solve()
        if solved is not None:
            example = await asyncio.to_thread(example_request, self._app.state.service)
            self._connection.send(WorkerReady(solved.result.device, example))

    async def on_tick(self, counter: int) -> bool:
        """Write values for the metrics of the whole service; look whether the solver is there."""
        service = self._app.state.service
        if counter % REFRESH_TICKS == 0:
            service.metrics.refresh()
            if service.pool.solving_s == math.inf and not self.should_exit:
                self.failure, self.should_exit = RuntimeError("The solver's thread has ended."), True
        return await super().on_tick(counter)


def run_worker(
    number: int, connection: Connection, settings: ServiceSettings, address: tuple[str, int], metrics_folder: str
) -> None:
    """Serve as one of several workers, counted from 1, until the signal to end; runs in the worker's process.

    The connection is the pipe to the supervisor. All workers have one address, and the kernel distributes connections
    among their sockets; all workers have one folder of metric files.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics_folder
    values.ValueClass = values.MultiProcessValue(lambda: number)  # a restarted worker continues its counts
    threading.Thread(target=_end_with_supervisor, args=(connection,), name="ik-supervisor", daemon=True).start()
    with configured_logs(settings, role=worker_role(number)):
        try:
            settings = worker_settings(settings, number)
            app = create_app(settings, bound_to=address[0], worker=number)
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            with socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=True) as listener:
                server = WorkerServer(server_config(app, settings), app, settings, connection)
                server.run(sockets=[listener])
            failure = server.failure
        except IKError as error:
            failure = error
        if failure is not None:
            _logger.error("The worker ends: %s", failure)
            reason = str(failure) if isinstance(failure, IKError) else f"The first solve failed: {failure}"
            with suppress(OSError):
                connection.send(WorkerFailed(reason, isinstance(failure, InputError)))
            sys.exit(1)


def worker_settings(settings: ServiceSettings, number: int) -> ServiceSettings:
    """Return the settings of one of several workers, counted from 1: its device, and threads for its share of cores."""
    devices = settings.devices
    if devices[0] in ("auto", "cuda"):
        start_warp()
        cards = wp.get_cuda_device_count()
        devices = tuple(f"cuda:{k}" for k in range(cards)) if cards > 1 else devices
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = settings.threads or max(1, cores // settings.worker_count)
    device = devices[(number - 1) % len(devices)]
    return settings.model_copy(update={"device": device, "workers": 1, "threads": threads})


def _end_with_supervisor(connection: Connection) -> None:
    """End this process when the supervisor's process has ended, with the supervisor's signal."""
    with suppress(EOFError, OSError):
        connection.recv()  # the supervisor sends nothing
    os.kill(os.getpid(), signal.SIGTERM)


def log_failure(task: "asyncio.Task[None]") -> None:
    """Log the failure of the announcement; the service continues."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("The service is ready, but this could not be announced.", exc_info=error)


def start_page(url: str, port: int) -> None:
    """Start the live page of a service on a port, in a separate process."""
    multiprocessing.get_context("spawn").Process(target=_serve_page, args=(url, port), daemon=True).start()


async def _connected(port: int) -> None:
    """Wait until a port of this machine takes connections, for `PAGE_START_S` at the longest."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PAGE_START_S
    while loop.time() < end:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(PAGE_ASKED_S)
        else:
            writer.close()
            return


def _serve_page(url: str, port: int) -> None:
    """Serve the live page of a service until interrupted, in a separate process."""
    try:
        run_page(None, url=url, host="127.0.0.1", port=port, is_dark=False, device="auto", api_key=None, says=False)
    except IKError as error:
        message_console().print(f"There is no live page: {error}", markup=False)


def end_children() -> None:
    """Stop the processes for compilation and the page: the service would wait for these processes."""
    for child in multiprocessing.active_children():
        child.terminate()

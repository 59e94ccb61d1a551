"""The server of an application: uvicorn, which says when it is ready and finishes its requests at the end."""

import asyncio
import gc
import logging
import multiprocessing
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from ik_service.cli.announcement import Announcement, example_request, reachable_url
from ik_service.cli.console import message_console
from ik_service.cli.page_command import run_page
from ik_service.service.queue.timed_result import TimedResult
from ik_service.settings import ServiceSettings
from objectives.errors import IKError

_logger = logging.getLogger(__name__)

SETTLE_S = 0.1
"""Time to read what callers had sent before the end: uvicorn closes connections on which it has read nothing."""
SETTLE_TURNS = 10
"""Turns of the event loop for the same, where it lags: to accept a connection and to read from it takes four."""
PAGE_START_S, PAGE_ASKED_S = 60.0, 0.2
"""Longest wait for the live page before the service says where to look, and from one look to the next."""


class ServiceServer(uvicorn.Server):
    """A server that prints when it is ready, stops when its first solve fails, and finishes its requests at the end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: ServiceSettings) -> None:
        """Keep the application; its state says when it is ready."""
        super().__init__(config)
        self.failure: BaseException | None = None
        self._app, self._settings = app, settings
        self._announcing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then wait beside it for the first solve."""
        await super().startup(sockets)
        if self.started and sockets:
            self._announcing = asyncio.create_task(self.announce(*sockets[0].getsockname()[:2]))
            self._announcing.add_done_callback(log_failure)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Report that it is no longer ready, and shut down."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.draining = True
        if sig == signal.SIGTERM:
            self.should_exit = True  # uvicorn would end the process by the signal afterwards, which counts as a failure
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer a while longer, until load balancers have seen that it is not ready; then finish all requests."""
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
        """Say that it listens, and when it is ready; begin the live page meanwhile."""
        announcement = Announcement(self._settings, host, port)
        if self._settings.page_port is not None:  # it begins beside the first solve: both take seconds
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
        """Wait for the first solve; None where it has failed, after which the server ends, or was given up."""
        warm_up: asyncio.Future[TimedResult] = asyncio.wrap_future(self._app.state.service.warm_up)
        await asyncio.wait([warm_up])
        if warm_up.cancelled():
            return None
        self.failure = warm_up.exception()
        if self.failure is not None:
            self.should_exit = True
            return None
        # Warp, the robots and their kernels stay as long as the process; to go through them with every full collection
        # would hold up all callers for a tenth of a second.
        gc.collect()
        gc.freeze()
        return warm_up.result()


def log_failure(task: "asyncio.Task[None]") -> None:
    """Log what has ended the announcement; the service goes on."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("The service is ready, but this could not be announced.", exc_info=error)


def start_page(url: str, port: int) -> None:
    """Start the live page of a service on a port, in a process of its own."""
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
    """Serve the live page of a service until interrupted, in a process of its own."""
    try:
        run_page(None, url=url, host="127.0.0.1", port=port, is_dark=False, device="auto", api_key=None, says=False)
    except IKError as error:
        message_console().print(f"There is no live page: {error}", markup=False)


def end_children() -> None:
    """Stop the processes that compile kernels and serve the page: the service would wait for them."""
    for child in multiprocessing.active_children():
        child.terminate()

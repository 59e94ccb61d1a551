"""`ik-service serve`: the HTTP application under uvicorn, with a request to try once it is ready."""

import asyncio
import gc
import logging
import multiprocessing
import os
import shlex
import signal
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from types import FrameType
from typing import Any

import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI

from ik_service.api import create_app
from ik_service.api.admission.access import require_safe_address
from ik_service.api.observability.logs import configured_logs, is_for_people
from ik_service.api.schema.examples import SOLVE_REQUESTS
from ik_service.api.server.server_config import server_config
from ik_service.api.state import ServiceState
from ik_service.api.warm_up import first_request, warmed_robots
from ik_service.batching.requests.timed_result import TimedResult
from ik_service.cli.console import message_console
from ik_service.cli.service.descriptors import with_descriptors
from ik_service.cli.service.page_command import run_page
from ik_service.extras import how_to_install
from ik_service.settings import ServiceSettings, load_settings, unknown_variables
from objectives.errors import IKError

_logger = logging.getLogger(__name__)


SETTLE_S = 0.1
"""Time to read what callers had sent before the end: uvicorn closes connections on which it has read nothing."""
SETTLE_TURNS = 10
"""Turns of the event loop for the same, where it lags: to accept a connection and to read from it takes four."""
PAGE_START_S, PAGE_ASKED_S = 60.0, 0.2
"""Longest wait for the live page before the service says where to look, and from one look to the next."""


class StartError(IKError):
    """The service could not start."""


def example_request(state: ServiceState) -> tuple[str, dict[str, Any]]:
    """Return a robot that is served and the body of a solve for it: panda and its example, or else the first.

    Args:
        state: The robots that are served.
    """
    name, robot = warmed_robots(state)[0]
    if name == "panda":
        return name, SOLVE_REQUESTS["one_pose"]
    request = first_request(robot)
    (target,), arrays = request.targets, request.arrays
    (positions,), (orientations,) = arrays.positions, arrays.orientations_xyzw
    assert positions is not None
    assert orientations is not None
    pose = {"positions": np.round(positions, 6).tolist(), "orientations_xyzw": np.round(orientations, 6).tolist()}
    return name, {"targets": [{"link": target.link, **pose}]}


def curl_line(host: str, port: int, robot: str, body: Mapping[str, Any], *, with_key: bool = False) -> str:
    """Return a shell command that solves one target on a service.

    Args:
        host: Address that the service listens on.
        port: Port that it listens on.
        robot: Name of a robot of the service.
        body: The request.
        with_key: Whether the service requires an API key.
    """
    data = shlex.quote(orjson.dumps(body).decode())
    key = ' -H "X-API-Key: $IK_SERVICE_KEY"' if with_key else ""
    return f"curl -s {_address(host, port)}/v1/robots/{robot}/solve{key} -H 'Content-Type: application/json' -d {data}"


def _address(host: str, port: int) -> str:
    """Return where this machine reaches a service that listens on a host."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def run_server(**options: Any) -> None:
    """Serve until interrupted.

    Args:
        options: Settings by name, which stand above the environment.

    Raises:
        StartError: The address cannot be used, or the first solve fails.
        InputError: A setting is not allowed, or there is no such device.
    """
    settings = load_settings(**options)
    with configured_logs(settings):
        for name in unknown_variables():
            _logger.warning("Environment variable %s is no setting; 'ik-service config' lists them.", name)
        _serve(settings)


def _serve(settings: ServiceSettings) -> None:
    require_safe_address(settings, settings.host)
    settings = with_descriptors(_with_page_url(settings))
    listener = _listen(settings.host, settings.port)
    with listener:
        app = create_app(settings, bound_to=listener.getsockname()[0])
        server = ServiceServer(server_config(app, settings), app, settings)
        server.run(sockets=[listener])
    if isinstance(server.failure, IKError):
        raise server.failure
    if server.failure is not None:
        raise StartError(f"The first solve failed: {server.failure}") from server.failure


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
            host, port = sockets[0].getsockname()[:2]
            if self._settings.page_port is not None:  # it begins beside the first solve: both take seconds
                context = multiprocessing.get_context("spawn")
                arguments = _address(host, port), self._settings.page_port
                context.Process(target=_serve_page, args=arguments, daemon=True).start()
            self._announcing = asyncio.create_task(self._announce(host, port))
            self._announcing.add_done_callback(_log_failure)

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
        _end_children()  # here, because uvicorn lets the signal end the process as soon as this is done

    async def _announce(self, host: str, port: int) -> None:
        self._say(f"Listening on http://{host}:{port}, loading kernels ...")
        warm_up: asyncio.Future[TimedResult] = asyncio.wrap_future(self._app.state.service.warm_up)
        await asyncio.wait([warm_up])
        if warm_up.cancelled():
            return
        self.failure = warm_up.exception()
        if self.failure is not None:
            self.should_exit = True
            return
        # Warp, the robots and their kernels stay as long as the process; to go through them with every full collection
        # would hold up all callers for a tenth of a second.
        gc.collect()
        gc.freeze()
        example = example_request(self._app.state.service)
        line = curl_line(host, port, *example, with_key=bool(self._settings.keys))
        device = warm_up.result().result.device
        if is_for_people(self._settings):
            self._say(f"Ready, solving on {device}. Try:\n\n{line}\n")
            if self._settings.page_port is not None:
                await _connected(self._settings.page_port)
            self._say(f"Open {_address(host, port)} in a browser - stop with Ctrl+C.")
        else:
            self._say(f"Ready at http://{host}:{port}, solving on {device}. Try: {line}")

    def _say(self, text: str) -> None:
        """Print a message on a terminal; write a line of the log elsewhere."""
        if is_for_people(self._settings):
            message_console().print(text, markup=False)
        else:
            _logger.info("%s", text)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Log what has ended the announcement; the service goes on."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("The service is ready, but this could not be announced.", exc_info=error)


def _with_page_url(settings: ServiceSettings) -> ServiceSettings:
    """Say where the live page will be, if there is to be one.

    Raises:
        StartError: It cannot be shown.
    """
    if settings.page_port is None:
        return settings
    if find_spec("viser") is None:
        raise StartError(f"A page (page_port) needs viser. {how_to_install('page')}")
    if settings.keys:
        raise StartError(
            "A page (page_port) asks nobody for a key, but the service does. Start it for those whom you trust: "
            "ik-service page --url ... --api-key ..."
        )
    return settings.model_copy(update={"page_url": settings.page_url or f"http://127.0.0.1:{settings.page_port}"})


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


def _end_children() -> None:
    """Stop the processes that compile kernels and serve the page: the service would wait for them."""
    for child in multiprocessing.active_children():
        child.terminate()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else error.strerror
        raise StartError(f"Cannot listen on {host}:{port}: {reason}. Give another --host or --port.") from error
    listener.set_inheritable(True)
    return listener

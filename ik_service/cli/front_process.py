"""A front: a process that takes requests, for solvers of other processes."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

import uvicorn
from fastapi import FastAPI

from ik_service.cli.announcement import example_request
from ik_service.cli.process_link import ProcessLink, Started, StartFailed, end_this_process
from ik_service.cli.service_server import ServiceServer
from ik_service.service.app import create_app, pool_limits
from ik_service.service.front import Front
from ik_service.service.gate.logs import configured_logs
from ik_service.service.gate.server_config import server_config
from ik_service.service.remote.remote_pool import RemotePool
from ik_service.settings import ServiceSettings
from objectives.errors import IKError


def run_front(
    role: str, connection: Connection, settings: ServiceSettings, solver_paths: Sequence[str], listener: socket.socket
) -> None:
    """Serve until told to end; runs in the process.

    Args:
        role: Its name in logs.
        connection: To the supervisor.
        settings: The settings.
        solver_paths: Sockets of the processes that solve.
        listener: Its socket; those of all fronts have one address, among which the kernel divides connections.
    """
    link = ProcessLink(connection, end_this_process)
    with configured_logs(settings, role=role):
        try:
            pool = RemotePool(solver_paths, pool_limits(settings))
            front = Front(role, pool, link.gather)
            app = create_app(settings, bound_to=listener.getsockname()[0], front=front)
        except IKError as error:
            link.say(StartFailed.of(error))
            sys.exit(1)
        server = FrontServer(server_config(app, settings), app, settings, link)
        server.run(sockets=[listener])
    if server.failure is not None:
        link.say(StartFailed.of(server.failure))
        sys.exit(1)


class FrontServer(ServiceServer):
    """A server that tells its supervisor when it is ready."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: ServiceSettings, link: ProcessLink) -> None:
        """Keep the link."""
        super().__init__(config, app, settings)
        self._link = link

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening; metrics are there from now on."""
        await super().startup(sockets)
        if self.started:
            self._link.watch(self._app.state.service.metrics.snapshot)

    async def announce(self, host: str, port: int) -> None:
        """Tell when it is ready."""
        solved = await self.first_solve()
        if solved is not None:
            example = await asyncio.to_thread(example_request, self._app.state.service)
            self._link.say(Started(solved.result.device, example))

"""`ik-service serve`: the HTTP application under uvicorn, with a request to try once it is ready."""

import asyncio
import ipaddress
import os
import shlex
import socket

import orjson
import uvicorn
from fastapi import FastAPI

from ik_service.api import create_app
from ik_service.api.examples import SOLVE_REQUESTS
from ik_service.cli.console import message_console
from objectives.errors import IKError, InputError


class StartError(IKError):
    """The service could not start."""


def check_host(host: str, *, insecure: bool) -> None:
    """Refuse to listen where others can reach a service without authentication.

    Args:
        host: Address to listen on.
        insecure: Whether the caller has said that this is meant.

    Raises:
        InputError: Not a loopback address, and not said to be meant.
    """
    if insecure or is_loopback(host):
        return
    raise InputError(
        f"--host {host} is open to other machines and the service has no authentication yet. "
        "Listen on 127.0.0.1, or add --insecure where the network is trusted."
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def curl_line(host: str, port: int) -> str:
    """Return a shell command that solves one target on a service.

    Args:
        host: Address that the service listens on.
        port: Port that it listens on.
    """
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    authority = f"[{reachable}]:{port}" if ":" in reachable else f"{reachable}:{port}"
    body = shlex.quote(orjson.dumps(SOLVE_REQUESTS["one_pose"]).decode())
    return f"curl -s http://{authority}/v1/robots/panda/solve -H 'Content-Type: application/json' -d {body}"


def run_server(host: str, port: int, device: str) -> None:
    """Serve until interrupted.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        device: Device to solve on.

    Raises:
        StartError: The address cannot be used, or the first solve fails.
        InputError: There is no such device.
    """
    app = create_app(device=device)
    listener = _listen(host, port)
    server = AnnouncingServer(uvicorn.Config(app, log_level="warning", server_header=False), app)
    with listener:
        server.run(sockets=[listener])
    if isinstance(server.failure, IKError):
        raise server.failure
    if server.failure is not None:
        raise StartError(f"The first solve failed: {server.failure}") from server.failure


class AnnouncingServer(uvicorn.Server):
    """A server that says when it is ready, and stops when it cannot become so."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        """Keep the application, whose state tells when it is ready."""
        super().__init__(config)
        self.failure: BaseException | None = None
        self._app = app
        self._announcing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then wait beside it for the first solve."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._announcing = asyncio.create_task(self._announce(host, port))

    async def _announce(self, host: str, port: int) -> None:
        console = message_console()
        console.print(f"Listening on http://{host}:{port}, loading kernels ...", markup=False)
        warm_up = self._app.state.service.warm_up
        await asyncio.wait([asyncio.wrap_future(warm_up)])
        if warm_up.cancelled():
            return
        self.failure = warm_up.exception()
        if self.failure is not None:
            self.should_exit = True
            return
        console.print(f"Ready, solving on {warm_up.result().device}. Try:\n\n{curl_line(host, port)}\n", markup=False)
        console.print(f"Documentation: http://{host}:{port}/docs - stop with Ctrl+C.", markup=False)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else error.strerror
        raise StartError(f"Cannot listen on {host}:{port}: {reason}. Give another --host or --port.") from error
    listener.set_inheritable(True)
    return listener

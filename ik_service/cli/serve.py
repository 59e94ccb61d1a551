"""`ik-service serve`: the HTTP application under uvicorn, with a request to try after the start.

Each allowed connection has a file descriptor, or fewer connections are allowed: without free descriptors the server
could not accept connections, compile, or store an uploaded robot.
"""

import logging
import os
import resource
import signal
import socket
import stat
from importlib.util import find_spec
from typing import Any

from ik_service.cli.service_server import BACKLOG, ServiceServer
from ik_service.cli.supervisor import Supervisor
from ik_service.extras import how_to_install
from ik_service.service import create_app
from ik_service.service.gate.access import require_safe_address
from ik_service.service.gate.connection import server_config
from ik_service.service.gate.logs import configured_logs
from ik_service.settings import ServiceSettings, load_settings, unknown_variables
from objectives.errors import IKError

_logger = logging.getLogger(__name__)
SUPERVISOR = "supervisor"  # role of this process in logs, where others take the requests


class StartError(IKError):
    """The service could not start."""


def run_server(**options: Any) -> None:
    """Serve until interrupted; `options` are settings by name, which override the environment.

    StartError if the address cannot be used, or the first solve fails; InputError for a wrong setting or device.
    """
    settings = load_settings(**options)
    with configured_logs(settings, role=SUPERVISOR if settings.worker_count > 1 else None):
        for name in unknown_variables():
            _logger.warning("Environment variable %s is no setting; 'ik-service config' lists them.", name)
        keys_file = settings.api_keys_file
        if keys_file is not None and keys_file.stat().st_mode & stat.S_IROTH:
            _logger.warning("Every user of this machine can read the API keys in '%s'; take that right.", keys_file)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores this signal
            signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        _serve(settings)


def _serve(settings: ServiceSettings) -> None:
    require_safe_address(settings, settings.host)
    settings = with_descriptors(_with_page_url(settings))
    listener = _listen(settings.host, settings.port)
    failure: BaseException | None
    with listener:
        if settings.worker_count > 1:
            failure = Supervisor(settings, listener).run()
        else:
            app = create_app(settings, bound_to=listener.getsockname()[0])
            server = ServiceServer(server_config(app, settings), app, settings)
            server.run(sockets=[listener])
            failure = server.failure
    if isinstance(failure, IKError):
        raise failure
    if failure is not None:
        raise StartError(f"The first solve failed: {failure}") from failure


def _with_page_url(settings: ServiceSettings) -> ServiceSettings:
    """Return settings with the URL of the live page, if enabled; StartError if the page cannot be served."""
    if settings.page_port is None:
        return settings
    if find_spec("viser") is None:
        raise StartError(f"A page (page_port) needs viser. {how_to_install('page')}")
    if settings.keys:
        raise StartError(
            "A page (page_port) asks nobody for a key, but the service does. Start it for those whom you trust: "
            "IK_SERVICE_API_KEY=... ik-service page --url ..."
        )
    return settings.model_copy(update={"page_url": settings.page_url or f"http://127.0.0.1:{settings.page_port}"})


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else error.strerror
        raise StartError(f"Cannot listen on {host}:{port}: {reason}. Give another --host or --port.") from error
    listener.set_inheritable(True)
    return listener


RESERVE = 256
"""Descriptors besides those of connections: libraries, kernels, robots, the compiling process, callers to refuse."""


def with_descriptors(settings: ServiceSettings) -> ServiceSettings:
    """Raise the soft limit of open files of this process if needed; return settings within the hard limit."""
    soft, hard = (_count(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    allowed = min(settings.max_connections + RESERVE, hard)
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(allowed), -1 if hard == float("inf") else int(hard)))
    connections = max(1, int(allowed) - RESERVE)
    if connections == settings.max_connections:
        return settings
    _logger.warning(
        "At most %d connections are taken instead of %d, because this process may open only %d files (ulimit -n).",
        connections,
        settings.max_connections,
        int(allowed),
    )
    return settings.model_copy(update={"max_connections": connections})


def _count(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit

"""The service on Ray Serve: replicas of the same application, one for each device.

    proxy of Ray -> replica: application, queue, solver's thread -> device

A replica is `ik-service serve` behind Ray's server instead of its own. A replica makes batches without Ray's batching.
Settings come from the environment of each machine; arguments of the configuration override them. Replicas with the same
`catalog_dir` share added robots.
"""

import asyncio
import gc
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve

from ik_service.service import create_app
from ik_service.service.gate.access import require_safe_address
from ik_service.service.gate.logs import configured_logs
from ik_service.service.queue.errors import ExpiredError, QueueFullError
from ik_service.service.routes.state import ServiceState
from ik_service.service.warm_up import first_request, warmed_robots
from ik_service.settings import ServiceSettings, load_settings
from objectives.errors import IKError, InputError

NAME = "solver"  # name of the deployment, with which a configuration sets the resources of its replicas
ONGOING_MOST = 256  # requests that a replica gets at once at most; it makes batches of them
QUEUED_MOST = 1024  # waiting requests of a proxy at most; more are refused
SHUTDOWN_S = 15.0  # time that a replica has to end, in addition to the longest time of a request [s]
HEALTH_PERIOD_S, HEALTH_TIMEOUT_S = 5.0, 12.0
"""Interval of the health checks of a replica, and time for an answer [s]; the third failure ends the replica."""
PROBE_S = 10.0  # time for the solve of a health check [s]

OF_THE_SERVER = frozenset(
    (
        *("host", "port", "max_header_bytes", "max_connections", "header_timeout_s", "answer_timeout_s"),
        *("keep_alive_s", "drain_s", "drain_delay_s"),
    )
)
"""Settings of the service's own server, which Ray's server replaces."""
SECRET = frozenset(("api_keys",))  # settings that must not stand in a configuration, which is not secret


class UnhealthyError(IKError):
    """A replica cannot solve any more and has to be replaced."""


class SolverReplica:
    """One application in a process of Ray, on the device assigned by Ray; `options` are those of `replica_settings`."""

    app: FastAPI

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._settings = replica_settings(options, _assigned_cpus())
        self._logs = ExitStack()  # until the process ends
        self._logs.enter_context(configured_logs(self._settings))
        self._is_proven = False

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the application; with an unknown address, API keys are required unless a setting allows none."""
        return create_app(self._settings)

    async def check_health(self) -> None:
        """Solve a problem; errors as in `require_solving`. Ray calls this before the first request, and then often."""
        service = self.app.state.service
        assert isinstance(service, ServiceState)  # set at the start of the application
        if not self._is_proven:
            await asyncio.wait([asyncio.wrap_future(service.warm_up)])
            service.warm_up.result()
            gc.collect()
            gc.freeze()  # as in the server of `ik-service serve`: no collection of permanent objects
            self._is_proven = True
        await require_solving(service, self._settings)


def build(args: dict[str, Any]) -> serve.Application:
    """Return the application for Ray Serve; `import_path` of a configuration names this function.

    Args:
        args: Settings by name; they override the environment of each replica.

    Raises:
        InputError: A setting is not allowed, is secret, or has no effect here; or there are no API keys.
    """
    settings = replica_settings(args)
    require_safe_address(settings, None)
    return deployment(settings).bind(args)


def deployment(settings: ServiceSettings) -> serve.Deployment:
    """Return the deployment without the resources of its replicas; a configuration sets the resources."""
    deploy = serve.deployment(
        name=NAME,
        max_ongoing_requests=ONGOING_MOST,
        max_queued_requests=QUEUED_MOST,
        graceful_shutdown_timeout_s=settings.request_timeout_s + SHUTDOWN_S,
        health_check_period_s=HEALTH_PERIOD_S,
        health_check_timeout_s=HEALTH_TIMEOUT_S,
        logging_config={"enable_access_log": False},  # the application has an access log
    )
    return deploy(serve.ingress()(SolverReplica))


def replica_settings(options: Mapping[str, Any], cpus: float = 1.0) -> ServiceSettings:
    """Return the settings of a replica; options are settings by name, which override the environment of this process.

    The cores of the replica are the default number of threads on a CPU. InputError if a setting is not allowed, is
    secret, or has no effect here.
    """
    for name in sorted(SECRET & set(options)):
        raise InputError(f"Setting {name} is secret: give it in the environment of Ray, or as api_keys_file.")
    for name in sorted(OF_THE_SERVER & set(options)):
        raise InputError(f"Setting {name} has no effect under Ray, whose server stands in front; see http_options.")
    settings = load_settings(**options)
    if settings.threads is not None:
        return settings
    return load_settings(**{**options, "threads": max(1, int(cpus))})


async def require_solving(service: ServiceState, settings: ServiceSettings) -> None:
    """Check that a solver works; an overloaded solver passes.

    UnhealthyError if its thread has ended, or its batch takes longer than any request may; or the solver's own error.
    """
    if service.pool.solving_s > settings.request_timeout_s:
        raise UnhealthyError("The solver's thread has ended, or does not come back from a batch.")
    name, robot = warmed_robots(service, settings.warm_up_robots)[0]
    with suppress(QueueFullError, ExpiredError, TimeoutError):
        probe = service.bridge.solve(robot, first_request(robot), timeout_s=PROBE_S, label=name)
        await asyncio.wait_for(probe, PROBE_S)


def _assigned_cpus() -> float:
    return float(ray.get_runtime_context().get_assigned_resources().get("CPU", 1.0))

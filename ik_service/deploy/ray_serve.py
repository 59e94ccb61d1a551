"""The service on Ray Serve: replicas of the same application, one for each device.

    proxy of Ray -> replica: application, queue, solver's thread -> device

A replica is what `ik-service serve` is, with Ray's server in front instead of ours: it batches by itself, so nothing of
Ray's batching stands before it. Settings are the environment's on each machine, and what the configuration gives as
arguments stands above them. Robots that are put reach all replicas where they share `catalog_dir`.
"""

import asyncio
import gc
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve

from ik_service.api import create_app
from ik_service.api.admission.access import require_safe_address
from ik_service.api.observability.logs import configured_logs
from ik_service.api.state import ServiceState
from ik_service.api.warm_up import first_request, warmed_robots
from ik_service.batching.errors import ExpiredError, QueueFullError
from ik_service.settings import ServiceSettings, load_settings
from objectives.errors import IKError, InputError

NAME = "solver"
"""Name of the deployment, under which a configuration gives its replicas resources."""
ONGOING_MOST = 256
"""Requests that a replica is given at once: batches are made of them."""
QUEUED_MOST = 1024
"""Requests that wait at a proxy at most; more are refused."""
SHUTDOWN_S = 15.0
"""Time that a replica has to end, beyond the longest that anybody waits for an answer."""
HEALTH_PERIOD_S, HEALTH_TIMEOUT_S = 5.0, 12.0
"""How often a replica is asked whether it can solve, and how long it has to say so; the third failure ends it."""
PROBE_S = 10.0
"""Time for the solve of such a question."""

OF_THE_SERVER = frozenset(
    (
        *("host", "port", "max_header_bytes", "max_connections", "header_timeout_s", "answer_timeout_s"),
        *("keep_alive_s", "drain_s", "drain_delay_s"),
    )
)
"""Settings of a server that is not there: Ray's stands in its place."""
SECRET = frozenset(("api_keys",))
"""Settings that everybody who sees the configuration would see."""


class UnhealthyError(IKError):
    """A replica can solve no more and has to be replaced."""


class SolverReplica:
    """One application in a process of Ray's, on the device that Ray gives it.

    Args:
        options: Settings by name, which stand above the environment of the process.
    """

    app: FastAPI

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._settings = replica_settings(options, _assigned_cpus())
        self._logs = ExitStack()  # until the process ends
        self._logs.enter_context(configured_logs(self._settings))
        self._is_proven = False

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the application; no address is told, so it wants API keys unless it is told not to."""
        return create_app(self._settings)

    async def check_health(self) -> None:
        """Solve a problem. Ray asks before it sends the first request, and then again and again.

        Raises:
            UnhealthyError: The solver has ended, or has been at one batch for longer than anybody waits.
            Exception: The first solve at the start failed, or this one, because of the device or the kernels.
        """
        service = self.app.state.service
        assert isinstance(service, ServiceState)  # put there at the start of the application
        if not self._is_proven:
            await asyncio.wait([asyncio.wrap_future(service.warm_up)])
            service.warm_up.result()
            gc.collect()
            gc.freeze()  # as under our own server: what stays is not to be gone through again and again
            self._is_proven = True
        await require_solving(service, self._settings)


def build(args: dict[str, Any]) -> serve.Application:
    """Return the application for Ray Serve: what `import_path` of a configuration names.

    Args:
        args: Settings by name, which stand above the environment of each replica.

    Raises:
        InputError: A setting is not allowed, is secret, or has no effect here; or there are no API keys.
    """
    settings = replica_settings(args)
    require_safe_address(settings, None)
    return deployment(settings).bind(args)


def deployment(settings: ServiceSettings) -> serve.Deployment:
    """Return the deployment, without the resources of its replicas, which a configuration gives."""
    deploy = serve.deployment(
        name=NAME,
        max_ongoing_requests=ONGOING_MOST,
        max_queued_requests=QUEUED_MOST,
        graceful_shutdown_timeout_s=settings.request_timeout_s + SHUTDOWN_S,
        health_check_period_s=HEALTH_PERIOD_S,
        health_check_timeout_s=HEALTH_TIMEOUT_S,
        logging_config={"enable_access_log": False},  # the application has its own
    )
    return deploy(serve.ingress()(SolverReplica))


def replica_settings(options: Mapping[str, Any], cpus: float = 1.0) -> ServiceSettings:
    """Return the settings of a replica.

    Args:
        options: Settings by name, which stand above the environment of this process.
        cpus: Cores that it may use; as many threads solve on a CPU unless a setting says how many.

    Raises:
        InputError: A setting is not allowed, is secret, or has no effect here.
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
    """See that a solver solves; one that has too much to do does.

    Raises:
        UnhealthyError: Its thread has ended, or has been at one batch for longer than anybody waits.
        Exception: What the solver says instead of solving a problem.
    """
    if service.pool.solving_s > settings.request_timeout_s:
        raise UnhealthyError("The solver's thread has ended, or does not come back from a batch.")
    name, robot = warmed_robots(service, settings.warm_up_robots)[0]
    with suppress(QueueFullError, ExpiredError, TimeoutError):
        probe = service.bridge.solve(robot, first_request(robot), timeout_s=PROBE_S, label=name)
        await asyncio.wait_for(probe, PROBE_S)


def _assigned_cpus() -> float:
    return float(ray.get_runtime_context().get_assigned_resources().get("CPU", 1.0))

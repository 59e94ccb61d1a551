"""The factory of the HTTP application: settings, robots, solver thread, routes and layers put together.

Nothing is global: two applications in one process share no state. Kernels begin to load at the application's start-up,
and health routes answer meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from threading import Thread
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from ik_service.service.catalog.robot_catalog import RobotCatalog
from ik_service.service.catalog.world_catalog import WorldCatalog
from ik_service.service.errors.problem_documents import install_problem_handlers
from ik_service.service.gate.access import require_safe_address
from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import Gate
from ik_service.service.gate.logs import AccessLog
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.pool.solver_pool import PoolLimits, SolverPool
from ik_service.service.queue.solve_request import PoolObserver
from ik_service.service.routes import check, close, forward, health, solve, stream
from ik_service.service.routes import robots as robot_routes
from ik_service.service.routes import worlds as world_routes
from ik_service.service.routes.docs_page import install_docs_page
from ik_service.service.routes.openapi import add_bodies
from ik_service.service.routes.state import ServiceState
from ik_service.service.warm_up import compile_ahead, warm_up
from ik_service.settings import ServiceSettings, load_settings
from objectives.errors import InputError, UnknownNameError

_DESCRIPTION = """Batched inverse kinematics: pose targets in, joint configurations out.

SI units and radians. Quaternions are in the order x, y, z, w. Row k of every column belongs to problem k. Errors are
RFC 9457 problem documents with a stable `code`."""
_ROUTES = (solve, stream, forward, close, check, robot_routes, world_routes, health)

FIRST_WORKER = 1
"""Number of the one worker that has code compiled ahead of callers."""

_logger = logging.getLogger(__name__)


def create_app(
    settings: ServiceSettings | None = None,
    *,
    robots: Mapping[str, RobotModel] | None = None,
    bound_to: str | None = None,
    compile_apart: bool = True,
    worker: int | None = None,
) -> FastAPI:
    """Return the application, ready to be served by any ASGI server.

    API keys are required unless the settings say `insecure` or the server is known to listen on loopback only.

    Args:
        settings: The settings; None reads the environment.
        robots: Robots to serve, by name; None serves the built-in ones that the settings name.
        bound_to: Address that the server listens on, from whoever opens it; None where it is not known.
        compile_apart: Whether a process of its own compiles kernels, so that the solver goes on meanwhile.
        worker: Number of this process, from 1 on, among several workers that count into files of one folder; None where
            the service is this process alone.

    Raises:
        InputError: A setting or a robot is not as it must be, or API keys are required and there are none.
    """
    settings = settings or load_settings()
    require_safe_address(settings, bound_to)
    if len(settings.devices) > 1:
        raise InputError(
            f"One process solves on one device, and setting device is {settings.device!r}. `ik-service serve` starts a "
            "worker for each."
        )
    catalog = _catalog(settings, robots if robots is not None else _built_in(settings))
    worlds = WorldCatalog(
        settings.catalog_dir, max_uploaded=settings.max_uploaded_worlds, uploaders=_uploaders(settings)
    )
    observer = ServiceMetrics(catalog.serves, worker=worker)
    admission = Admission(settings.request_timeout_s)
    role = None if worker is None else worker_role(worker)
    log = AccessLog(settings, role=role) if settings.access_log else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool = _solver_pool(settings, observer, compile_apart=compile_apart)
        admission.pool, admission.draining = pool, False
        admission.lag.start(asyncio.get_running_loop())
        state = ServiceState(settings, catalog, worlds, pool, observer, admission)
        state.warm_up = warm_up(state, pool, settings.warm_up_robots)
        observer.watch(pool, lambda: len(catalog.entries), lambda: state.is_ready)
        app.state.service = state
        ahead = Thread(target=compile_ahead, args=(state,), name="ik-ahead", daemon=True)
        if compile_apart and settings.warm_up_robots != () and worker in (None, FIRST_WORKER):
            ahead.start()
        yield
        await state.end()
        if ahead.ident is not None:
            await asyncio.to_thread(ahead.join)

    app = ServiceApp(
        lambda behind: Gate(behind, settings, bound_to, admission, observer, log),
        title="ik-service",
        version=version("ik-service"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
    )
    for routes in _ROUTES:
        app.include_router(routes.router)
    install_problem_handlers(app)
    install_docs_page(app)
    return app


class ServiceApp(FastAPI):
    """FastAPI with the gate in front."""

    def __init__(self, gate: Callable[[ASGIApp], Gate], **options: Any) -> None:
        super().__init__(**options)
        self._gate = gate

    def build_middleware_stack(self) -> ASGIApp:
        """Return the gate, the direct routes and FastAPI's layers; layers added by others see every request."""
        layers = super().build_middleware_stack()
        return self._gate(layers if self.user_middleware else solve.DirectRoutes(layers))

    def openapi(self) -> dict[str, Any]:
        """Return our OpenAPI document."""
        is_new, document = self.openapi_schema is None, super().openapi()
        if is_new:
            add_bodies(document)
        return document


def worker_role(number: int) -> str:
    """Return the name of a worker in logs."""
    return f"worker-{number}"


def _solver_pool(settings: ServiceSettings, observer: PoolObserver, *, compile_apart: bool) -> SolverPool:
    limits = PoolLimits(
        requests=settings.queue_requests,
        problems=settings.queue_problems,
        keys=settings.queue_keys,
        solvers=settings.solvers,
        batch_problems=settings.batch_problems,
        timeout_s=settings.request_timeout_s,
        is_shared=len(settings.keys) > 1,
    )
    return SolverPool(
        settings.device, limits=limits, threads=settings.threads, compile_apart=compile_apart, observer=observer
    )


def _catalog(settings: ServiceSettings, models: Mapping[str, RobotModel]) -> RobotCatalog:
    """Return the catalog of the robots that are served; InputError for none, or for an unknown one to warm up."""
    folder, most = settings.catalog_dir, settings.max_uploaded_robots
    catalog = RobotCatalog(models, folder, max_uploaded=most, uploaders=_uploaders(settings))
    if not catalog.entries and folder is None:
        raise InputError(
            "There is no robot to serve: setting robots (IK_SERVICE_ROBOTS) names none, and there is no catalog_dir "
            "(IK_SERVICE_CATALOG_DIR) where robots could be put. Leave robots out to serve all built-in ones."
        )
    unknown = sorted(set(settings.warm_up_robots or ()) - set(catalog.entries))
    if unknown and folder is None:
        raise UnknownNameError(f"Robot '{unknown[0]}' to warm up is not served. Robots: {', '.join(catalog.entries)}.")
    if unknown:
        _logger.warning("Robots to warm up that are not served, or no more: %s.", ", ".join(unknown))
    return catalog


def _uploaders(settings: ServiceSettings) -> int:
    """Return how many API keys may put and delete robots and worlds."""
    return settings.uploads_enabled * len(settings.keys if settings.uploaders is None else settings.uploaders)


def _built_in(settings: ServiceSettings) -> dict[str, RobotModel]:
    names = builtin_robot_names() if settings.robots is None else settings.robots
    unknown = sorted(set(names) - set(builtin_robot_names()))
    if unknown:
        known = ", ".join(builtin_robot_names())
        raise UnknownNameError(f"Setting robots names '{unknown[0][:100]}'. Built-in robots: {known}.")
    return {name: load_robot(name) for name in names}

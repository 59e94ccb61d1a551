"""The factory of the HTTP application: settings, robots, solver thread, routes and layers put together.

Nothing is global: two applications in one process share no state. Kernels begin to load at the application's start-up,
and health routes answer meanwhile.

    admission by headers -> request ids and errors -> bounds of bodies -> CORS -> API keys -> shares of keys
    -> routes (admission)
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from ik_service.api.admission.access import AccessCheck, require_safe_address
from ik_service.api.admission.admission import Admission
from ik_service.api.admission.request_memory import RequestMemory
from ik_service.api.admission.request_shares import RequestShares
from ik_service.api.catalog.robot_catalog import RobotCatalog
from ik_service.api.catalog.robot_store import RobotStore
from ik_service.api.errors.problem_handlers import install_problem_handlers
from ik_service.api.observability.logs import AccessLog
from ik_service.api.observability.metrics import ServiceMetrics
from ik_service.api.routes import forward as forward_routes
from ik_service.api.routes import health as health_routes
from ik_service.api.routes import metrics as metrics_routes
from ik_service.api.routes import robots as robot_routes
from ik_service.api.routes import solve as solve_routes
from ik_service.api.routes import stream as stream_routes
from ik_service.api.routes.docs_page import install_docs_page
from ik_service.api.routes.openapi import build_openapi
from ik_service.api.routes.stream import end_streams
from ik_service.api.server.body_limits import BodyBounds
from ik_service.api.server.early_refusal import EarlyRefusalMiddleware
from ik_service.api.server.request_middleware import FrontDoor, RequestObserver
from ik_service.api.state import ServiceState
from ik_service.api.warm_up import warm_up
from ik_service.batching.pool_limits import PoolLimits
from ik_service.batching.queue.fair_cap import FairCap
from ik_service.batching.side_threads import SideWork
from ik_service.batching.solver_pool import SolverPool
from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from ik_service.settings import ServiceSettings, load_settings
from objectives.errors import InputError, UnknownNameError

_DESCRIPTION = """Batched inverse kinematics: pose targets in, joint configurations out.

SI units and radians. Quaternions are in the order x, y, z, w. Row k of every column belongs to problem k. Errors are
RFC 9457 problem documents with a stable `code`."""
_CORS_METHODS = ("GET", "POST", "PUT", "DELETE")
_CORS_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "Prefer", "X-API-Key", "X-Request-ID")

SIDE_THREADS = 2
"""Threads that decode and encode what is large: with more, Python would hold up the event loop."""
CLOSE_S = 5.0
"""How long the end of the service waits for the solver's thread, once nobody waits for an answer any more."""

_log = logging.getLogger(__name__)


class Service(FastAPI):
    """The application, with its layers around FastAPI's own.

    Args:
        settings: The settings.
        bound_to: Address that its server listens on; None where it is not known.
        admission: Refuses requests that would be answered too late.
        observers: Are told about every request.
        options: For FastAPI.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        bound_to: str | None,
        admission: Admission,
        observers: Sequence[RequestObserver] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._settings, self._bound_to, self._observers = settings, bound_to, observers
        self.admission = admission
        is_shared = len(settings.keys) > 1
        self._memory = RequestMemory(
            settings.memory_bytes, settings.max_answer_bytes, is_shared=is_shared, refused=admission.count_refused
        )

    def build_middleware_stack(self) -> ASGIApp:
        """Return FastAPI's layers inside ours."""
        settings = self._settings
        shares = RequestShares(
            super().build_middleware_stack(),
            settings.max_connections,
            is_shared=len(settings.keys) > 1,
            refused=self.admission.count_refused,
        )
        stack: ASGIApp = AccessCheck(shares, settings, self._bound_to)
        if settings.cors_origins:
            stack = CORSMiddleware(
                stack,
                allow_origins=settings.cors_origins,
                allow_methods=_CORS_METHODS,
                allow_headers=_CORS_HEADERS,
                expose_headers=("ETag", "Retry-After", "X-Request-ID"),
            )
        stack = BodyBounds(stack, settings.max_body_bytes, settings.body_timeout_s, self._memory)
        stack = FrontDoor(stack, self._observers, self.is_draining)
        return EarlyRefusalMiddleware(stack, self.admission)

    def openapi(self) -> dict[str, Any]:
        """Return our OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = build_openapi(self)
        return self.openapi_schema

    def is_draining(self) -> bool:
        """Return whether the service is about to end."""
        service = getattr(self.state, "service", None)
        return service is not None and service.draining


def create_app(
    settings: ServiceSettings | None = None,
    *,
    robots: Mapping[str, RobotModel] | None = None,
    bound_to: str | None = None,
    compile_apart: bool = True,
) -> FastAPI:
    """Return the application, ready to be served by any ASGI server.

    API keys are required unless the settings say `insecure` or the server is known to listen on loopback only.

    Args:
        settings: The settings; None reads the environment.
        robots: Robots to serve, by name; None serves the built-in ones that the settings name.
        bound_to: Address that the server listens on, from whoever opens it; None where it is not known.
        compile_apart: Whether a process of its own compiles kernels, so that the solver goes on meanwhile.

    Raises:
        InputError: A setting or a robot is not as it must be, or API keys are required and there are none.
    """
    settings = settings or load_settings()
    require_safe_address(settings, bound_to)
    catalog = _catalog(settings, robots if robots is not None else _built_in(settings))
    if not catalog.robots and settings.catalog_dir is None:
        raise InputError(
            "There is no robot to serve: setting robots (IK_SERVICE_ROBOTS) names none, and there is no catalog_dir "
            "(IK_SERVICE_CATALOG_DIR) where robots could be put. Leave robots out to serve all built-in ones."
        )
    unknown = sorted(set(settings.warm_up_robots or ()) - set(catalog.robots))
    if unknown and settings.catalog_dir is None:
        raise UnknownNameError(f"Robot '{unknown[0]}' to warm up is not served. Robots: {', '.join(catalog.robots)}.")
    if unknown:
        _log.warning("Robots to warm up that are not served, or no more: %s.", ", ".join(unknown))

    metrics = ServiceMetrics(catalog.serves)
    admission = Admission(settings.request_timeout_s, metrics)
    is_shared = len(settings.keys) > 1

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool = SolverPool(
            settings.device,
            limits=pool_limits(settings),
            threads=settings.threads,
            compile_apart=compile_apart,
            observer=metrics,
        )
        admission.pool = pool
        admission.lag.start(asyncio.get_running_loop())
        state = ServiceState(
            catalog=catalog,
            pool=pool,
            metrics=metrics,
            admission=admission,
            max_body_bytes=settings.max_body_bytes,
            side_work=SideWork(SIDE_THREADS, "ik-side", is_shared=is_shared),
            catalog_work=SideWork(1, "ik-catalog", is_shared=is_shared),
            stream_cap=FairCap(settings.max_streams, "streams", "streams", is_shared=is_shared),
            uploaders=settings.uploaders,
        )
        state.warm_up = warm_up(state, settings.warm_up_robots)
        metrics.watch(pool, lambda: len(catalog.robots), lambda: state.is_ready)
        app.state.service = state
        yield
        state.draining = True
        admission.lag.stop()
        await end_streams(state)
        await close_pool(pool)
        state.side_work.close()
        state.catalog_work.close()
        state.catalog_watch.close()

    app = Service(
        settings,
        bound_to,
        admission,
        (metrics, AccessLog(settings)) if settings.access_log else (metrics,),
        title="ik-service",
        version=version("ik-service"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
    )
    for routes in (
        solve_routes,
        stream_routes,
        forward_routes,
        robot_routes,
        health_routes,
        metrics_routes,
    ):
        app.include_router(routes.router)
    install_problem_handlers(app)
    install_docs_page(app)
    return app


async def close_pool(pool: SolverPool) -> None:
    """End a pool; give up waiting where it cannot be ended, because something is being compiled."""
    ended = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def close() -> None:
        pool.close()
        with suppress(RuntimeError):  # the loop is gone, nobody waits any more
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=close, name="ik-close", daemon=True).start()  # must not keep the process alive
    await asyncio.wait([ended], timeout=CLOSE_S)
    if not ended.done():
        _log.warning("The solver is still compiling %.0f s after the end; it is left behind.", CLOSE_S)


def pool_limits(settings: ServiceSettings) -> PoolLimits:
    """Return the bounds of the solver's queue."""
    return PoolLimits(
        requests=settings.queue_requests,
        problems=settings.queue_problems,
        keys=settings.queue_keys,
        solvers=settings.solvers,
        batch_problems=settings.batch_problems,
        timeout_s=settings.request_timeout_s,
        is_shared=len(settings.keys) > 1,
    )


def _catalog(settings: ServiceSettings, models: Mapping[str, RobotModel]) -> RobotCatalog:
    store = None if settings.catalog_dir is None else RobotStore(settings.catalog_dir)
    return RobotCatalog(models, store, max_uploaded=settings.max_uploaded_robots, is_open=settings.uploads_enabled)


def _built_in(settings: ServiceSettings) -> dict[str, RobotModel]:
    names = builtin_robot_names() if settings.robots is None else settings.robots
    unknown = sorted(set(names) - set(builtin_robot_names()))
    if unknown:
        known = ", ".join(builtin_robot_names())
        raise UnknownNameError(f"Setting robots names '{unknown[0][:100]}'. Built-in robots: {known}.")
    return {name: load_robot(name) for name in names}

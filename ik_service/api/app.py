"""The factory of the HTTP application: robots, solver thread, routes and error handlers put together.

Nothing is global: two applications in one process share no state. Kernels begin to load at the application's start-up,
and health routes answer meanwhile.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib.metadata import version

import numpy as np
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from ik_service.api import health_routes, robot_routes, solve_routes
from ik_service.api.docs_page import install_docs_page
from ik_service.api.limits import MAX_BODY_BYTES
from ik_service.api.openapi import install_openapi
from ik_service.api.problems import install_problem_handlers
from ik_service.api.robot_schema import leaf_links
from ik_service.api.state import ServiceState
from ik_service.batching.answer import SolveAnswer
from ik_service.batching.request import SolveRequest, TargetColumns
from ik_service.batching.solver_pool import PoolLimits, SolverPool
from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from objectives.errors import IKError

_log = logging.getLogger(__name__)

_DESCRIPTION = """Batched inverse kinematics: pose targets in, joint configurations out.

SI units and radians. Quaternions are in the order x, y, z, w. Row k of every column belongs to problem k. Errors are
RFC 9457 problem documents with a stable `code`."""


def create_app(
    *,
    robots: Mapping[str, RobotModel] | None = None,
    device: str = "auto",
    max_body_bytes: int = MAX_BODY_BYTES,
    pool_limits: PoolLimits | None = None,
    compile_apart: bool = True,
) -> FastAPI:
    """Return the application, ready to be served by any ASGI server.

    Args:
        robots: Robots to serve, by name; None serves the built-in ones. The first one is solved once at start-up.
        device: Device to solve on: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
        max_body_bytes: Most bytes of a request body.
        pool_limits: Bounds of what may wait before more is refused with 503.
        compile_apart: Whether a process of its own compiles kernels, so that the solver goes on meanwhile.

    Raises:
        InputError: A built-in robot or an argument is not as it must be.
    """
    served = dict(robots) if robots is not None else {name: load_robot(name) for name in builtin_robot_names()}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state = ServiceState(
            served, SolverPool(device, limits=pool_limits, compile_apart=compile_apart), max_body_bytes
        )
        state.warm_up = warm_up(state)
        app.state.service = state
        yield
        await run_in_threadpool(state.pool.close)

    app = FastAPI(
        title="ik-service",
        version=version("ik-service"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    for routes in (solve_routes, robot_routes, health_routes):
        app.include_router(routes.router)
    install_problem_handlers(app)
    install_openapi(app)
    install_docs_page(app)
    return app


def warm_up(state: ServiceState) -> "Future[SolveAnswer]":
    """Queue a first problem, so that kernels are loaded before the first caller needs them."""
    name = "panda" if "panda" in state.robots else next(iter(state.robots))
    robot = state.robots[name]
    link = leaf_links(robot)[-1]
    pose = robot.forward_kinematics(robot.mid_joint_q, links=[link])
    positions, orientations = np.array(pose.positions).reshape(1, 3), np.array(pose.orientations_xyzw).reshape(1, 4)
    request = SolveRequest((TargetColumns(link, positions, orientations),))
    future = state.pool.submit(robot, request, compile_here=True)
    future.add_done_callback(_report)
    return future


def _report(future: "Future[SolveAnswer]") -> None:
    if future.cancelled():
        return
    error = future.exception()
    if error is not None:
        unexpected = None if isinstance(error, IKError) else error
        _log.error("The first solve failed, the service will not become ready: %s", error, exc_info=unexpected)
    else:
        _log.info("Ready: the first solve took %.0f ms.", future.result().solve_ms)

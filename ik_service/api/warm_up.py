"""The first solves after the start, which load the kernels."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

import numpy as np

from ik_service.api.state import ServiceState
from ik_service.batching.errors import SolverRestartingError
from ik_service.batching.remote.remote_pool import AnyPool, RemotePool
from ik_service.batching.remote.solver_connection import SolverConnection
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.requests.timed_result import TimedResult, pass_on
from ik_service.robots import RobotModel, load_robot
from ik_service.robots.structure.names import leaf_links
from ik_service.solver import SolverOptions, Target
from ik_service.solver.inputs.target_arrays import TargetArrays
from objectives.errors import IKError

WARM_UP_TIMEOUT_S = 600.0  # longer than that of requests: with an empty cache kernels are compiled first
_logger = logging.getLogger(__name__)


def warm_up(
    state: ServiceState, pool: AnyPool | SolverConnection, names: Sequence[str] | None = None
) -> "Future[TimedResult]":
    """Queue a first problem for some robots.

    Args:
        state: The robots that are served.
        pool: Solves them.
        names: The robots; see `warmed_robots`.

    Returns:
        The answer for the first robot, once all have been solved; or the first error.
    """
    robots = warmed_robots(state, names)
    futures = [
        pool.submit(robot, first_request(robot), timeout_s=WARM_UP_TIMEOUT_S, label=name, compile_here=True)
        for name, robot in robots
    ]
    joined: Future[TimedResult] = Future()
    joined.add_done_callback(_report)
    Thread(target=_join, args=(futures, joined), name="ik-warm-up", daemon=True).start()
    return joined


def keep_warm(state: ServiceState, pool: RemotePool, names: Sequence[str] | None = None) -> None:
    """Connect a front to its pool; queue the first problems with every new connection.

    Args:
        state: The state of the front; it is not ready until a process has solved them.
        pool: The pool.
        names: The robots; see `warmed_robots`.
    """
    loop = asyncio.get_running_loop()

    def connected(connection: SolverConnection) -> None:
        warm_up(state, connection, names).add_done_callback(partial(_call_in, loop, ended, connection))

    def ended(connection: SolverConnection, done: "Future[TimedResult]") -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, SolverRestartingError):
            return  # there will be another connection
        connection.is_warm = error is None
        if not state.warm_up.done():
            pass_on(state.warm_up, done)

    def lost() -> None:
        if state.warm_up.done() and not pool.is_connected:
            state.warm_up = Future()

    pool.start(connected, lost)


def warmed_robots(state: ServiceState, names: Sequence[str] | None = None) -> list[tuple[str, RobotModel]]:
    """Return the robots of the first solves, with their names.

    Args:
        state: The robots that are served.
        names: Robots of the settings, some of which may have been deleted; None: panda, or the first robot that moves,
            or the built-in panda where none is served.
    """
    moving = {name: it.model for name, it in state.catalog.entries.items() if leaf_links(it.model)}
    named = [(name, moving[name]) for name in names or ("panda",) if name in moving]
    return named or list(moving.items())[:1] or [("panda", load_robot("panda"))]


def first_request(
    robot: RobotModel, links: Sequence[str] = (), *, orientations: bool = True, options: SolverOptions | None = None
) -> SolveRequest:
    """Return a problem that is solved at once: links at their poses in the middle of the ranges.

    Args:
        robot: The robot.
        links: The links; none: the last leaf link.
        orientations: Whether orientations are given, too.
        options: Options of the solve; None: the defaults.
    """
    links = links or leaf_links(robot)[-1:]
    poses = robot.forward_kinematics(np.asarray(robot.mid_joint_q)[None], links)
    positions, turned = (list(array.swapaxes(0, 1)) for array in (poses.positions, poses.orientations_xyzw))
    arrays = TargetArrays.of(positions, turned if orientations else None)
    return SolveRequest(tuple(map(Target, links)), arrays, options=options or SolverOptions())


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in an event loop, unless it has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


def _join(futures: "Sequence[Future[TimedResult]]", joined: "Future[TimedResult]") -> None:
    wait(futures)
    if any(future.cancelled() for future in futures):
        joined.cancel()
        joined.set_running_or_notify_cancel()
        return
    error = next((error for future in futures if (error := future.exception()) is not None), None)
    if error is not None:
        joined.set_exception(error)
    else:
        joined.set_result(futures[0].result())


def _report(future: "Future[TimedResult]") -> None:
    if future.cancelled():
        return
    error = future.exception()
    if error is not None:
        unexpected = None if isinstance(error, IKError) else error
        _logger.error("The first solve failed, the service will not become ready: %s", error, exc_info=unexpected)
    else:
        _logger.info("Ready: the first solve took %.0f ms.", future.result().solve_ms)

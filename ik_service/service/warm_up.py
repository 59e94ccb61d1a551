"""The first solves after the start, which load the kernels, and the code that is compiled ahead of callers."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from operator import itemgetter
from threading import Thread
from typing import TypeAlias

import numpy as np

from ik_service.mechanism.names import leaf_links
from ik_service.robots import RobotModel, Sphere, World, load_robot
from ik_service.service.pool.kernel_builder import LOOK_S, BuildEnd, KernelBuilder
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.solve_request import SolveRequest, TimedResult
from ik_service.service.routes.state import ServiceState
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives.errors import IKError

WARM_UP_TIMEOUT_S = 600.0  # longer than that of requests: with an empty cache kernels are compiled first
TOOL = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])  # position [m] and orientation xyzw
FREE_RZ, WEIGHTS = np.array([0.0, 0.0, 0.0, 0.0, 0.0, np.inf]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
WORLD = World({"ball": Sphere(0.1, (9.0, 0.0, 0.0))})
Kind: TypeAlias = tuple[str, RobotModel, tuple[str, ...], Callable[[SolveRequest], SolveRequest]]
KINDS: Sequence[Callable[[SolveRequest], SolveRequest]] = (
    lambda plain: plain,
    lambda plain: replace(plain, batch=Batch.of(plain.batch.positions)),
    lambda plain: replace(plain, targets=(Target(plain.targets[0].link, tolerance=FREE_RZ, frame="tool"),)),
    lambda plain: replace(plain, targets=(Target(plain.targets[0].link, TOOL),)),
    lambda plain: replace(plain, targets=(Target(plain.targets[0].link, TOOL, row_weights=WEIGHTS),)),
    lambda plain: replace(plain, options=SolverOptions(solutions=2)),  # `best_of` needs the same code
    lambda plain: replace(plain, world=WORLD),
    lambda plain: replace(plain, options=SolverOptions(collision="off")),
)
"""Kinds of requests of the README and the page, made from a plain one; the last two need a collision model."""
_logger = logging.getLogger(__name__)


def warm_up(state: ServiceState, pool: SolverPool, names: Sequence[str] | None = None) -> "Future[TimedResult]":
    """Queue a first problem for some robots.

    Returns:
        The answer for the first robot, once all have been solved; or the first error.
    """
    robots = warmed_robots(state, names)
    futures = [
        pool.submit(robot, first_request(robot), timeout_s=WARM_UP_TIMEOUT_S, label=name, compile_here=True)
        for name, robot in robots
    ]
    joined: Future[TimedResult] = Future()
    Thread(target=_join, args=(futures, joined), name="ik-warm-up", daemon=True).start()
    return joined


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
    batch = Batch.of(positions, turned if orientations else None)
    return SolveRequest(tuple(map(Target, links)), batch, options or SolverOptions())


def compile_ahead(state: ServiceState) -> None:
    """Once the service is ready, compile code for more kinds of requests, one kind after the other.

    A process of the lowest priority compiles: nothing is queued or counted, and no caller waits for that process. A
    kind that cannot be compiled is left to its first caller. It returns at the end of all kinds or of the service.
    """
    while not state.is_ready:
        if state.admission.draining:
            return
        time.sleep(LOOK_S)
    builder, ends, began = KernelBuilder(state.settings.device, yields=True), list[BuildEnd](), time.monotonic()

    def owners(name: str, robot: RobotModel) -> tuple[None, ...]:
        served = state.catalog.entries.get(name)
        return (None,) if served is not None and served.model is robot else ()

    kinds = kinds_ahead(state)
    _logger.info("Compiling in the background for up to %d kinds of requests.", len(kinds))
    for name, robot, links, kind in kinds:
        try:
            builder.build(robot, kind(first_request(robot, links)), ends.append, partial(owners, name, robot))
        except Exception as error:  # noqa: BLE001  # a robot that is served may be odd; the next kind goes on
            _logger.debug("Nothing is compiled for '%s' of robot '%s': %s", ", ".join(links), name, error)
            ends.append(BuildEnd.FAILED)
    while len(ends) < len(kinds) and not state.admission.draining:
        time.sleep(LOOK_S)
    builder.close()
    there, seconds = ends.count(BuildEnd.COMPILED), time.monotonic() - began
    _logger.info("Code for %d of %d kinds of requests is there after %.0f s.", there, len(kinds), seconds)


def kinds_ahead(state: ServiceState) -> list[Kind]:
    """Return kinds of requests: name of the robot, robot, links, and what makes the request of a plain one.

    In order: the first robot's last leaf link; whole poses of other robots' last leaf links; other kinds; other links.
    """
    found: list[tuple[int, Kind]] = []
    names = state.settings.warm_up_robots or ("panda", *state.catalog.entries)
    for place, (name, robot) in enumerate(dict(warmed_robots(state, names)).items()):
        *others, last = leaf_links(robot)
        kinds = KINDS if robot.collision_model is not None else KINDS[:-2]
        found += [(min(k, place, 1), (name, robot, (last,), kind)) for k, kind in enumerate(kinds)]
        found += [(2, (name, robot, links, KINDS[0])) for links in [(*others, last), *zip(others)] if others]
    return [kind for _, kind in sorted(found, key=itemgetter(0))]


def _join(futures: "Sequence[Future[TimedResult]]", joined: "Future[TimedResult]") -> None:
    wait(futures)
    if any(future.cancelled() for future in futures):
        joined.cancel()
        joined.set_running_or_notify_cancel()
        return
    error = next((error for future in futures if (error := future.exception()) is not None), None)
    if error is not None:
        unexpected = None if isinstance(error, IKError) else error
        _logger.error("The first solve failed, the service will not become ready: %s", error, exc_info=unexpected)
        joined.set_exception(error)
    else:
        answer = futures[0].result()
        _logger.info("Ready: the first solve took %.0f ms.", answer.solve_ms)
        joined.set_result(answer)

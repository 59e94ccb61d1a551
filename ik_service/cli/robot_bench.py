"""Speed and success rate of an engine for a robot on this machine.

random reachable targets -> time per target on one pinned core and success by the float64 judge, per tolerance
-> latency of one target -> speedup by threads
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ik_service.cli.pose_problems import TOLERANCES, PoseProblems
from ik_service.ik_solver import IKSolver
from ik_service.robots import RobotModel
from ik_service.solver.result import IKResult
from objectives.errors import InputError

BATCH_TARGETS = 1000  # targets in batches of one size at least, where there are so many
WARM_UP_CALLS = 50  # of one target
LATENCY_CALLS = {"compiled": 1000, "staged": 100}
TYPICAL = TOLERANCES[1]


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """A measurement to make."""

    robot: RobotModel
    links: tuple[str, ...]  # links with a pose target each
    count: int = 10_000  # number of targets
    batch: int | None = None  # targets of a call; None takes all at once
    random_seed: int = 0  # seed of the targets
    threads: int | None = None  # threads to compare with one thread; None takes as many as there are cores
    repeats: int = 7  # repetitions of each measurement
    by_batch: bool = False  # whether to measure batches of 1, 10, 100 ... targets, too
    device: str = "auto"  # "auto", "cpu", "cuda" or one CUDA device

    def __post_init__(self) -> None:
        """Refuse plans without a possible measurement."""
        for name in ("count", "batch", "threads", "repeats"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}. Allowed: 1 or more.")


@dataclass(frozen=True)
class Spread:
    """Median and range of repeated measurements."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "Spread":
        """Return the spread of some values."""
        return cls(float(np.median(values)), float(values.min()), float(values.max()))


@dataclass(frozen=True)
class Batches:
    """Batches of targets by one engine at one tolerance."""

    engine: str
    clock: Literal["cpu", "wall"]  # clock of the measurement: "cpu" time of the one thread, or "wall" time on a GPU
    count: int
    position_tolerance_m: float  # tolerance [m]
    orientation_tolerance_rad: float  # tolerance [rad]
    solved_share: float  # share of answers accepted by the float64 judge
    false_successes: int  # answers reported as success but rejected by the judge
    us_per_target: Spread  # time per target [us]


@dataclass(frozen=True)
class Latency:
    """Wall time of calls with one target each, a new target every time [us]."""

    calls: int
    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class ThreadSpeedup:
    """Wall time of all targets by several threads and by one thread, per target [us]."""

    threads: int
    us_per_target: Spread
    us_per_target_of_one: Spread
    speedup: float


@dataclass(frozen=True)
class BenchReport:
    """The measured figures."""

    robot: str  # name of the robot
    links: tuple[str, ...]  # links with a pose target each
    device: str  # device of the measurement
    batch: int  # targets of a call
    random_seed: int  # seed of the targets
    batches: tuple[Batches, ...]  # figures per engine and tolerance
    latency: Latency  # latency of one target
    threads: ThreadSpeedup | None  # speedup by threads; None on one core or a GPU
    by_batch: tuple[tuple[int, float], ...] = ()  # sizes of batches, and targets per second of wall time with each


def run_bench(plan: BenchPlan, tell: Callable[[str], None] = lambda _: None) -> BenchReport:
    """Measure speed, latency and success rate; `tell` is called with the name of the next measurement.

    InputError if a link or the device does not exist.
    """
    problems = PoseProblems.random(plan.robot, plan.links, plan.count, plan.random_seed)
    solver = IKSolver(plan.robot, plan.links, device=plan.device)
    with _one_core():
        batches = [_measure(plan, solver, problems, tolerance, tell) for tolerance in TOLERANCES]
        tell("One target")
        latency = _latency(solver, problems)
        by_batch = tuple(_by_batch(plan, solver, problems, tell)) if plan.by_batch else ()
    tell("Threads")
    return BenchReport(
        robot=plan.robot.name,
        links=plan.links,
        device=str(solver.device),
        batch=min(plan.batch or plan.count, plan.count),
        random_seed=plan.random_seed,
        batches=tuple(batches),
        latency=latency,
        threads=_threads(plan, problems) if solver.engine == "compiled" and not solver.device.is_cuda else None,
        by_batch=by_batch,
    )


def _by_batch(
    plan: BenchPlan, solver: IKSolver, problems: PoseProblems, tell: Callable[[str], None]
) -> Iterator[tuple[int, float]]:
    for size in (10**k for k in range(len(str(len(problems))))):
        tell(f"Batches of {size}")
        some = problems[: max(size, BATCH_TARGETS)]
        times = _timed(solver, some, replace(plan, batch=size), TYPICAL, time.perf_counter)[0]
        yield size, len(some) / float(np.median(times))


def _measure(
    plan: BenchPlan,
    solver: IKSolver,
    problems: PoseProblems,
    tolerance: tuple[float, float],
    tell: Callable[[str], None],
) -> Batches:
    tell(f"{solver.engine.capitalize()} engine, {len(problems)} targets, tolerance {1e3 * tolerance[0]:g} mm")
    on_gpu = bool(solver.device.is_cuda)
    times, joint_q, claimed = _timed(
        solver, problems, plan, tolerance, time.perf_counter if on_gpu else time.thread_time
    )
    accepted = problems.judge(joint_q, *tolerance)
    return Batches(
        engine=solver.engine,
        clock="wall" if on_gpu else "cpu",
        count=len(problems),
        position_tolerance_m=tolerance[0],
        orientation_tolerance_rad=tolerance[1],
        solved_share=float(accepted.mean()),
        false_successes=int((claimed & ~accepted).sum()),
        us_per_target=Spread.of(1e6 * times / len(problems)),
    )


def _timed(
    solver: IKSolver,
    problems: PoseProblems,
    plan: BenchPlan,
    tolerance: tuple[float, float],
    clock: Callable[[], float],
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]:
    """Times of all targets [s], shape [repeats]; answers and success flags of the last repeat."""
    options: dict[str, object] = dict(zip(("position_tolerance", "orientation_tolerance"), tolerance, strict=True))
    size = plan.batch or plan.count
    parts = [problems[first : first + size] for first in range(0, len(problems), size)]
    times = np.zeros(plan.repeats)
    for repeat in range(-2, plan.repeats):  # two to load kernels and to record launches
        start = clock()
        results = [_solve(solver, part, options) for part in parts]
        if repeat >= 0:
            times[repeat] = clock() - start
    return (
        times,
        np.concatenate([result.joint_q for result in results]),
        np.concatenate([result.success for result in results]),
    )


def _solve(solver: IKSolver, problems: PoseProblems, options: dict[str, object] | None = None) -> IKResult:
    return solver.solve(problems.positions, problems.orientations_xyzw, options=options)


def _latency(solver: IKSolver, problems: PoseProblems) -> Latency:
    times = []
    for call in range(-WARM_UP_CALLS, LATENCY_CALLS[solver.engine]):
        row = call % len(problems)
        one = problems[row : row + 1]
        start = time.perf_counter()
        _solve(solver, one)
        if call >= 0:
            times.append(time.perf_counter() - start)
    p50, p99 = (1e6 * np.quantile(times, (0.5, 0.99))).tolist()
    return Latency(len(times), p50, p99)


def _threads(plan: BenchPlan, problems: PoseProblems) -> ThreadSpeedup | None:
    count = plan.threads if plan.threads is not None else len(os.sched_getaffinity(0))
    if count < 2:
        return None
    figures = []
    for threads in (1, count):
        solver = IKSolver(plan.robot, plan.links, device=plan.device, threads=threads)
        times = _timed(solver, problems, plan, TYPICAL, time.perf_counter)[0]
        figures.append(Spread.of(1e6 * times / len(problems)))
    one, several = figures
    return ThreadSpeedup(count, several, one, one.median / several.median)


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this thread on one core, so its cache stays filled."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)

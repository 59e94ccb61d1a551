"""Ticks with a deadline: how late they end, beside how late a loop that only reads the clock sees the same deadline."""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.control.paths import (
    ACCELERATION_ROUNDING,
    DT,
    KINDS,
    SPEED_ROUNDING,
    Stopwatch,
    make_controller,
    targets_of,
)
from benchmarks.problems.tick_paths import TickPath
from benchmarks.report import Report
from benchmarks.run import percentiles
from ik_service import IKStatus
from ik_service.robots import RobotModel

BUDGETS = (50, 100, 500)  # [µs]
SHORT = 5  # [µs] which cuts one robot's ticks, too
ROBOTS = {1: (SHORT, *BUDGETS), 64: BUDGETS}
SHARES = (50, 99)
WHOLE = (*SHARES, 99.9, 100)


@dataclass
class Lateness:
    """How late ticks ended. Own is the lateness without the time for which the thread did not run meanwhile."""

    ticks: list[tuple[int, int]] = field(default_factory=list)  # time after the deadline at which `step` returned, own
    clock: list[tuple[int, int]] = field(default_factory=list)  # the same of a loop that reads the clock
    cut: int = 0  # ticks of which the deadline ended a robot's
    iterations: list[int] = field(default_factory=list)  # iterations of the slowest robot
    launches: list[int] = field(default_factory=list)  # time of launches that made one iteration of all robots


def show_deadlines(report: Report, robot: RobotModel, path: TickPath, ticks: int) -> None:
    """Report how late ticks end."""
    report.section(
        "Deadlines",
        f"Pandas on circles, {ticks} ticks each, every one with a deadline so many µs after the call; a tick that has "
        "nothing to gain ends before. Overrun: how long after the deadline the call returned. Clock: how long after a "
        "deadline of the same length, set right after the tick, a loop that does nothing but read the clock saw it: "
        "what the machine's scheduling takes. Own: the overrun less the time for which the thread was not running "
        "during the tick; likewise for the clock. All in µs. The script asserts that every command is within its "
        f"limits. Claims are about {', '.join(map(str, BUDGETS))} µs; {SHORT} µs shows one robot's ticks cut.",
        *("robots, limits", "deadline", "cut", "iterations", "overrun: p50", "p99", "p99.9", "largest"),
        *("clock: p50", "p99", "p99.9", "largest", "own: p50", "p99", "clock's own: p50", "p99"),
    )
    for robots, budgets in ROBOTS.items():
        for kind in KINDS:
            found = [_follow(robot, path, KINDS[kind], robots, ticks, budget) for budget in budgets]
            one = 1e-3 * float(np.median(np.concatenate([late.launches for late in found])))
            for budget, late in zip(budgets, found, strict=True):
                (overrun, own), (clock, clock_own) = (1e-3 * np.transpose(late.ticks), 1e-3 * np.transpose(late.clock))
                whole = [*percentiles(overrun, *WHOLE), *percentiles(clock, *WHOLE)]
                owns = [*percentiles(own, *SHARES), *percentiles(clock_own, *SHARES)]
                counts = f"{late.cut / ticks:.1%}", f"{np.median(late.iterations):g}"
                report.row(f"{robots}, {kind}", budget, *counts, *whole, *owns)
            for share in SHARES:
                beyond = max(_beyond(late, share) for late in found[-len(BUDGETS) :])
                what = f"own overrun beyond the clock's, {robots} robot{'s' * (robots > 1)}, {kind}, p{share:g}"
                report.claim(what, f"{max(beyond, 0.0):.1f} µs", f"an iteration, {one:.1f} µs", beyond <= one)


def _beyond(late: Lateness, share: float) -> float:
    """How much later than the clock's the ticks are, both without the time for which the thread did not run [µs]."""
    ticks, clock = (np.percentile([own for _, own in times], share) for times in (late.ticks, late.clock))
    return 1e-3 * float(ticks - clock)


def _follow(robot: RobotModel, path: TickPath, kind: Any, robots: int, ticks: int, budget: int) -> Lateness:
    """Send robots along their paths with a deadline of so many microseconds in every tick."""
    controller: Any = make_controller(robot, path, kind, robots=robots)
    launch = Stopwatch(controller._launches.launches[0])
    controller._launches.launches = (launch,)
    late, before = Lateness(), np.tile(path.joint_q, (robots, 1))
    speeds = np.zeros_like(before)
    for target in targets_of(path, robots, ticks):
        launch.times.clear()
        cpu_begun = time.thread_time_ns()
        begun = time.monotonic_ns()
        result = controller.step(target, dt=DT, deadline_ns=begun + 1000 * budget)
        ended = time.monotonic_ns()
        late.ticks.append(_late(begun, ended, time.thread_time_ns() - cpu_begun, budget))
        late.cut += int((result.status == int(IKStatus.DEADLINE)).any())
        late.iterations.append(int(result.iterations.max()))
        late.launches += launch.times[1:-1]
        late.clock.append(_read_clock(budget))
        moves = (result.joint_q - before) / DT
        assert (result.joint_q >= robot.joint_limit_lower).all()
        assert (result.joint_q <= robot.joint_limit_upper).all()
        assert (np.abs(moves) <= robot.joint_velocity_limit * (1.0 + SPEED_ROUNDING)).all()
        if kind is not None:
            assert (np.abs(moves - speeds) <= kind * DT * (1.0 + ACCELERATION_ROUNDING)).all()
        before, speeds = result.joint_q.copy(), moves
    return late


def _late(begun: int, ended: int, cpu: int, budget: int) -> tuple[int, int]:
    """Return how late the end is, and how late without the time for which the thread did not run [ns]."""
    late = max(ended - begun - 1000 * budget, 0)
    return late, max(late - max(ended - begun - cpu, 0), 0)


def _read_clock(budget: int) -> tuple[int, int]:
    """Read the clock for so many microseconds, and return how late the end was seen."""
    cpu_begun = time.thread_time_ns()
    begun = now = time.monotonic_ns()
    while now < begun + 1000 * budget:
        now = time.monotonic_ns()
    return _late(begun, now, time.thread_time_ns() - cpu_begun, budget)

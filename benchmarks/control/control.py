"""The controller: time of a tick, quality along paths, deadlines; beside PlaCo and mink, on one pinned core.

Deadlines tell how late ticks end, beside how late a loop that only reads the clock sees the same deadline.
"""

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.control.paths import (
    ACCELERATION_ROUNDING,
    DT,
    KINDS,
    SPEED_ROUNDING,
    Array,
    Stopwatch,
    make_controller,
    show_paths,
    show_peers,
    targets_of,
    timed_ticks,
)
from benchmarks.problems.tick_paths import ACCELERATION, TickPath, panda_paths
from benchmarks.report import Report
from benchmarks.run import benchmark, in_turns, percentiles
from ik_service import IKStatus
from ik_service.control.tick.arrays import packed_launch
from ik_service.control.tick_islands import lanes_on
from ik_service.robots import RobotModel

BUDGETS = (50, 100, 500)  # [µs]
SHORT = 5  # [µs] which cuts one robot's ticks, too
BUDGETS_OF_ROBOTS = {1: (SHORT, *BUDGETS), 64: BUDGETS}
SHARES = (50, 99)
WHOLE = (*SHARES, 99.9, 100)
PATH_TICKS = 10_000  # of a millisecond: what the Panda's limits allow
SIZES = {  # without --full and with it
    "ticks": (10_000, 100_000),  # that are timed, with and without limits of acceleration
    "robot_ticks": (1000, 10_000),  # for each number of robots
    "deadline_ticks": (500, 10_000),  # for each deadline
    "rounds": (1, 5),  # in which all solvers take turns
}
MEDIAN_BOUND = 25.0  # [µs] one Panda
ROBOTS, RATIO_BOUND = (1, 4, 16, 64), 5.0  # the last over the first


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
    for robots, budgets in BUDGETS_OF_ROBOTS.items():
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
                asked = found[-len(BUDGETS) :]
                pairs = [[np.percentile(of, share, axis=0)[1] for of in (late.ticks, late.clock)] for late in asked]
                beyond = 1e-3 * max(ticks - clock for ticks, clock in pairs)
                what = f"own overrun beyond the clock's, {robots} robot{'s' * (robots > 1)}, {kind}, p{share:g}"
                report.claim(what, f"{max(beyond, 0.0):.1f} µs", f"an iteration, {one:.1f} µs", beyond <= one)


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


def _show_ticks(report: Report, robot: RobotModel, path: TickPath, ticks: int) -> None:
    report.section(
        "One tick",
        f"Panda on a circle, {ticks} ticks, µs: from the call to its return. CPU time includes the reading of two "
        "clocks, about a microsecond. The two kinds take turns, lap by lap.",
        *("limits", "wall: median", "p99", "p99.9", "CPU: median", "p99", "p99.9"),
    )
    targets = targets_of(path, 1, ticks)
    controllers = {name: make_controller(robot, path, kind) for name, kind in KINDS.items()}
    found: dict[str, list[tuple[Array, Array]]] = {name: [] for name in KINDS}
    for lap in range(0, ticks, len(path.poses)):
        for name, controller in controllers.items():
            found[name].append(timed_ticks(controller, targets[lap : lap + len(path.poses)], path.joint_q))
    medians = []
    for name, laps in found.items():
        wall, cpu = (np.concatenate(times) for times in zip(*laps, strict=True))
        report.row(name, *percentiles(wall, *SHARES, 99.9), *percentiles(cpu, *SHARES, 99.9))
        medians.append(float(np.median(wall)))
    worst = max(medians)
    report.claim("median of a Panda's tick", f"{worst:.1f} µs", f"{MEDIAN_BOUND:g} µs", worst <= MEDIAN_BOUND)


def _show_robots(report: Report, robot: RobotModel, path: TickPath, ticks: int, rounds: int) -> None:
    report.section(
        "Several robots in one tick",
        f"Pandas on circles of their own, {ticks} ticks each in {rounds} rounds, wall time, µs: median of the rounds' "
        f"medians. Robots share vector registers, {lanes_on(wp.get_device('cpu'), 1).width} of them here and "
        f"{lanes_on(wp.get_device('cpu'), ROBOTS[-1]).width} where there are more, so a few cost little more than one. "
        "One robot pays mostly for the call, which makes it a hard measure for many.",
        *("limits", "robots", "tick", "over one robot", "per robot", "p99"),
    )
    share = -(-ticks // rounds)
    for name, kind in KINDS.items():
        controllers = {count: make_controller(robot, path, kind, robots=count) for count in ROBOTS}
        laps = {
            count: partial(timed_ticks, controller, targets_of(path, count, share), path.joint_q)
            for count, controller in controllers.items()
        }
        walls = {count: [wall for wall, _ in found] for count, found in in_turns(laps, rounds).items()}
        medians = {count: float(np.median([np.median(one) for one in found])) for count, found in walls.items()}
        for count, median in medians.items():
            over, p99 = median / medians[1], np.percentile(np.concatenate(walls[count]), 99)
            report.row(name, count, f"{median:.1f}", f"{over:.1f}", f"{median / count:.2f}", f"{p99:.1f}")
        figure = f"{over:.1f} times ({median:.0f} µs, {median / count:.2f} µs each)"
        report.claim(f"{count} robots over one, {name}", figure, f"{RATIO_BOUND:g} times", over <= RATIO_BOUND)


@wp.kernel(enable_backward=False)
def nothing(settings: wp.array[wp.int32]):
    """Do nothing, to see what a launch costs."""


def _show_parts(report: Report, robot: RobotModel, path: TickPath, ticks: int) -> None:
    cases = {
        "one Panda": (None, 1),
        "one Panda, accelerations": (ACCELERATION, 1),
        "64 Pandas": (None, 64),
        "64 Pandas, accelerations": (ACCELERATION, 64),
    }
    report.section(
        "Where the time goes",
        f"Medians over {ticks} ticks, wall time, µs. The parts are timed inside the ticks, which makes these a little "
        "longer. The kernel is one launch; below it, the same work launch by launch, as ticks with deadlines do it, "
        "each with the cost of an empty launch. It begins by reading data, intervals of joints and the first "
        "evaluation; with limits of acceleration it also looks where the tasks of this tick and of the one before "
        "lead, to go there no faster than the robot can brake. It answers with commands, errors, active limits and "
        "the smallest singular value. The rest is Python: the call, its checks, clocks.",
        *("part", *cases),
    )
    columns = [_parts(robot, path, kind, robots, ticks) for kind, robots in cases.values()]
    for part in columns[0]:
        report.row(part, *(f"{column[part]:.2f}" for column in columns))


def _parts(robot: RobotModel, path: TickPath, kind: Any, robots: int, ticks: int) -> dict[str, float]:
    targets = targets_of(path, robots, ticks)
    controller: Any = make_controller(robot, path, kind, robots=robots)
    caller, launches = controller._caller, controller._launches
    check_targets, read_targets = Stopwatch(caller.checked_targets), Stopwatch(caller.read_targets)
    read_joints, kernel = Stopwatch(caller.read_joints), Stopwatch(launches.launches[0])
    caller.checked_targets, caller.read_targets, caller.read_joints = check_targets, read_targets, read_joints
    launches.launches = (kernel,)
    wall = float(np.median(timed_ticks(controller, targets)[0]))
    begins, iterations, ends = _launches(make_controller(robot, path, kind, robots=robots), targets)
    empty = Stopwatch(packed_launch(nothing, 1, [wp.zeros(1, dtype=wp.int32, device="cpu")], wp.get_device("cpu")))
    for _ in range(ticks):
        empty()
    found = {
        "targets to where the kernel reads them": _median(check_targets.times) + _median(read_targets.times),
        "`joint_q` and `joint_qd` there": _median(read_joints.times),
        "kernel": _median(kernel.times),
    }
    names = "in launches: begin", "in launches: an iteration", "in launches: answer", "an empty launch"
    inside = dict(zip(names, map(_median, (begins, iterations, ends, empty.times)), strict=True))
    return found | inside | {"rest: Python": wall - sum(found.values()), "tick": wall}


def _launches(controller: Any, targets: Array) -> tuple[list[int], list[int], list[int]]:
    """Times of launches that begin ticks, make an iteration, and answer [ns]."""
    launch = Stopwatch(controller._launches.launches[0])
    controller._launches.launches = (launch,)
    found = []
    for target in targets:
        launch.times.clear()
        controller.step(target, deadline_ns=time.monotonic_ns() + 10**10)
        found.append([*launch.times])
    return [one[0] for one in found], [time for one in found for time in one[1:-1]], [one[-1] for one in found]


def _median(times: list[int]) -> float:
    return 1e-3 * float(np.median(times))


def show(report: Report, *, ticks: int, robot_ticks: int, deadline_ticks: int, rounds: int) -> None:
    """Run all measurements."""
    robot = ik_service.load_robot("panda", collision="ignore")
    paths = panda_paths(robot, PATH_TICKS)
    circle = paths["circle"]
    _show_ticks(report, robot, circle, ticks)
    _show_robots(report, robot, circle, robot_ticks, rounds)
    _show_parts(report, robot, circle, robot_ticks)
    show_peers(report, robot, paths, rounds)
    show_paths(report, robot, paths)
    show_deadlines(report, robot, circle, deadline_ticks)


if __name__ == "__main__":
    benchmark(
        "The controller",
        show,
        "A tick is one call of `IKController.step` from Python, NumPy arrays in and out. The machine is shared: 'wall' "
        "has what other programs take, 'CPU' is what the thread was given. Joints and errors are judged from the "
        "commands that came back, by float64 forward kinematics and by differences between ticks of a millisecond.",
        sizes=SIZES,
        collects=False,
    )

"""The controller: time of a tick, quality along paths, deadlines; beside PlaCo and mink, on one pinned core.

python -m benchmarks.control.control [--full] [--write] [--ticks 100000] [--deadline-ticks 10000] ...
"""

import time
from functools import partial
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.control.deadlines import show_deadlines
from benchmarks.control.paths import (
    KINDS,
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
from ik_service.control.tick.arrays import packed_launch
from ik_service.control.tick_islands import lanes_on
from ik_service.robots import RobotModel

PATH_TICKS = 10_000  # of a millisecond: what the Panda's limits allow
SIZES = {  # without --full and with it
    "ticks": (10_000, 100_000),  # that are timed, with and without limits of acceleration
    "robot_ticks": (1000, 10_000),  # for each number of robots
    "deadline_ticks": (500, 10_000),  # for each deadline
    "rounds": (1, 5),  # in which all solvers take turns
}
SHARES = (50, 99, 99.9)
MEDIAN_BOUND = 25.0  # [µs] one Panda
ROBOTS, RATIO_BOUND = (1, 4, 16, 64), 5.0  # the last over the first


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
        report.row(name, *percentiles(wall, *SHARES), *percentiles(cpu, *SHARES))
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

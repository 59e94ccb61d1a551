"""Time of the controller's tick: of one Panda, of several, and of its parts."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from benchmarks.problems.tick_paths import ACCELERATION, LINK, TickPath
from benchmarks.report import Report
from ik_service.control import ControlLimits, IKController
from ik_service.control.tick.tick_launches import packed_launch
from ik_service.control.tick_islands import lanes_on
from ik_service.robots import RobotModel

MEDIAN_BOUND = 25.0  # [µs] one Panda
ROBOTS = (1, 4, 16, 64)
RATIO_BOUND = 5.0  # 64 robots over one
KINDS = {"speed limits": None, "speed and acceleration limits": ACCELERATION}
Times = NDArray[np.float64]


def make_controller(robot: RobotModel, path: TickPath, acceleration: Any, **options: Any) -> IKController:
    """Return a controller of the path's link at the start of the path."""
    controller = IKController(robot, [LINK], limits=ControlLimits(acceleration=acceleration), **options)
    controller.reset(path.joint_q)
    controller.warmup()
    return controller


def targets_of(path: TickPath, robots: int, ticks: int) -> NDArray[np.float64]:
    """Return targets of every tick, [ticks, robots, 1, 7]: each robot goes round a smaller loop than the one before.

    More ticks than the path has begin it again.
    """
    laps = -(-ticks // len(path.poses))
    poses = np.tile(path.poses, (laps, 1))[:ticks]
    targets = np.repeat(poses[:, None], robots, axis=1)
    size = np.linspace(1.0, 0.5, robots)[None, :, None]
    targets[..., :3] = path.poses[0, :3] + size * (targets[..., :3] - path.poses[0, :3])
    return np.ascontiguousarray(targets[:, :, None])


def timed(controller: IKController, targets: NDArray[np.float64]) -> tuple[Times, Times]:
    """Return wall and CPU time of every tick [µs]."""
    wall, cpu = np.zeros((2, len(targets)), dtype=np.int64)
    for k, target in enumerate(targets):
        cpu_begun = time.thread_time_ns()
        begun = time.perf_counter_ns()
        controller.step(target)
        ended = time.perf_counter_ns()
        cpu[k] = time.thread_time_ns() - cpu_begun
        wall[k] = ended - begun
    return 1e-3 * wall, 1e-3 * cpu


def percentiles(times: Times) -> list[str]:
    """Return median, p99 and p99.9 as text."""
    return [f"{value:.1f}" for value in np.percentile(times, (50, 99, 99.9))]


def show_ticks(report: Report, robot: RobotModel, path: TickPath, ticks: int) -> None:
    """Report the time of one Panda's tick."""
    report.section(
        "One tick",
        f"Panda on a circle, {ticks} ticks, µs: from the call to its return. CPU time includes the reading of two "
        "clocks, about a microsecond. The two kinds take turns, lap by lap.",
    )
    targets = targets_of(path, 1, ticks)
    controllers = {name: make_controller(robot, path, kind) for name, kind in KINDS.items()}
    found: dict[str, list[tuple[Times, Times]]] = {name: [] for name in KINDS}
    for lap in range(0, ticks, len(path.poses)):
        for name, controller in controllers.items():
            controller.reset(path.joint_q)
            found[name].append(timed(controller, targets[lap : lap + len(path.poses)]))
    report.table("limits", "wall: median", "p99", "p99.9", "CPU: median", "p99", "p99.9")
    medians = []
    for name, laps in found.items():
        wall, cpu = (np.concatenate(times) for times in zip(*laps, strict=True))
        report.row(name, *percentiles(wall), *percentiles(cpu))
        medians.append(float(np.median(wall)))
    report.line("")
    worst = max(medians)
    report.claim("median of a Panda's tick", f"{worst:.1f} µs", f"{MEDIAN_BOUND:g} µs", worst <= MEDIAN_BOUND)


def show_robots(report: Report, robot: RobotModel, path: TickPath, ticks: int, rounds: int) -> None:
    """Report the time of a tick for several robots."""
    report.section(
        "Several robots in one tick",
        f"Pandas on circles of their own, {ticks} ticks each in {rounds} rounds, wall time, µs: median of the rounds' "
        f"medians. Robots share vector registers, {lanes_on(wp.get_device('cpu'), 1).width} of them here and "
        f"{lanes_on(wp.get_device('cpu'), ROBOTS[-1]).width} where there are more, so a few cost little more than one. "
        "One robot pays mostly for the call, which makes it a hard measure for many.",
    )
    report.table("limits", "robots", "tick", "over one robot", "per robot", "p99")
    share = -(-ticks // rounds)
    ratios = []
    for name, kind in KINDS.items():
        given = [targets_of(path, robots, share) for robots in ROBOTS]
        controllers = [make_controller(robot, path, kind, robots=robots) for robots in ROBOTS]
        walls: list[list[Times]] = [[] for _ in ROBOTS]
        for _ in range(rounds):
            for controller, targets, times in zip(controllers, given, walls, strict=True):
                controller.reset(path.joint_q)
                times.append(timed(controller, targets)[0])
        medians = [float(np.median([np.median(one) for one in times])) for times in walls]
        for robots, median, times in zip(ROBOTS, medians, walls, strict=True):
            p99 = np.percentile(np.concatenate(times), 99)
            report.row(
                name, robots, f"{median:.1f}", f"{median / medians[0]:.1f}", f"{median / robots:.2f}", f"{p99:.1f}"
            )
        ratios.append((name, medians[-1], medians[-1] / medians[0]))
    report.line("")
    for name, median, ratio in ratios:
        figure = f"{ratio:.1f} times ({median:.0f} µs, {median / ROBOTS[-1]:.2f} µs each)"
        report.claim(f"64 robots over one, {name}", figure, f"{RATIO_BOUND:g} times", ratio <= RATIO_BOUND)


class Stopwatch:
    """Times calls of a function that it stands for.

    Attributes:
        times: Time of every call [ns].
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.times: list[int] = []
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        begun = time.perf_counter_ns()
        answer = self._function(*arguments)
        self.times.append(time.perf_counter_ns() - begun)
        return answer


@wp.kernel(enable_backward=False)
def nothing(settings: wp.array[wp.int32]):
    """Do nothing, to see what a launch costs."""


def show_parts(report: Report, robot: RobotModel, path: TickPath, ticks: int) -> None:
    """Report where the time of a tick goes."""
    report.section(
        "Where the time goes",
        f"Medians over {ticks} ticks, wall time, µs. The parts are timed inside the ticks, which makes these a little "
        "longer. The kernel is one launch; below it, the same work launch by launch, as ticks with deadlines do it, "
        "each with the cost of an empty launch. It begins by reading data, intervals of joints and the first "
        "evaluation; with limits of acceleration it also looks where the tasks of this tick and of the one before "
        "lead, to go there no faster than the robot can brake. It answers with commands, errors, active limits and "
        "the smallest singular value. The rest is Python: the call, its checks, clocks.",
    )
    cases = {
        "one Panda": (None, 1),
        "one Panda, accelerations": (ACCELERATION, 1),
        "64 Pandas": (None, 64),
        "64 Pandas, accelerations": (ACCELERATION, 64),
    }
    columns = [_parts(robot, path, kind, robots, ticks) for kind, robots in cases.values()]
    report.table("part", *cases)
    for part in columns[0]:
        report.row(part, *(f"{column[part]:.2f}" for column in columns))


def _parts(robot: RobotModel, path: TickPath, kind: Any, robots: int, ticks: int) -> dict[str, float]:
    """Medians of the parts of a tick [µs]."""
    targets = targets_of(path, robots, ticks)
    controller: Any = make_controller(robot, path, kind, robots=robots)
    caller, launches = controller._caller, controller._launches
    check_targets, read_targets = Stopwatch(caller.checked_targets), Stopwatch(caller.read_targets)
    read_joints, kernel = Stopwatch(caller.read_joints), Stopwatch(launches.launches[0])
    caller.checked_targets, caller.read_targets, caller.read_joints = check_targets, read_targets, read_joints
    launches.launches = (kernel,)
    wall = float(np.median(timed(controller, targets)[0]))
    begins, iterations, ends = _launches(make_controller(robot, path, kind, robots=robots), targets)
    empty = Stopwatch(packed_launch(nothing, 1, [wp.zeros(1, dtype=wp.int32, device="cpu")], wp.get_device("cpu")))
    for _ in range(ticks):
        empty()
    found = {
        "targets to where the kernel reads them": _median(check_targets.times) + _median(read_targets.times),
        "`joint_q` and `joint_qd` there": _median(read_joints.times),
        "kernel": _median(kernel.times),
    }
    inside = {
        "in launches: begin": _median(begins),
        "in launches: an iteration": _median(iterations),
        "in launches: answer": _median(ends),
        "an empty launch": _median(empty.times),
    }
    return found | inside | {"rest: Python": wall - sum(found.values()), "tick": wall}


def _launches(controller: Any, targets: NDArray[np.float64]) -> tuple[list[int], list[int], list[int]]:
    """Times of launches that begin ticks, make an iteration, and answer [ns]."""
    launch = Stopwatch(controller._launches.launches[0])
    controller._launches.launches = (launch,)
    begins, iterations, ends = [], [], []
    for target in targets:
        launch.times.clear()
        controller.step(target, deadline_ns=time.monotonic_ns() + 10**10)
        begins.append(launch.times[0])
        iterations += launch.times[1:-1]
        ends.append(launch.times[-1])
    return begins, iterations, ends


def _median(times: list[int]) -> float:
    return 1e-3 * float(np.median(times))

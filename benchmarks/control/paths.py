"""Controllers of a Panda along paths, the time of their ticks, and their quality: ours, and PlaCo and mink."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.environments import PeerMissingError, run_peer
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.pose_problems import rotations, transforms
from benchmarks.problems.tick_paths import ACCELERATION, LINK, TickPath
from benchmarks.report import Report
from ik_service import IKStatus
from ik_service.control import ControlLimits, IKController
from ik_service.robots import RobotModel

KINDS = {"speed limits": None, "speed and acceleration limits": ACCELERATION}
Array = NDArray[np.float64]
DT = 1e-3
ERROR_BOUND = 1e-4  # [m] along feasible paths
SHAKING_BOUND = 0.01  # of the limits: acceleration beyond what a path asks for
SPEED_ROUNDING, ACCELERATION_ROUNDING = 1e-9, 1e-6  # of first and second differences of float64 angles
PEERS = {
    "PlaCo": ("placo", ("placo==0.10.2", "numpy"), "placo_ticks.py"),
    "mink": ("mink", ("mink==1.3.0", "daqp", "numpy"), "mink_ticks.py"),
}
PEER_PATHS = ("circle", "figure of eight", "beyond the edge and back")


def make_controller(robot: RobotModel, path: TickPath, acceleration: Any, **options: Any) -> IKController:
    """Return a controller of the path's link at the start of the path."""
    controller = IKController(robot, [LINK], limits=ControlLimits(acceleration=acceleration), **options)
    controller.reset(path.joint_q)
    controller.warmup()
    return controller


def targets_of(path: TickPath, robots: int, ticks: int) -> Array:
    """Return targets of every tick, [ticks, robots, 1, 7]: each robot goes round a smaller loop than the one before.

    More ticks than the path has begin it again.
    """
    laps = -(-ticks // len(path.poses))
    poses = np.tile(path.poses, (laps, 1))[:ticks]
    targets = np.repeat(poses[:, None], robots, axis=1)
    size = np.linspace(1.0, 0.5, robots)[None, :, None]
    targets[..., :3] = path.poses[0, :3] + size * (targets[..., :3] - path.poses[0, :3])
    return np.ascontiguousarray(targets[:, :, None])


def timed_ticks(controller: IKController, targets: Array, start: Array | None = None) -> tuple[Array, Array]:
    """Return wall and CPU time of every tick [µs], from a configuration on or from where the controller is."""
    if start is not None:
        controller.reset(start)
    wall, cpu = np.zeros((2, len(targets)), dtype=np.int64)
    for k, target in enumerate(targets):
        cpu_begun = time.thread_time_ns()
        begun = time.perf_counter_ns()
        controller.step(target)
        ended = time.perf_counter_ns()
        cpu[k] = time.thread_time_ns() - cpu_begun
        wall[k] = ended - begun
    return 1e-3 * wall, 1e-3 * cpu


class Stopwatch:
    """Times calls of a function that it stands for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.times: list[int] = []  # of every call [ns]
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        begun = time.perf_counter_ns()
        answer = self._function(*arguments)
        self.times.append(time.perf_counter_ns() - begun)
        return answer


@dataclass(frozen=True)
class Run:
    """What became of a path, a line per tick."""

    robot: RobotModel  # the robot that followed it
    path: TickPath
    joint_q: Array
    status: NDArray[np.int32]  # `IKStatus`; empty for a peer

    @property
    def error(self) -> Array:
        """Distance to the target [m], by forward kinematics of the commands."""
        found = self.robot.forward_kinematics(self.joint_q, links=[LINK])
        return np.asarray(np.linalg.norm(found.positions[:, 0] - self.path.poses[:, :3], axis=1))

    @property
    def speed(self) -> float:
        """Largest speed over its limit."""
        steps = np.diff(self.joint_q, axis=0, prepend=self.path.joint_q[None])
        return float((np.abs(steps / DT) / self.robot.joint_velocity_limit).max())

    @property
    def acceleration(self) -> float:
        """Largest acceleration over the maker's limit."""
        steps = np.diff(self.joint_q, axis=0, prepend=self.path.joint_q[None])
        return float((np.abs(np.diff(steps, axis=0, prepend=np.zeros_like(steps[:1]))) / DT**2 / ACCELERATION).max())

    @property
    def outside(self) -> float:
        """How far commands are outside the position limits [rad]."""
        lower, upper = self.robot.joint_limit_lower, self.robot.joint_limit_upper
        return max(float(np.maximum(lower - self.joint_q, self.joint_q - upper).max()), 0.0)


def follow(robot: RobotModel, path: TickPath, acceleration: Array | None) -> Run:
    """Send the controller along a path."""
    controller = make_controller(robot, path, acceleration)
    found = [controller.step(pose, dt=DT).copy() for pose in path.poses]
    return Run(robot, path, np.concatenate([one.joint_q for one in found]), np.array([one.status[0] for one in found]))


def show_paths(report: Report, panda: RobotModel, paths: dict[str, TickPath]) -> None:
    """Report the quality along every path."""
    report.section(
        "Quality along paths",
        f"A Panda, {len(next(iter(paths.values())).poses)} ticks of 1 ms each, from rest to rest. Speeds and "
        "accelerations over their limits, largest of all joints and ticks; farthest outside the position limits; "
        "largest distance to the target; how often each status. Where the limits of acceleration are not given, their "
        "column only tells what the path asks for. 'Off' is for how many milliseconds the error is above 0.1 mm. "
        "Beyond the edge there is nothing to follow. In front of the joint limit speeds alone let other joints take "
        "over at once; with limits of acceleration the wrist has to brake, and the hand is late.",
        *("path", "limits", "speed", "acceleration", "outside [rad]", "error [mm]", "statuses", "off [ms]"),
        "at the end",
    )
    runs = {}
    for name, path in paths.items():
        for kind, acceleration in KINDS.items():
            run = runs[name, kind] = follow(path.robot(panda), path, acceleration)
            error = run.error
            words = Counter(sorted(IKStatus(int(code)).word for code in run.status))
            statuses = ", ".join(f"{word} {count}" for word, count in words.most_common())
            shares = f"{run.speed:.6f}", f"{run.acceleration:.6f}", f"{run.outside:.1g}"
            off = f"{1e3 * DT * (error > ERROR_BOUND).sum():.0f}"
            cells = f"{1e3 * error.max():.2g}", statuses, off, f"{1e3 * error[-1]:.1g}"
            report.row(name, kind, *shares, *cells)
    _claim(report, runs)


def _claim(report: Report, runs: dict[tuple[str, str], Run]) -> None:
    speed = max(run.speed for run in runs.values()) - 1.0
    acceleration = max(run.acceleration for (_, kind), run in runs.items() if KINDS[kind] is not None) - 1.0
    for what, figure, bound in (
        ("position limits broken by", max(run.outside for run in runs.values()), 0.0),
        ("speed limits broken by, of them", speed, SPEED_ROUNDING),
        ("acceleration limits broken by, of them", acceleration, ACCELERATION_ROUNDING),
    ):
        report.claim(what, f"{max(figure, 0.0):.1g}", f"{bound:g}", figure <= bound)
    feasible = {name for (name, _), run in runs.items() if run.path.feasible}
    plain, braked = KINDS
    shaking = {name: runs[name, braked].acceleration - runs[name, plain].acceleration for name in feasible}
    worst = max(shaking, key=lambda name: shaking[name])
    report.claim(
        "acceleration on feasible paths, beyond what they take without such limits",
        f"{max(shaking[worst], 0.0):.2g} of the limits ({worst})",
        f"{SHAKING_BOUND:g}",
        shaking[worst] <= SHAKING_BOUND,
    )
    error = max(run.error.max() for (name, _), run in runs.items() if name in feasible)
    end = max(run.error[-1] for run in runs.values())
    report.claim("error on feasible paths", f"{1e3 * error:.2g} mm", "0.1 mm", error < ERROR_BOUND)
    report.claim("error at the end of every path", f"{1e3 * end:.1g} mm", "0.1 mm", end < ERROR_BOUND)
    lags = " and ".join(f"{_lag(runs['beyond the edge and back', kind])} ms with {kind}" for kind in KINDS)
    report.line(
        f"- Beyond the edge, the hand is on the target again {lags} after the target is back where it was lost."
    )


def _lag(run: Run) -> int:
    """Ticks from when the target is back where it was lost to when the error is below its bound for good."""
    lost = np.flatnonzero(run.error > ERROR_BOUND)
    return int(lost[-1] - (len(run.error) - 1 - lost[0]))  # a path returns as it went


def show_peers(report: Report, robot: RobotModel, paths: dict[str, TickPath], rounds: int) -> None:
    """Report times and errors of all solvers on the same paths."""
    report.section(
        "Beside other controllers",
        "The Panda of the same URDF file, warm-started from its own last command, targets of 1 ms ticks, the same "
        f"damping and weight of radians beside metres. Times on the circle in {rounds} rounds in which all take "
        "turns, µs: median over the rounds of median and p99. 'Solve' is the call that finds the step; 'tick' is all "
        "that a program calls per tick: target in, step, kinematics brought up to date. What they do in it differs:",
    )
    report.line(
        "- ours iterates to convergence (at most 6 steps), inside limits of position, speed and, in the second line, "
        "acceleration; it also returns errors of the command, what holds every joint back and the smallest singular "
        "value. Solve and tick are the same call;"
    )
    report.line(
        "- PlaCo takes one step of a quadratic programme, in C++: linearised once, frame task in full, limits of "
        "position and speed, none of acceleration;"
    )
    report.line(
        "- mink takes one step of a quadratic programme, put together in Python and solved by DAQP: linearised once, "
        "frame task in full, limits of position and speed, none of acceleration; MuJoCo makes its model."
    )
    report.table("controller", "solve: median", "p99", "tick: median", "p99", "CPU of a tick: median", "p99")
    controllers = (*(f"ours, {kind}" for kind in KINDS), *PEERS)
    laps: dict[str, list[dict[str, Array]]] = {who: [] for who in controllers}
    missing = Counter[str]()
    for _ in range(rounds):
        for who, found in laps.items():
            try:
                found.append(_run(robot, paths["circle"], who))
            except PeerMissingError as error:
                missing[str(error)] += 1
    for who, found in laps.items():
        cells = [
            f"{1e-3 * np.median([np.percentile(lap[column], share) for lap in found]):.1f}" if found else ""
            for column in ("solves", "ticks", "cpu")
            for share in (50, 99)
        ]
        report.row(_named(who, found), *cells)
    report.line(
        "".join(f"Not measured: {error}. " for error in missing)
        + "How well the commands serve the paths: largest error, speeds and accelerations over their limits, how far "
        "outside the position limits, and how far all joints went together. Beyond the edge no command is right; what "
        "the joints do there tells whether they settle or shake."
    )
    report.table("path", "controller", "error [mm]", "speed", "acceleration", "outside [rad]", "way of joints [rad]")
    for name in PEER_PATHS:
        for who in [who for who in controllers if laps[who]]:
            joint_q = (laps[who][0] if name == "circle" else _run(robot, paths[name], who))["joint_q"]
            run = Run(robot, paths[name], joint_q, np.zeros(0, np.int32))
            figures = f"{1e3 * run.error.max():.2g}", f"{run.speed:.3f}", f"{run.acceleration:.3f}"
            way = f"{np.abs(np.diff(joint_q, axis=0)).sum():.1f}"
            report.row(name, _named(who, laps[who]), *figures, f"{run.outside:.1g}", way)


def _named(who: str, laps: list[dict[str, Array]]) -> str:
    return " ".join([who, *(str(lap["version"]) for lap in laps[:1] if "version" in lap)])


def _run(robot: RobotModel, path: TickPath, who: str) -> dict[str, Array]:
    """Return commands `joint_q` and times of every tick [ns]."""
    if who not in PEERS:
        controller = make_controller(robot, path, KINDS[who.removeprefix("ours, ")])
        wall, cpu = timed_ticks(controller, path.poses)
        controller.reset(path.joint_q)
        joint_q = np.array([controller.step(pose, dt=DT).joint_q[0].copy() for pose in path.poses])
        return {"joint_q": joint_q, "solves": 1e3 * wall, "ticks": 1e3 * wall, "cpu": 1e3 * cpu}
    return run_peer(
        *PEERS[who],
        urdf=str(PANDA.path),
        link=LINK,
        joint_names=robot.joint_names,
        joint_q=path.joint_q,
        velocity=robot.joint_velocity_limit,
        transforms=transforms(path.poses[:, :3], rotations(path.poses[:, 3:])),
        dt=DT,
    )

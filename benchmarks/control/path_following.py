"""Paths of 1000 waypoints: every waypoint by itself, a warm-started chain, `IKSolver.follow`, `IKController.follow`.

python -m benchmarks.control.path_following [--write] [--lines 60] [--rounds 5]

Prints its tables; --write also writes path_following.md beside this file.
"""

import argparse
import gc
import os
import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.tick_paths import panda_paths
from benchmarks.report import Report, machine
from ik_service.control import IKController
from ik_service.robots import RobotModel

WAYPOINTS = 1000
DT = 0.01
SLOW = 0.02  # [s] from waypoint to waypoint of the random lines
HANDS = ["left_panda_hand", "right_panda_hand"]
PANDA_HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
UR5E_HOME = np.array([0.2, -1.2, 1.5, -1.8, -1.5, 0.3])

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Path:
    """A path to follow.

    Attributes:
        robot: The robot.
        links: Its targets.
        positions: [m], [waypoints, targets, 3].
        orientations: xyzw, [waypoints, targets, 4].
        start: Configuration at the first waypoint.
        dt: Time from waypoint to waypoint [s].
    """

    robot: RobotModel
    links: list[str]
    positions: Array
    orientations: Array
    start: Array
    dt: float = DT

    @classmethod
    def of_joints(cls, robot: RobotModel, links: list[str], joint_q: Array) -> "Path":
        """Return the poses that joints go through."""
        poses = robot.forward_kinematics(joint_q, links=links)
        return cls(robot, links, poses.positions, poses.orientations_xyzw, joint_q[0])


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a way of following gave: share of waypoints met, largest change of a joint, waypoints over the speeds."""

    met: float
    step: float
    over: int


def named_paths() -> dict[str, Path]:
    """Return paths by name."""
    panda, ur5e, dual = (ik_service.load_robot(name, collision="ignore") for name in ("panda", "ur5e", "dual_panda"))
    found = {}
    for name, path in panda_paths(panda, WAYPOINTS).items():
        found[f"panda, {name}"] = Path(
            panda, ["panda_hand"], path.poses[:, None, :3], path.poses[:, None, 3:], path.joint_q
        )
    joint_q = _swing(UR5E_HOME, 0.8)
    found["ur5e, all joints swing"] = Path.of_joints(ur5e, ["tool0"], joint_q)
    turning = joint_q.copy()
    turning[:, 5] += np.linspace(0.0, 10.0, WAYPOINTS)
    found["ur5e, the wrist turns by 10 rad"] = Path.of_joints(ur5e, ["tool0"], turning)
    found["dual_panda, all joints swing"] = Path.of_joints(dual, HANDS, _swing(np.tile(PANDA_HOME, 2), 0.3))
    return found


def random_lines(count: int) -> list[Path]:
    """Return straight lines of a Panda's hand between random configurations."""
    robot, rng = ik_service.load_robot("panda", collision="ignore"), np.random.default_rng(0)
    s = np.linspace(0.0, 1.0, WAYPOINTS)[:, None]
    share = s * s * (3.0 - 2.0 * s)
    lines = []
    for _ in range(count):
        ends = robot.random_joint_q(rng, 2)
        poses = robot.forward_kinematics(ends, links=["panda_hand"])
        positions = (1.0 - share) * poses.positions[0] + share * poses.positions[1]
        first, last = poses.orientations_xyzw[:, 0]
        last = last * np.sign(first @ last)
        angle = np.arccos(np.clip(first @ last, -1.0, 1.0))
        orientations = (np.sin((1.0 - share) * angle) * first + np.sin(share * angle) * last) / np.sin(angle)
        lines.append(Path(robot, ["panda_hand"], positions[:, None], orientations[:, None], ends[0], SLOW))
    return lines


def _swing(home: Array, reach: float) -> Array:
    phase = np.arange(len(home))
    turn = np.linspace(0.0, 2.0 * np.pi, WAYPOINTS)[:, None]
    return np.asarray(home + reach * (np.sin(turn + phase) - np.sin(phase)))


class Ways:
    """The ways of following paths of one robot.

    Args:
        path: A path of it.
    """

    def __init__(self, path: Path) -> None:
        self._solver = ik_service.IKSolver(path.robot, path.links, device="cpu")
        self._controller = IKController(path.robot, path.links)
        self.ways: dict[str, Callable[[Path], Outcome]] = {
            "each by itself": self._each,
            "warm-started chain": self._chain,
            "follow": lambda path: self._follow(path, None),
            "follow, from a start": lambda path: self._follow(path, path.start),
            "ticks, from a start": self._ticks,
        }

    def _each(self, path: Path) -> Outcome:
        result = self._solver.solve(path.positions, path.orientations)
        return _outcome(path, result.joint_q, result.success)

    def _chain(self, path: Path) -> Outcome:
        joint_q, found, success = path.start, [], []
        for position, orientation in zip(path.positions, path.orientations, strict=True):
            result = self._solver.solve(position[None], orientation[None], initial_joint_q=joint_q)
            joint_q = result.joint_q[0]
            found.append(joint_q)
            success.append(result.success[0])
        return _outcome(path, np.array(found), np.array(success))

    def _follow(self, path: Path, start: Array | None) -> Outcome:
        result = self._solver.follow(path.positions, path.orientations, path.dt, start_joint_q=start)
        return _outcome(path, result.joint_q, result.success)

    def _ticks(self, path: Path) -> Outcome:
        result = self._controller.follow(path.positions, path.orientations, path.dt, start_joint_q=path.start)
        return _outcome(path, result.joint_q, result.success)


def _outcome(path: Path, joint_q: Array, success: NDArray[np.bool_]) -> Outcome:
    """Judge a path; all joints of these robots have one coordinate."""
    change = np.abs(np.diff(joint_q.astype(np.float64), axis=0))
    over = (change > path.robot.joint_velocity_limit * path.dt * (1.0 + 1e-4)).any(axis=1)
    return Outcome(float(success.mean()), float(change.max()), int(over.sum()))


def show_paths(report: Report, rounds: int) -> None:
    """Tell time and outcome of every way along every path."""
    report.section(
        "Paths",
        f"{WAYPOINTS} waypoints, {1e3 * DT:g} ms apart. CPU time of the thread, median of {rounds} rounds in which all "
        "ways take turns; 'step' is the largest change of a joint from one waypoint to the next, 'over' the number of "
        "waypoints that a joint reaches faster than its limit, 'met' the share of waypoints that are met.",
    )
    report.table("path", "way", "ms", "met", "step, rad", "over")
    for name, path in named_paths().items():
        ways = Ways(path).ways
        outcomes = {way: run(path) for way, run in ways.items()}  # compiles
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, run in ways.items():
                begun = time.thread_time()
                run(path)
                times[way].append(time.thread_time() - begun)
        for way, found in outcomes.items():
            milliseconds = f"{1e3 * float(np.median(times[way])):.0f}"
            report.row(name, way, milliseconds, f"{found.met:.1%}", f"{found.step:.4f}", found.over)


def show_lines(report: Report, count: int) -> None:
    """Tell what becomes of random lines."""
    lines = random_lines(count)
    ways = Ways(lines[0]).ways
    outcomes = {way: [run(path) for path in lines] for way, run in ways.items()}
    reachable = [k for k, found in enumerate(outcomes["follow"]) if found.met == 1.0]
    report.section(
        "Straight lines",
        f"{count} straight lines of a Panda's hand between random poses, {WAYPOINTS} waypoints {1e3 * SLOW:g} ms "
        f"apart; every waypoint of {len(reachable)} of them has a solution. Whether these lines can be followed "
        "without a break is not known; 'without a break' is how many were, all waypoints met within the speeds.",
    )
    report.table("way", "without a break", "median step, rad", "waypoints over the speeds")
    for way, found in outcomes.items():
        chosen = [found[k] for k in reachable]
        whole = sum(one.met == 1.0 and one.over == 0 for one in chosen)
        step = float(np.median([one.step for one in chosen]))
        report.row(way, whole, f"{step:.4f}", sum(one.over for one in chosen))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write path_following.md")
    parser.add_argument("--lines", type=int, default=60, help="random lines")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are timed")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    gc.disable()
    report = Report("Following a path")
    report.line("")
    report.line(
        f"Made by `python -m benchmarks.control.path_following --lines {arguments.lines} --rounds {arguments.rounds}`; "
        f"one pinned core of {machine()}, ik-service {ik_service.__version__}. 'each by itself' is one call of "
        "`solve`; the chain gives each waypoint the solution before as start, with further starts where that fails; "
        "'from a start' begins at a given configuration, 'follow' without it may choose; 'ticks' is "
        "`IKController.follow`, which never goes over the speeds and falls behind instead."
    )
    show_paths(report, arguments.rounds)
    show_lines(report, arguments.lines)
    if arguments.write:
        report.save(pathlib.Path(__file__).with_name("path_following.md"))


if __name__ == "__main__":
    main()

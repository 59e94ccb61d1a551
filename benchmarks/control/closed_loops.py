"""A controller of two arms that hold one object: whether it stays held, within which limits, and at what price.

python -m benchmarks.control.closed_loops [--write] [--ticks 10000] [--rounds 5]

Closure, limits and errors are judged by kinematics of the host in float64. --write also writes closed_loops.md.
"""

import argparse
import gc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.control.ticks import timed
from benchmarks.islands.closed_loops import HELD, LEFT, RIGHT, errors, poses
from benchmarks.problems.tick_paths import ACCELERATION
from benchmarks.report import Report, machine
from ik_service.control import ControlLimits, IKController
from ik_service.mechanism.transforms import transform_multiply
from ik_service.robots import LoopConstraint, RobotModel

NEAR = np.array([-0.2483, -0.3281, 0.1092, -2.1921, -1.5796, 1.7196, -0.0944])
NEAR = np.concatenate([NEAR, [0.2485, -0.3281, -0.1093, -2.1921, 1.5796, 1.7197, 1.6652]])
RADIUS, ROUNDS = 0.1, 3  # of the circle [m], times round
LIMITS = {"speed": None, "speed and acceleration": np.tile(ACCELERATION, 2)}
CLOSED = 1e-6  # [m and rad]
WITHIN = 1.0 + 1e-6  # of a limit of speed or acceleration: differences of float64 positions between ticks
GOALS, GOAL_TICKS, SEED = 20, 1500, 7
DT = 1e-3
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ticks:
    """What a controller did, a line per tick.

    Attributes:
        joint_q: Commands.
        status: Statuses.
        gaps: How far the object is from the right hand: [m] and [rad].
        distance: Of the left hand to its target [m].
        speed: Largest share of a limit of speed.
        acceleration: The same of acceleration.
        outside: How far a joint is beyond its range [rad].
    """

    joint_q: Array
    status: NDArray[np.int32]
    gaps: tuple[Array, Array]
    distance: Array
    speed: float
    acceleration: float
    outside: float


def controller_of(robot: RobotModel, links: list[str], kind: str, robots: int = 1) -> IKController:
    """Return a controller of some hands."""
    return IKController(robot, links, limits=ControlLimits(acceleration=LIMITS[kind]), robots=robots)


def run(controller: IKController, start: Array, targets: Array, kind: str) -> Ticks:
    """Go along targets of the left hand and judge every tick."""
    robot = controller.robot
    controller.reset(start)
    joint_q, status = np.empty((len(targets), len(start))), np.empty(len(targets), np.int32)
    for tick, target in enumerate(targets):
        found = controller.step(target)
        joint_q[tick], status[tick] = found.joint_q[0], found.status[0]
    hands = [poses(robot, joint_q, link) for link in (LEFT, RIGHT)]
    gaps = errors(hands[1], transform_multiply(hands[0], np.tile(HELD, (len(joint_q), 1))))
    speeds = np.diff(joint_q, axis=0, prepend=start[None]) / DT
    changes = np.diff(speeds, axis=0, prepend=np.zeros((1, len(start)))) / DT
    most = LIMITS[kind]
    below, above = robot.joint_limit_lower - joint_q, joint_q - robot.joint_limit_upper
    return Ticks(
        joint_q,
        status,
        gaps,
        np.linalg.norm(hands[0][:, :3] - targets[:, :3], axis=1),
        float((np.abs(speeds) / robot.joint_velocity_limit).max()),
        0.0 if most is None else float((np.abs(changes) / most).max()),
        float(max(below.max(), above.max(), 0.0)),
    )


def circle_of(robot: RobotModel, start: Array, ticks: int) -> Array:
    """Return targets of the left hand on a circle, from rest to rest, [ticks, 7]."""
    s = np.linspace(0.0, 1.0, ticks)
    turn = 2.0 * np.pi * ROUNDS * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    targets = np.tile(poses(robot, start[None], LEFT)[0], (ticks, 1))
    targets[:, 0] += RADIUS * (np.cos(turn) - 1.0)
    targets[:, 2] += RADIUS * np.sin(turn)
    return targets


def report_ticks(report: Report, name: str, ticks: Ticks) -> None:
    """Add what happened as a row, and a line if a bound is missed."""
    counts = zip(*np.unique(ticks.status, return_counts=True), strict=True)
    statuses = ", ".join(f"{ik_service.IKStatus(int(code)).word} {count}" for code, count in counts)
    metres, radians = (float(gap.max()) for gap in ticks.gaps)
    shares = f"{ticks.speed:.3f}", f"{ticks.acceleration:.3f}" if ticks.acceleration else "-", f"{ticks.outside:g}"
    away = 1e6 * ticks.distance
    report.row(name, f"{metres:.1e}", f"{radians:.1e}", *shares, f"{away.mean():.3g}", f"{away.max():.3g}", statuses)
    is_kept = ticks.speed <= WITHIN and ticks.acceleration <= WITHIN and ticks.outside == 0.0
    if max(metres, radians) > CLOSED or not is_kept:
        report.missed.append(f"{name}: {metres:.1e} m, {radians:.1e} rad, limits {shares}")


HEADS = ("limits", "gap, m", "gap, rad", "speed", "acceleration", "beyond the range", "error: mean, µm", "largest")


def show_circle(report: Report, arms: RobotModel, robot: RobotModel, start: Array, ticks: int) -> None:
    """Report a circle of the left hand, with the loop and without it."""
    report.section(
        "On a circle",
        f"{ticks} ticks of 1 ms; the left hand has a target on a circle of {RADIUS} m, {ROUNDS} times round from rest "
        "to rest, and the right hand holds on. 'Gap': largest of all ticks. 'Speed' and 'acceleration': largest share "
        f"of a joint's limit. Bound: gaps of at most {CLOSED:.0e} m and rad, no limit broken.",
    )
    report.table(*HEADS, "statuses")
    targets = circle_of(arms, start, ticks)
    for kind in LIMITS:
        report_ticks(report, kind, run(controller_of(robot, [LEFT], kind), start, targets, kind))


def show_jumps(report: Report, robot: RobotModel, start: Array) -> None:
    """Report targets that jump, far beyond what limits allow in a tick."""
    rng = np.random.default_rng(SEED)
    near = 0.7 * start + 0.3 * robot.random_joint_q(rng, GOALS)
    wanted = poses(robot, near, LEFT)
    solver = ik_service.IKSolver(robot, [LEFT], device="cpu")
    found = solver.solve(wanted[:, None, :3], wanted[:, None, 3:], initial_joint_q=start)
    goals = poses(robot, found.joint_q[found.success], LEFT)
    report.section(
        "Targets that jump",
        f"{len(goals)} poses that the left hand can reach with the object, one after another, {GOAL_TICKS} ticks each. "
        "Errors are mostly those of the way. The same bounds.",
    )
    report.table(*HEADS, "statuses")
    targets = np.repeat(goals, GOAL_TICKS, axis=0)
    for kind in LIMITS:
        report_ticks(report, kind, run(controller_of(robot, [LEFT], kind), start, targets, kind))


def show_times(report: Report, arms: RobotModel, robot: RobotModel, start: Array, ticks: int, rounds: int) -> None:
    """Report the time of a tick beside that without the loop."""
    report.section(
        "Time",
        f"CPU time of a tick on the circle, µs: median of {rounds} rounds' medians, and their range; the ways take "
        "turns. 'Left hand': the same target without the loop, which moves one arm. 'Both hands': the right hand has a "
        "target of its own, where the object would be.",
    )
    report.table("limits", "robots", "loop", "range", "left hand", "range", "both hands", "range", "loop / both hands")
    left = circle_of(arms, start, ticks)
    both = np.stack([left, transform_multiply(left, np.tile(HELD, (ticks, 1)))], axis=1)
    ways: tuple[tuple[RobotModel, list[str], Array], ...] = (
        (robot, [LEFT], left[:, None]),
        (arms, [LEFT], left[:, None]),
        (arms, [LEFT, RIGHT], both),
    )
    for kind in LIMITS:
        for robots in (1, 64):
            controllers = [controller_of(model, links, kind, robots) for model, links, _ in ways]
            given = [np.repeat(targets[:, None], robots, axis=1) for _, _, targets in ways]
            found: list[list[float]] = [[] for _ in ways]
            for _ in range(rounds):
                for times, controller, targets in zip(found, controllers, given, strict=True):
                    controller.reset(start)
                    controller.warmup()
                    times.append(float(np.median(timed(controller, targets)[1])))
            cells: list[Any] = []
            for times in found:
                cells += [f"{np.median(times):.1f}", f"{min(times):.1f}-{max(times):.1f}"]
            report.row(kind, robots, *cells, f"{np.median(found[0]) / np.median(found[2]):.2f}")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write closed_loops.md")
    parser.add_argument("--ticks", type=int, default=10_000, help="ticks of a run")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are timed")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    gc.disable()
    arms = ik_service.load_robot("dual_panda", collision="ignore")
    robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    hand = poses(arms, NEAR[None], LEFT)
    start = ik_service.IKSolver(robot, [LEFT], device="cpu").solve(hand[:, :3], hand[:, 3:], initial_joint_q=NEAR)
    if not start.success[0]:
        raise SystemExit("the start is not closed")
    report = Report("Closed loops in a controller")
    report.line("")
    command = f"python -m benchmarks.control.closed_loops --ticks {arguments.ticks} --rounds {arguments.rounds}"
    report.line(
        f"Made by `{command}`; one pinned core of {machine()}, ik-service {ik_service.__version__}. Two Pandas on one "
        "base hold an object: a weld between their hands, which the robot closes as a loop. Gaps are those of the "
        "object at the commanded joints, by float64 forward kinematics of the host; speeds and accelerations are "
        "differences between ticks."
    )
    joint_q = start.joint_q[0].astype(np.float64)
    show_circle(report, arms, robot, joint_q, arguments.ticks)
    show_jumps(report, robot, joint_q)
    show_times(report, arms, robot, joint_q, arguments.ticks // 5, arguments.rounds)
    report.line("")
    report.line(f"Bounds missed: {', '.join(report.missed) or 'none'}.")
    if arguments.write:
        report.save(Path(__file__).with_name("closed_loops.md"))


if __name__ == "__main__":
    main()

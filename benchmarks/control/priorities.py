"""A controller's posture beside a target: by weight, as rows of priority 1 and 0, at rest and on a circle.

python -m benchmarks.control.priorities [--write] [--ticks 10000] [--rounds 5]

Prints its tables; --write also writes priorities.md beside this file.
"""

import argparse
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.control.ticks import make_controller, targets_of, timed
from benchmarks.problems.tick_paths import ACCELERATION, LINK, TickPath, panda_paths
from benchmarks.report import Report, machine
from ik_service.control import IKController
from ik_service.robots import RobotModel
from objectives import IKObjectivePosture

AWAY = np.array([0.4, 0.3, -0.5, 0.2, 0.6, -0.3, 0.8])  # of the posture from the start [rad]
WEIGHTS = (1e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
LIMITS = {"speed": None, "speed and acceleration": ACCELERATION}
REST_BOUND = 1e-8  # [m] more than without a posture
RATIO_BOUND = 1.05  # of the error on the circle, over that without
Array = NDArray[np.float64]


def posture_of(path: TickPath, weight: float, priority: int) -> dict[str, Any]:
    """Return options of a controller with a posture; without one for a weight of 0."""
    if weight == 0.0:
        return {}
    posture = IKObjectivePosture(path.joint_q + AWAY, weight=weight)
    posture.priority = priority
    return {"objectives": [posture]}


def errors_along(robot: RobotModel, controller: IKController, start: Array, poses: Array) -> tuple[Array, float]:
    """Return how far the hand is from each target [m], and the distance to the posture in the end [rad]."""
    controller.reset(start)
    joint_q = np.array([controller.step(pose).joint_q[0].copy() for pose in poses])
    hand = robot.forward_kinematics(joint_q, links=[LINK]).positions[:, 0]
    return np.linalg.norm(hand - poses[:, :3], axis=1), float(np.linalg.norm(joint_q[-1] - start - AWAY))


def show_errors(report: Report, robot: RobotModel, path: TickPath, ticks: int) -> None:
    """Report errors at rest and on the circle."""
    report.section(
        "Errors",
        f"Panda, ticks of 1 ms. 'At rest': the target stays at the start; error and distance to the posture after "
        f"{ticks} ticks. 'Circle': mean and largest error along it, and its mean over that without a posture. Errors "
        "are distances in float64 of the commanded hand, µm.",
    )
    report.table("limits", "priority", "weight", "at rest", "to the posture, rad", "circle: mean", "largest", "ratio")
    rest, ratios = [0.0], [0.0]
    still = np.tile(path.poses[0], (ticks, 1))
    for name, kind in LIMITS.items():
        without = np.array([0.0])
        for priority, weight in [(1, 0.0), *((p, w) for p in (1, 0) for w in WEIGHTS)]:
            controller = make_controller(robot, path, kind, **posture_of(path, weight, priority))
            (*_, end), left = errors_along(robot, controller, path.joint_q, still)
            circle, _ = errors_along(robot, controller, path.joint_q, path.poses)
            without = circle if weight == 0.0 else without
            ratio = circle.mean() / without.mean()
            shown = (f"{1e6 * end:.2g}", f"{left:.3f}", f"{1e6 * circle.mean():.3g}", f"{1e6 * circle.max():.3g}")
            report.row(name, priority if weight else "no posture", weight or "", *shown, f"{ratio:.3g}")
            if priority == 1:
                rest.append(end)
                ratios.append(ratio)
    report.line("")
    report.claim("error at rest beside a posture", f"{max(rest):.1e} m", f"{REST_BOUND:g} m", max(rest) <= REST_BOUND)
    worst = max(ratios)
    report.claim("mean error on the circle over that without", f"{worst:.3f}", f"{RATIO_BOUND}", worst <= RATIO_BOUND)


def show_times(report: Report, robot: RobotModel, path: TickPath, rounds: int) -> None:
    """Report the time of a tick."""
    report.section(
        "Time",
        f"CPU time of a tick on the circle, µs: median of {rounds} rounds' medians; the ways take turns. The posture "
        "has the weight 0.1.",
    )
    report.table("limits", "robots", "no posture", "priority 0", "priority 1")
    ways = ((0.0, 1), (0.1, 0), (0.1, 1))
    for name, kind in LIMITS.items():
        for robots in (1, 64):
            targets = targets_of(path, robots, len(path.poses))
            options = [posture_of(path, *way) for way in ways]
            controllers = [make_controller(robot, path, kind, robots=robots, **own) for own in options]
            found: list[list[float]] = [[] for _ in ways]
            for _ in range(rounds):
                for times, controller in zip(found, controllers, strict=True):
                    controller.reset(path.joint_q)
                    times.append(float(np.median(timed(controller, targets)[1])))
            report.row(name, robots, *(f"{np.median(times):.1f}" for times in found))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write priorities.md")
    parser.add_argument("--ticks", type=int, default=10_000, help="ticks of a run")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are timed")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    gc.disable()
    robot = ik_service.load_robot("panda", collision="ignore")
    path = panda_paths(robot, arguments.ticks)["circle"]
    report = Report("Priorities in a controller")
    report.line("")
    report.line(
        f"Made by `python -m benchmarks.control.priorities --ticks {arguments.ticks} --rounds {arguments.rounds}`; one "
        f"pinned core of {machine()}, ik-service {ik_service.__version__}. A pose target beside `IKObjectivePosture`, "
        "whose rows of priority 1 yield to the target; with priority 0 they compete with it by weight."
    )
    show_errors(report, robot, path, arguments.ticks)
    show_times(report, robot, path, arguments.rounds)
    if arguments.write:
        report.save(Path(__file__).with_name("priorities.md"))


if __name__ == "__main__":
    main()

"""Quality of the controller along paths: limits in every tick, errors, statuses, and how it finds back."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.control.ticks import KINDS, make_controller
from benchmarks.peers import environments
from benchmarks.problems.tick_paths import ACCELERATION, LINK, TickPath
from benchmarks.report import Report
from ik_service import IKStatus
from ik_service.robots import RobotModel

DT = 1e-3
ERROR_BOUND = 1e-4  # [m] along feasible paths
SHAKING_BOUND = 0.01  # of the limits: acceleration beyond what a path asks for
SPEED_ROUNDING, ACCELERATION_ROUNDING = 1e-9, 1e-6  # of first and second differences of float64 angles
PLOTS = {
    "control_tracking.svg": "Errors and joint speeds on the circle and the figure of eight; the peers lie on ours",
    "control_edge.svg": "Beyond the edge of the workspace and back",
}
Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What became of a path, a line per tick.

    Attributes:
        joint_q: Commands.
        error: Distance to the target [m], by forward kinematics of the commands.
        status: `IKStatus`.
        sigma_min: Smallest singular value of the task's rows.
    """

    joint_q: Float64Array
    error: Float64Array
    status: NDArray[np.int32]
    sigma_min: Float64Array


def distances(robot: RobotModel, joint_q: Float64Array, path: TickPath) -> Float64Array:
    """Return the distance of the hand to the target in every tick [m]."""
    found = robot.forward_kinematics(joint_q, links=[LINK])
    return np.asarray(np.linalg.norm(found.positions[:, 0] - path.poses[:, :3], axis=1))


def speed_ratios(robot: RobotModel, joint_q: Float64Array, path: TickPath) -> Float64Array:
    """Return speeds over their limits, [ticks, joints]."""
    return np.asarray(np.abs(_speeds(joint_q, path)) / robot.joint_velocity_limit)


def acceleration_ratios(joint_q: Float64Array, path: TickPath) -> Float64Array:
    """Return accelerations over the maker's limits, [ticks, joints]."""
    steps = np.diff(joint_q, axis=0, prepend=path.joint_q[None])
    return np.asarray(np.abs(np.diff(steps, axis=0, prepend=np.zeros_like(steps[:1]))) / DT**2 / ACCELERATION)


def follow(robot: RobotModel, path: TickPath, acceleration: Float64Array | None) -> Run:
    """Send the controller along a path."""
    controller = make_controller(robot, path, acceleration)
    joint_q = np.zeros((len(path.poses), len(path.joint_q)))
    status = np.zeros(len(joint_q), dtype=np.int32)
    sigma_min = np.zeros(len(joint_q))
    for k, pose in enumerate(path.poses):
        result = controller.step(pose, dt=DT)
        joint_q[k], status[k], sigma_min[k] = result.joint_q[0], result.status[0], result.sigma_min[0, 0]
    return Run(joint_q, distances(robot, joint_q, path), status, sigma_min)


def show_paths(report: Report, panda: RobotModel, paths: dict[str, TickPath]) -> dict[tuple[str, str], Run]:
    """Report the quality along every path; return the runs by path and kind of limits."""
    report.section(
        "Quality along paths",
        f"A Panda, {len(next(iter(paths.values())).poses)} ticks of 1 ms each, from rest to rest. Speeds and "
        "accelerations over their limits, largest of all joints and ticks; farthest outside the position limits; "
        "largest distance to the target; how often each status. Where the limits of acceleration are not given, their "
        "column only tells what the path asks for. 'Off' is for how many milliseconds the error is above 0.1 mm. "
        "Beyond the edge there is nothing to follow. In front of the joint limit speeds alone let other joints take "
        "over at once; with limits of acceleration the wrist has to brake, and the hand is late.",
    )
    report.table(
        "path", "limits", "speed", "acceleration", "outside [rad]", "error [mm]", "statuses", "off [ms]", "at the end"
    )
    runs = {}
    for name, path in paths.items():
        for kind, acceleration in KINDS.items():
            robot = path.robot(panda)
            run = runs[name, kind] = follow(robot, path, acceleration)
            report.row(name, kind, *_cells(robot, path, run))
    report.line("")
    _claim(report, panda, paths, runs)
    return runs


def _cells(robot: RobotModel, path: TickPath, run: Run) -> list[str]:
    counts = Counter(IKStatus(int(code)).word for code in run.status)
    statuses = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    return [
        f"{speed_ratios(robot, run.joint_q, path).max():.6f}",
        f"{acceleration_ratios(run.joint_q, path).max():.6f}",
        f"{outside(robot, run.joint_q):.1g}",
        f"{1e3 * run.error.max():.2g}",
        statuses,
        f"{1e3 * DT * (run.error > ERROR_BOUND).sum():.0f}",
        f"{1e3 * run.error[-1]:.1g}",
    ]


def outside(robot: RobotModel, joint_q: Float64Array) -> float:
    """Return how far the commands are outside the position limits [rad]."""
    beyond = np.maximum(robot.joint_limit_lower - joint_q, joint_q - robot.joint_limit_upper)
    return max(float(beyond.max()), 0.0)


def _claim(report: Report, panda: RobotModel, paths: dict[str, TickPath], runs: dict[tuple[str, str], Run]) -> None:
    braked = [(paths[name], run) for (name, kind), run in runs.items() if KINDS[kind] is not None]
    position = max(outside(panda, run.joint_q) for run in runs.values())
    speed = max(speed_ratios(panda, run.joint_q, paths[name]).max() for (name, _), run in runs.items()) - 1.0
    acceleration = max(acceleration_ratios(run.joint_q, path).max() for path, run in braked) - 1.0
    error = max(run.error.max() for (name, _), run in runs.items() if paths[name].feasible)
    end = max(run.error[-1] for run in runs.values())
    edge = {kind: _lag(run) for (name, kind), run in runs.items() if name == "beyond the edge and back"}
    report.claim("position limits broken by", f"{position:g} rad", "0", position == 0.0)
    report.claim(
        "speed limits broken by", f"{max(speed, 0.0):.1g} of them", f"{SPEED_ROUNDING:g}", speed <= SPEED_ROUNDING
    )
    report.claim(
        "acceleration limits broken by",
        f"{max(acceleration, 0.0):.1g} of them",
        f"{ACCELERATION_ROUNDING:g}",
        acceleration <= ACCELERATION_ROUNDING,
    )
    shaking = {name: _shaking(paths[name], name, runs) for name in paths if paths[name].feasible}
    worst = max(shaking, key=lambda name: shaking[name])
    report.claim(
        "acceleration on feasible paths, beyond what they take without such limits",
        f"{max(shaking[worst], 0.0):.2g} of the limits ({worst})",
        f"{SHAKING_BOUND:g}",
        shaking[worst] <= SHAKING_BOUND,
    )
    report.claim("error on feasible paths", f"{1e3 * error:.2g} mm", "0.1 mm", error < ERROR_BOUND)
    report.claim("error at the end of every path", f"{1e3 * end:.1g} mm", "0.1 mm", end < ERROR_BOUND)
    lags = " and ".join(f"{lag} ms with {kind}" for kind, lag in edge.items())
    report.line(
        f"- Beyond the edge, the hand is on the target again {lags} after the target is back where it was lost."
    )


def _shaking(path: TickPath, name: str, runs: dict[tuple[str, str], Run]) -> float:
    """How much harder joints accelerate with limits of acceleration than without, over the limits."""
    plain, braked = (acceleration_ratios(runs[name, kind].joint_q, path).max() for kind in KINDS)
    return float(braked - plain)


def _lag(run: Run) -> int:
    """Ticks from when the target is back where it was lost to when the error is below its bound for good."""
    lost = np.flatnonzero(run.error > ERROR_BOUND)
    return int(lost[-1] - (len(run.error) - 1 - lost[0]))  # a path returns as it went


def draw(
    paths: dict[str, TickPath],
    runs: dict[tuple[str, str], Run],
    others: dict[str, dict[str, Float64Array]],
    robot: RobotModel,
    folder: Path,
) -> None:
    """Draw the plots into a folder.

    Args:
        paths: The paths.
        runs: Our runs, by path and kind of limits.
        others: Commands of peers, by peer and path.
        robot: The Panda.
        folder: Where to.
    """
    plain, braked = KINDS
    arrays: dict[str, object] = {"velocity": robot.joint_velocity_limit, "peers": list(others)}
    given = {"circle": "circle", "eight": "figure of eight", "edge": "beyond the edge and back"}
    for short, name in given.items():
        path, run = paths[name], runs[name, braked]
        arrays[f"{short}_target"] = path.poses[:, :3]
        arrays[f"{short}_hand"] = robot.forward_kinematics(run.joint_q, links=[LINK]).positions[:, 0]
        arrays[f"{short}_error"], arrays[f"{short}_error_plain"] = run.error, runs[name, plain].error
        arrays[f"{short}_speeds"] = _speeds(run.joint_q, path)
        arrays[f"{short}_sigma_min"] = run.sigma_min
        for who, commands in others.items():
            if name in commands:
                arrays[f"{short}_error_{who}"] = distances(robot, commands[name], path)
                arrays[f"{short}_speeds_{who}"] = _speeds(commands[name], path)
    environments.draw("draw_control.py", [folder / name for name in PLOTS], **arrays)


def _speeds(joint_q: Float64Array, path: TickPath) -> Float64Array:
    return np.asarray(np.diff(joint_q, axis=0, prepend=path.joint_q[None]) / DT)

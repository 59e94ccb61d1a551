"""PlaCo and mink on the controller's paths, each in an environment of its own."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.control.paths import DT, acceleration_ratios, distances, outside, speed_ratios
from benchmarks.control.ticks import KINDS, make_controller, timed
from benchmarks.peers.environments import PeerMissingError, run_peer
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.tick_paths import LINK, TickPath
from benchmarks.report import Report
from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.robots import RobotModel

PEERS = {
    "PlaCo": ("placo", "placo_ticks.py", ("placo==0.10.2", "numpy")),
    "mink": ("mink", "mink_ticks.py", ("mink==1.3.0", "daqp", "numpy")),
}
PATHS = ("circle", "figure of eight", "beyond the edge and back")
Answers = dict[str, NDArray[np.float64]]
Commands = dict[str, NDArray[np.float64]]


def show_peers(report: Report, robot: RobotModel, paths: dict[str, TickPath], rounds: int) -> dict[str, Commands]:
    """Report times and errors of all solvers on the same paths; return the peers' commands by peer and path."""
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
    report.line("")
    report.table("controller", "solve: median", "p99", "tick: median", "p99", "CPU of a tick: median", "p99")
    found = _laps(robot, paths["circle"], rounds)
    for who, laps in found.items():
        report.row(_named(who, laps), *_times(laps))
    report.line("")
    report.line(
        "How well the commands serve the paths: largest error, speeds and accelerations over their limits, how far "
        "outside the position limits, and how far all joints went together. Beyond the edge no command is right; what "
        "the joints do there tells whether they settle or shake."
    )
    report.line("")
    report.table("path", "controller", "error [mm]", "speed", "acceleration", "outside [rad]", "way of joints [rad]")
    commands: dict[str, Commands] = {who: {} for who in found if who in PEERS}
    for name in PATHS:
        for who, laps in found.items():
            if laps:
                joint_q = (laps[0] if name == "circle" else _run(robot, paths[name], who))["joint_q"]
                report.row(name, _named(who, laps), *_cells(robot, joint_q, paths[name]))
                if who in PEERS:
                    commands[who][name] = joint_q
    return commands


def _laps(robot: RobotModel, path: TickPath, rounds: int) -> dict[str, list[Answers]]:
    """Answers of every controller in every round; none of a peer that cannot be installed."""
    found: dict[str, list[Answers]] = {who: [] for who in (*(f"ours, {kind}" for kind in KINDS), *PEERS)}
    missing: dict[str, str] = {}
    for _ in range(rounds):
        for who, laps in found.items():
            try:
                laps.append(_run(robot, path, who))
            except PeerMissingError as error:
                missing[who] = str(error)
    return {missing.get(who, who): laps for who, laps in found.items()}


def _cells(robot: RobotModel, joint_q: NDArray[np.float64], path: TickPath) -> list[str]:
    return [
        f"{1e3 * distances(robot, joint_q, path).max():.2g}",
        f"{speed_ratios(robot, joint_q, path).max():.3f}",
        f"{acceleration_ratios(joint_q, path).max():.3f}",
        f"{outside(robot, joint_q):.1g}",
        f"{np.abs(np.diff(joint_q, axis=0)).sum():.1f}",
    ]


def _named(who: str, laps: list[Answers]) -> str:
    versions = [str(answers["version"]) for answers in laps if "version" in answers]
    return " ".join([who, *versions[:1]])


def _times(laps: list[Answers]) -> list[str]:
    cells = []
    for column in ("solves", "ticks", "cpu"):
        for share in (50, 99):
            values = [np.percentile(answers[column], share) for answers in laps]
            cells.append(f"{1e-3 * np.median(values):.1f}" if values else "")
    return cells


def _run(robot: RobotModel, path: TickPath, who: str) -> Answers:
    """Return commands `joint_q` and times of every tick [ns]."""
    if who in PEERS:
        return _run_peer(robot, path, *PEERS[who])
    controller = make_controller(robot, path, KINDS[who.removeprefix("ours, ")])
    wall, cpu = timed(controller, path.poses)
    controller.reset(path.joint_q)
    joint_q = np.array([controller.step(pose, dt=DT).joint_q[0].copy() for pose in path.poses])
    return {"joint_q": joint_q, "solves": 1e3 * wall, "ticks": 1e3 * wall, "cpu": 1e3 * cpu}


def _run_peer(robot: RobotModel, path: TickPath, name: str, script: str, requirements: tuple[str, ...]) -> Answers:
    transforms = np.tile(np.eye(4), (len(path.poses), 1, 1))
    transforms[:, :3, 3] = path.poses[:, :3]
    for column, axis in enumerate(np.eye(3)):
        transforms[:, :3, column] = quaternion_rotate(path.poses[:, 3:], axis)
    return run_peer(
        name,
        requirements,
        script,
        urdf=str(PANDA.path),
        link=LINK,
        joint_names=robot.joint_names,
        joint_q=path.joint_q,
        velocity=robot.joint_velocity_limit,
        transforms=transforms,
        dt=DT,
    )

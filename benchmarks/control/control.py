"""The controller: time of a tick, quality along paths, deadlines; beside PlaCo and mink, on one pinned core.

python -m benchmarks.control.control [--full] [--write] [--ticks 100000] [--deadline-ticks 10000] ...

Prints its tables. Without --full it measures little; --write also writes control.md and its plots beside this file.
"""

import argparse
import dataclasses
import gc
import os
import time
from dataclasses import dataclass
from pathlib import Path

import warp as wp

import ik_service
from benchmarks.control.deadlines import show_deadlines
from benchmarks.control.paths import PLOTS, draw, show_paths
from benchmarks.control.peers import show_peers
from benchmarks.control.ticks import show_parts, show_robots, show_ticks
from benchmarks.problems.tick_paths import panda_paths
from benchmarks.report import Report, machine

PATH_TICKS = 10_000  # of a millisecond: what the Panda's limits allow


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        ticks: Ticks that are timed, with and without limits of acceleration.
        robot_ticks: Ticks that are timed for each number of robots.
        deadline_ticks: Ticks for each deadline.
        rounds: Rounds in which all solvers take turns.
    """

    ticks: int
    robot_ticks: int
    deadline_ticks: int
    rounds: int


QUICK = Sizes(ticks=10_000, robot_ticks=1000, deadline_ticks=500, rounds=1)
FULL = Sizes(ticks=100_000, robot_ticks=10_000, deadline_ticks=10_000, rounds=5)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="measure everything")
    parser.add_argument("--write", action="store_true", help="write control.md and its plots")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder of what is written")
    for field in dataclasses.fields(Sizes):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int)
    arguments = parser.parse_args()
    given = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Sizes)}
    changes = {name: value for name, value in given.items() if value is not None}
    sizes = dataclasses.replace(FULL if arguments.full else QUICK, **changes)
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    flags = ["--full"] * arguments.full + [f"--{name.replace('_', '-')} {value}" for name, value in changes.items()]
    show(
        " ".join(["python -m benchmarks.control.control", *flags]), sizes, arguments.output if arguments.write else None
    )


def show(command: str, sizes: Sizes, folder: Path | None) -> None:
    """Run all measurements.

    Args:
        command: What was called.
        sizes: How much is measured.
        folder: Where control.md and its plots go; None writes nothing.
    """
    start = time.monotonic()
    report = Report("The controller")
    report.line("")
    report.line(
        f"Made by `{command}`; one pinned core of {machine()}, ik-service {ik_service.__version__}. A tick is one call "
        "of `IKController.step` from Python, NumPy arrays in and out. The machine is shared: 'wall' has what other "
        "programs take, 'CPU' is what the thread was given. Joints and errors are judged from the commands that came "
        "back, by float64 forward kinematics and by differences between ticks of a millisecond."
    )
    robot = ik_service.load_robot("panda", collision="ignore")
    paths = panda_paths(robot, PATH_TICKS)
    gc.disable()  # as a control loop does
    show_ticks(report, robot, paths["circle"], sizes.ticks)
    show_robots(report, robot, paths["circle"], sizes.robot_ticks, sizes.rounds)
    show_parts(report, robot, paths["circle"], sizes.robot_ticks)
    others = show_peers(report, robot, paths, sizes.rounds)
    runs = show_paths(report, robot, paths)
    if folder is not None:
        for name, title in PLOTS.items():
            report.line("")
            report.line(f"![{title}]({name})")
    show_deadlines(report, robot, paths["circle"], sizes.deadline_ticks)
    if folder is not None:
        report.save(folder / "control.md")
        draw(paths, runs, others, robot, folder)
    print(f"\n{time.monotonic() - start:.0f} s; missed: {', '.join(report.missed) or 'nothing'}")


if __name__ == "__main__":
    main()

"""Ours beside newton.ik, OptIK and a C++ loop on Pinocchio: same targets, same judge, one pinned core, one run.

python -m benchmarks.arms.peers [--full] [--write] [--targets 10000] [--repeats 7] ...

Prints its tables. Without --full it measures little; --write also writes RESULTS.md and its plots beside this file.
"""

import argparse
import dataclasses
import os
import platform
import time
from pathlib import Path

import warp as wp

import ik_service
from benchmarks.arms.budgets import PLOTS, draw, show_batches, show_latency, show_seeds
from benchmarks.arms.comparison import Sizes
from benchmarks.arms.contenders import Answers
from benchmarks.arms.hard_targets import show_hard_targets, show_out_of_reach
from benchmarks.arms.many_limbs import show_many_limbs
from benchmarks.arms.single_arms import show_single_arms
from benchmarks.report import Report, machine

QUICK = Sizes(
    targets=10_000,
    staged_targets=500,
    peer_targets=200,
    pinocchio_targets=1000,
    hard_targets=500,
    limb_targets=500,
    repeats=3,
    latency_calls=300,
    arms=3,
    robots=2,
    seconds=1.0,
)
FULL = Sizes(
    targets=10_000,
    staged_targets=2000,
    peer_targets=1000,
    pinocchio_targets=2000,
    hard_targets=20_000,
    limb_targets=1000,
    repeats=5,
    latency_calls=2000,
    arms=5,
    robots=6,
    seconds=2.0,
)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--full", action="store_true", help="measure everything")
    mode.add_argument("--quick", action="store_true", help="measure little, as without --full")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md and its plots")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder of what is written")
    for field in dataclasses.fields(Sizes):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(getattr(FULL, field.name)))
    arguments = parser.parse_args()
    given = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Sizes)}
    changes = {name: value for name, value in given.items() if value is not None}
    sizes = dataclasses.replace(FULL if arguments.full else QUICK, **changes)
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    flags = ["--full"] * arguments.full + [f"--{name.replace('_', '-')} {value}" for name, value in changes.items()]
    show(" ".join(["python -m benchmarks.arms.peers", *flags]), sizes, arguments.output if arguments.write else None)


def show(command: str, sizes: Sizes, folder: Path | None) -> None:
    """Run all comparisons.

    Args:
        command: What was called.
        sizes: How much is measured.
        folder: Where RESULTS.md and its plots go; None writes nothing.
    """
    start = time.monotonic()
    report = Report("Results beside other solvers")
    report.line("")
    report.line(
        f"Made by `{command}`; one pinned core of {machine()}, ik-service {ik_service.__version__}, "
        f"{platform.system()} {platform.machine()}. Every solver gets the same targets in the same run. Solved means: "
        "the answer, put through float64 forward kinematics, is within the tolerance and inside the joint limits to "
        "the last bit, whatever the solver says of itself."
    )
    answers = show_single_arms(report, sizes)
    peers: dict[str, Answers] = {name: answers[name] for name in ("pinocchio", "optik", "newton") if name in answers}
    show_hard_targets(report, sizes)
    show_out_of_reach(report, sizes)
    show_many_limbs(report, sizes)
    curves = show_batches(report, sizes)
    _show_plot(report, folder, "Time per target against the batch size", PLOTS[0])
    show_latency(report, sizes, peers)
    curves |= show_seeds(report, sizes)
    _show_plot(report, folder, "Targets not solved against time, for 1 to 64 seeds", PLOTS[1])
    if folder is not None:
        report.save(folder / "RESULTS.md")
        draw(curves, peers, folder)
    print(f"\n{time.monotonic() - start:.0f} s")


def _show_plot(report: Report, folder: Path | None, title: str, name: str) -> None:
    if folder is not None:
        report.line("")
        report.line(f"![{title}]({name})")


if __name__ == "__main__":
    main()

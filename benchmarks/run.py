"""Runs a benchmark: its command line, its core, its clock and its report.

    options of the command line -> sizes, small ones or with --full those of the report
    a case (robot, targets, what is asked) -> inputs from a seed -> the call, repeated: `timed`
    answers -> the judge, float64 kinematics of the host: `problems.pose_problems`
    a table: rows of its cases, and claims with their bounds: `report.Report`
    the report -> printed, and with --write kept beside the program

A program is a module of a folder: `python -m benchmarks.FOLDER.NAME [--full] [--write [FILE]] [--SIZE NUMBER]`.
"""

import argparse
import gc
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.report import Report, machine

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Times:
    """Times of a call that was repeated."""

    us: NDArray[np.float64]  # times for each of its problems [us], shape [repeats]

    @property
    def median(self) -> float:
        """Their median [us]."""
        return float(np.median(self.us))

    @property
    def least(self) -> float:
        """The least of them [us]."""
        return float(self.us.min())

    def range(self, decimals: int = 2) -> str:
        """Return the least and the largest as text."""
        return f"{self.us.min():.{decimals}f} to {self.us.max():.{decimals}f}"

    def __str__(self) -> str:
        """Return median and range."""
        return f"{self.median:.2f} ({self.least:.2f}-{self.us.max():.2f})"


def timed(
    call: Callable[[], Any],
    repeats: int,
    count: int | None = None,
    *,
    clock: Callable[[], float] = time.process_time,
    warm_up: int = 1,
) -> tuple[Any, Times]:
    """Repeat a call, and return its last answer and its times.

    Args:
        call: The call.
        repeats: How often it is timed.
        count: Its problems; None for the length of its answer.
        clock: Gives seconds: of CPU time, unless told otherwise.
        warm_up: Calls before, which compile and allocate.
    """
    seconds = []
    for _ in range(warm_up + repeats):
        begun = clock()
        answer = call()
        seconds.append(clock() - begun)
    return answer, Times(1e6 * np.array(seconds[warm_up:]) / (len(answer) if count is None else count))


def percentiles(times: Any, *shares: float, decimals: int = 1) -> list[str]:
    """Return percentiles of times as text."""
    return [f"{value:.{decimals}f}" for value in np.percentile(times, shares)]


def in_turns(calls: Mapping[Any, Callable[[], Any]], rounds: int) -> dict[Any, list[Any]]:
    """Return what calls give in rounds in which all take turns, by their names."""
    found: dict[Any, list[Any]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(call())
    return found


def fresh(program: str, *arguments: str, cache: str, timeout_s: float | None = None) -> Any:
    """Run a text in a process of its own with a cache of kernels, and return what its last line says in JSON."""
    environment = os.environ | {"WARP_CACHE_PATH": cache}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=timeout_s)
    return json.loads(done.stdout.splitlines()[-1])


def pin(core: int) -> None:
    """Let this process run on one core alone; -1 is its last."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core] if core < 0 else core})


def benchmark(
    title: str,
    show: Callable[..., None],
    intro: str = "",
    *,
    sizes: Mapping[str, Any] | None = None,
    file: Path | None = None,
    core: int | None = -1,
    is_strict: bool = False,
    collects: bool = True,
) -> None:
    """Read the command line, measure, and keep the report.

    Args:
        title: Of the report.
        show: Measures; takes the report and sizes by their names.
        intro: What holds for the whole report.
        sizes: How much is measured: a number or a list by its name, or a pair of a small one and one of --full.
        file: Of the report; None for that beside the program.
        core: On which it runs; None for any.
        is_strict: Whether a bound that is missed makes the exit code 1.
        collects: Whether Python collects garbage meanwhile, which a control loop leaves.
    """
    program = Path(inspect.getfile(show))
    module = ".".join(program.relative_to(ROOT).with_suffix("").parts)
    parser = argparse.ArgumentParser(description=title, prog=f"python -m {module}")
    parser.add_argument("--full", action="store_true", help="measure as much as for the report that is kept")
    kept = file or program.with_suffix(".md")
    parser.add_argument("--write", type=Path, nargs="?", const=kept, help=f"keep the report, in {kept.name}")
    pairs = {name: size if isinstance(size, tuple) else (size, size) for name, size in (sizes or {}).items()}
    for name, (small, large) in pairs.items():
        one, many = (small[0], "+") if isinstance(small, list) else (small, None)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(one), nargs=many, help=f"{small}, or with --full {large}")
    arguments = vars(parser.parse_args())
    write, full = arguments.pop("write"), arguments.pop("full")
    changed = {name: value for name, value in arguments.items() if value is not None}
    chosen = {name: pair[full] for name, pair in pairs.items()} | changed
    said = {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in changed.items()}
    flags = ["--full"] * full + [f"--{name.replace('_', '-')} {value}" for name, value in said.items()]
    wp.config.log_level = wp.LOG_ERROR
    report, where = Report(title), "" if core is None else "one pinned core of "
    if core is not None:
        pin(core)
    if not collects:
        gc.disable()
    command = " ".join([f"python -m {module}", *flags])
    report.line(f"Made by `{command}`; {where}{machine()}, ik-service {ik_service.__version__}. {intro}".strip())
    begun = time.monotonic()
    show(report, **chosen)
    report.line(f"Bounds missed: {', '.join(report.missed) or 'none'}.")
    if write:
        report.save(write)
    print(f"\n{time.monotonic() - begun:.0f} s")
    if is_strict and report.missed:
        sys.exit(1)

"""`ik-service bench`: how fast and how sure this engine is for a robot on this machine."""

import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import warp as wp
from rich.table import Table

from ik_service.cli.console import message_console, output_console, print_json, progress_bar
from ik_service.cli.default_links import default_links
from ik_service.cli.pose_problems import TOLERANCES
from ik_service.cli.robot_bench import Batches, BenchPlan, BenchReport, Spread, run_bench
from ik_service.compiler import cpu_target
from ik_service.robots import load_robot

BAR_WIDTH = 60  # characters of the longest bar of a plot


def bench_robot(name: str, links: Sequence[str], *, as_json: bool, **plan: Any) -> bool:
    """Measure and print the report; return whether anything was solved. `plan` has attributes of a BenchPlan.

    InputError if the robot, a link or the device does not exist, or there is nothing to measure.
    """
    robot = load_robot(name)
    planned = BenchPlan(robot=robot, links=default_links(robot, links), **plan)
    message_console().print(f"{robot.name}: {planned.count} targets for {', '.join(planned.links)} ...", markup=False)
    with progress_bar("Measuring", is_still=True) as bar:
        report = run_bench(planned, lambda text: bar(description=text))
    if as_json:
        print_json(asdict(report) | {"machine": machine()})
    else:
        print_bench(report)
    return any(batches.solved_share > 0.0 for batches in report.batches)


def machine() -> dict[str, str]:
    """Return the properties of this machine with an effect on the figures."""
    return {
        "processor": processor(),
        "cpu_target": cpu_target().name,
        "python": platform.python_version(),
        "warp": wp.__version__,
    }


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def print_bench(report: BenchReport) -> None:
    """Print the report as tables."""
    console, here = output_console(), machine()
    clock = "CPU time" if report.batches[0].clock == "cpu" else "Wall time"
    columns = ("engine", "targets", "tolerance", "solved", "false successes", f"{clock} per target", "range")
    table = Table(*columns, title=f"{report.robot}: {', '.join(report.links)}", title_justify="left")
    for batches in report.batches:
        table.add_row(*_cells(batches))
    console.print(table)
    latency, threads = report.latency, report.threads
    console.print(f"One target: median {latency.p50_us:.1f} us, p99 {latency.p99_us:.1f} us ({latency.calls} calls)")
    if threads is not None:
        of_one, of_several = _range(threads.us_per_target_of_one), _range(threads.us_per_target)
        console.print(
            f"{threads.threads} threads: {threads.speedup:.2f} times as fast, wall time per target {of_several} us; "
            f"one thread: {of_one} us"
        )
    if report.by_batch:
        plot, most = Table("batch", "targets per second", box=None), max(speed for _, speed in report.by_batch)
        for size, speed in report.by_batch:
            plot.add_row(str(size), f"{'█' * max(1, round(BAR_WIDTH * speed / most))} {speed:.3g}")
        console.print(plot)
    tolerances = ", ".join(f"{position * 1e3:g} mm and {orientation:g} rad" for position, orientation in TOLERANCES)
    console.print(
        f"Batches of {report.batch} on {report.device} ({here['processor']}, {here['cpu_target']}); one pinned core "
        f"but for threads. Solved: within {tolerances}, and inside the joint limits, by float64 forward kinematics.",
        markup=False,
    )


def _cells(batches: Batches) -> list[str]:
    tolerance = f"{batches.position_tolerance_m * 1e3:g} mm, {batches.orientation_tolerance_rad:g} rad"
    time = batches.us_per_target
    cells = [batches.engine, str(batches.count), tolerance, f"{100.0 * batches.solved_share:.2f} %"]
    return [*cells, str(batches.false_successes), f"{time.median:.3g} us", f"{time.least:.3g} - {time.most:.3g} us"]


def _range(values: Spread) -> str:
    return f"{values.median:.3g} ({values.least:.3g} - {values.most:.3g})"

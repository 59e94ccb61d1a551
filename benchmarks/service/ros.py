"""Round trips of the ROS node over rclpy and over Cyclone DDS, and what its adapter takes beside the solver.

python -m benchmarks.service.ros [--write]

The node runs in a process of its own, in the environment of `tests/integrations/ros/ros_environment.py`, with messages
generated from our definitions. --write keeps the figures in ros.md beside this file.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import warp as wp

from benchmarks.report import Report, machine
from tests.integrations.ros.ros_environment import CYCLONE, RCLPY, ROOT, ros_python

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "peers" / "ros_trips.py"
ADAPTER_BOUND_MS = 0.3
ROWS = {
    "rclpy": "`solve_ik`, client of rclpy",
    "cyclone": "`solve_ik`, client of Cyclone DDS",
    "bare": "a service of rclpy that answers the same messages at once",
    "solve": "`IKSolver.solve` alone, in the adapter",
    "adapter": "the adapter's own part",
    "adapter_cpu": "the adapter's own part, CPU time",
}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures in ros.md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    python, variables = ros_python()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder, "answers.npz")
        subprocess.run([python, SCRIPT, answers], cwd=ROOT, env=variables, check=True)
        with np.load(answers) as saved:
            found = dict(saved)
    report = Report("The ROS node")
    cores = len(os.sched_getaffinity(0))
    report.line(f"\n{machine()}; {cores} cores, load {load:.1f} before. {RCLPY} (Fast DDS), {CYCLONE}; loopback.")
    show(report, found)
    show_commands(report, found)
    if arguments.write:
        report.save(HERE / "ros.md")
    raise SystemExit(1 if report.missed else 0)


def show(report: Report, found: dict[str, np.ndarray]) -> None:
    """Report times and failures."""
    count = len(found["rclpy"])
    explanation = (
        f"`GetPositionIK` as MoveIt's plugin for services sends it: {count} reachable poses of a Panda, seed state, "
        "`avoid_collisions` (spheres of all links), the solution nearest the seed out of 64 starts. A client asks when "
        "the answer before is there; client and node share the cores. The last three rows are of the adapter "
        "alone, in one process, with the messages of rclpy; its own part is all but `solve`."
    )
    report.section("Round trips", explanation)
    report.table("what", "p50 [ms]", "p99 [ms]")
    for name, what in ROWS.items():
        p50, p99 = 1e3 * np.percentile(found[name], [50, 99])
        report.row(what, f"{p50:.3f}", f"{p99:.3f}")
    report.line("")
    bound = f"{ADAPTER_BOUND_MS:g} ms"
    for percent in (50, 99):
        own = 1e3 * float(np.percentile(found["adapter_cpu"], percent))
        report.claim(f"adapter's own part, p{percent}, CPU time", f"{own:.3f} ms", bound, own <= ADAPTER_BOUND_MS)
    for name in ("rclpy", "cyclone"):
        failures = int(found[f"{name}_failures"])
        report.claim(f"answers that are no success, {name}", str(failures), "0", failures == 0)


def show_commands(report: Report, found: dict[str, np.ndarray]) -> None:
    """Report how regularly commands arrive."""
    explanation = (
        "Commands for a Panda whose tip follows a circle, a pose every 20 ms, as a subscriber of rclpy in another "
        "process sees them arrive."
    )
    report.section("Commands", explanation)
    report.table("rate asked for [Hz]", "rate [Hz]", "interval p1 [ms]", "p50 [ms]", "p99 [ms]", "longest [ms]")
    rates = {float(name.partition("_")[2]): values for name, values in found.items() if name.startswith("commands_")}
    for rate, intervals in sorted(rates.items()):
        low, half, high = 1e3 * np.percentile(intervals, [1, 50, 99])
        longest = 1e3 * intervals.max()
        report.row(f"{rate:g}", f"{1.0 / intervals.mean():.0f}", *(f"{x:.3f}" for x in (low, half, high, longest)))


if __name__ == "__main__":
    main()

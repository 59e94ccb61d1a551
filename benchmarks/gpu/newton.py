"""newton.ik on the same device and targets, where it is installed beside ours."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import warp as wp

from benchmarks.gpu.rates import CALLS_MIN
from benchmarks.peers.environments import NEWTON_ITERATIONS, SLACK
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report
from ik_service.cli.pose_problems import TOLERANCES

SCRIPT = Path(__file__).parents[1] / "peers" / "newton_ik.py"
SEEDS = 16
SCRIPT_S = 240.0


def show_newton(report: Report, device: wp.Device, problems: HandProblems, ours: dict[int, float]) -> None:
    """Report newton.ik beside our targets per second.

    Args:
        report: Where figures go.
        device: The device.
        problems: Targets of a Panda's hand.
        ours: Targets per second of our public call, by batch.
    """
    report.section(
        "newton.ik",
        f"The same targets: {SEEDS} seeds, {NEWTON_ITERATIONS} iterations, with which it did best on CPUs; arrays stay "
        f"on the device, and its steps are a recorded graph. Its limits are soft: success with {SLACK:g} rad of slack.",
    )
    if importlib.util.find_spec("newton") is None:
        report.line("Not measured: newton is not installed.")
        return
    heads = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]
    report.table("solver", "batch", "µs per call", "targets/s", *heads, "ours, times as many targets/s")
    for batch, rate in ours.items():
        few = problems.first(batch)
        with tempfile.TemporaryDirectory() as folder:
            inputs, answers = Path(folder, "inputs.npz"), Path(folder, "answers.npz")
            np.savez(
                inputs,
                urdf=PANDA.path.read_text(encoding="utf-8"),
                link=PANDA.links[0],
                positions=few.positions[:, 0].astype(np.float32),
                orientations_xyzw=few.orientations_xyzw[:, 0].astype(np.float32),
                seeds=SEEDS,
                iterations=NEWTON_ITERATIONS,
                repeats=CALLS_MIN,
                device=str(device),
            )
            subprocess.run([sys.executable, SCRIPT, inputs, answers], check=True, timeout=SCRIPT_S)
            with np.load(answers) as saved:
                joint_q, median, version = saved["joint_q"], float(np.median(saved["times"])), str(saved["version"])
        shares = [solved(few, joint_q, tolerance, SLACK).mean() for tolerance in TOLERANCES]
        cells = [f"{1e6 * median:.1f}", f"{batch / median:,.0f}", *(f"{share:.2%}" for share in shares)]
        report.row(f"newton.ik {version}", batch, *cells, f"{rate * median / batch:.1f}")

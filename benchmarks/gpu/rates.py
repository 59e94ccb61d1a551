"""The compiled engine on a GPU: targets per second by batch size, one target's latency, the share of the arithmetic.

python -m benchmarks.gpu.rates [--device cuda:0] [--batches 1 100 ...] [--seconds 2] [--clock 1980] [--write]

Without a GPU it says so and measures nothing. `--device cpu` runs the kernels for GPUs on one core, thread after
thread: that tries this script and tells nothing of a card. PyRoki is measured in the same run where it is installed.
--write also writes rates.md beside this file.
"""

import argparse
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.gpu.pyroki_beam import KEPT, MORE_STEPS, SEEDS, STEPS, PyrokiBeam
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report
from ik_service.cli.pose_problems import TOLERANCES
from ik_service.compiler import IterationSource
from ik_service.solver.compiled import island_launches
from ik_service.solver.compiled.island_launches import IslandKernel, IslandWork, ThreadLaunches
from ik_service.solver.launches.recording import PartLaunches

BATCHES = [1, 100, 1000, 10_000, 100_000]
LATENCY_MAX = 500.0  # [us], asked of the median
WARM_UP = 3  # calls: launches, a recording, and its first replay
CALLS_MIN = 5
PYROKI_BATCHES = (1, 100, 1000)
PYROKI_SLACK = 1e-3  # [rad]; its limits are soft
# Multiprocessors compute so many float32 products and sums at once.
FP32_LANES = {75: 64, 80: 64, 86: 128, 87: 128, 89: 128, 90: 128, 100: 128, 103: 128, 110: 128, 120: 128, 121: 128}
NUMBER = r"\(-?[\d.]+(?:e[+-]?\d+)?f\)"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="cuda:0 and so on; cpu tries the script")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for the calls with each batch size")
    parser.add_argument("--clock", type=float, help="clock of the multiprocessors [MHz], if nvidia-smi does not tell")
    parser.add_argument("--write", action="store_true", help="write rates.md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    if arguments.device is None and not wp.is_cuda_available():
        print("There is no GPU here that Warp can use, so nothing is measured. --device cpu tries the script.")
        return
    device = wp.get_device(arguments.device or "cuda:0")
    if device.is_cpu:
        island_launches.in_threads = lambda _: True
    report = show(device, arguments.batches, arguments.seconds, arguments.clock)
    if arguments.write:
        report.save(Path(__file__).with_name("rates.md"))


def show(device: wp.Device, batches: list[int], seconds: float, clock: float | None) -> Report:
    """Measure everything on a device.

    Args:
        device: The device.
        batches: Batch sizes.
        seconds: Time for the calls with each batch size [s].
        clock: Clock of the multiprocessors [MHz]; None asks nvidia-smi.
    """
    report = Report("The compiled engine on a GPU")
    report.line("")
    report.line(f"{describe(device)}, Warp {wp.__version__}, ik-service {ik_service.__version__}.")
    problems = PANDA.problems(max(batches), random_seed=0)
    rates = show_batches(report, device, problems, batches, seconds)
    show_latency(report, device, problems, seconds)
    show_arithmetic(report, device, problems, clock, seconds)
    show_pyroki(report, problems, {batch: rate for batch, rate in rates.items() if batch in PYROKI_BATCHES})
    return report


def describe(device: wp.Device) -> str:
    """Name of a device."""
    if device.is_cpu:
        return "CPU, by the kernels for GPUs, thread after thread"
    return f"{device.name}, sm_{device.arch}, {device.sm_count} multiprocessors"


def make(device: wp.Device, **options: object) -> ik_service.IKSolver:
    """Return a solver for the Panda."""
    chosen = ik_service.SolverOptions(**options)
    return ik_service.IKSolver(PANDA.robot, list(PANDA.links), device=str(device), engine="compiled", options=chosen)


def timed(device: wp.Device, run: Callable[[], object], seconds: float) -> NDArray[np.float64]:
    """Wall time of each run [s], after a few to warm up, for so long and at least a few times."""
    times: list[float] = []
    for k in range(WARM_UP + CALLS_MIN + 100_000):
        start = time.perf_counter()
        run()
        wp.synchronize_device(device)
        times.append(time.perf_counter() - start)
        if k >= WARM_UP + CALLS_MIN and sum(times[WARM_UP:]) > seconds:
            break
    return np.array(times[WARM_UP:])


# ---------------------------------------------------------------------- batches


def show_batches(
    report: Report, device: wp.Device, problems: HandProblems, batches: list[int], seconds: float
) -> dict[int, float]:
    """Report time and success of every batch size; return the targets per second of the public call."""
    heads = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]
    report.section(
        "Batches",
        "Panda, random reachable targets, default options, wall time, median of the calls. 'Public call': NumPy arrays "
        "in and out, checks and judgement included. 'On the device': the same work as one recorded graph with its "
        "copies, without Python. Success by float64 forward kinematics apart from the solver, inside exact limits.",
    )
    report.table("batch", "calls", "public call, µs", "targets/s", "on the device, µs", "targets/s", *heads)
    rates, wrong, count = {}, 0, 0
    for batch in batches:
        solver, few = make(device), problems.first(batch)
        given = few.positions[:, 0], few.orientations_xyzw[:, 0]
        calls = timed(device, lambda s=solver, g=given: s.solve(*g), seconds)
        result = solver.solve(*given)
        graph = _recorded(solver)
        replays = timed(device, lambda g=graph: wp.capture_launch(g), seconds)
        shares = [solved(few, result.joint_q, tolerance).mean() for tolerance in TOLERANCES]
        wrong += int((result.success != solved(few, result.joint_q, TOLERANCES[1])).sum())
        count += batch
        rates[batch] = batch / float(np.median(calls))
        cells = [f"{1e6 * np.median(calls):.1f}", f"{rates[batch]:,.0f}", f"{1e6 * np.median(replays):.1f}"]
        report.row(
            batch, len(calls), *cells, f"{batch / np.median(replays):,.0f}", *(f"{share:.2%}" for share in shares)
        )
    report.line("")
    report.claim("`success` differs from the judge's", f"{wrong} of {count}", "none", wrong == 0 < count)
    return rates


def _recorded(solver: ik_service.IKSolver) -> wp.Graph:
    """The graph of the last solve, which has been called several times."""
    engine: Any = solver._core.engine
    plan = next(reversed(engine.plans.values()))
    replay: Any = next(reversed(plan.recording._graphs.values()))
    (graph,) = replay.args  # it launches that, and waits
    return graph


def show_latency(report: Report, device: wp.Device, problems: HandProblems, seconds: float) -> None:
    """Report how long one target takes."""
    report.section("One target", "Panda, another target in every public call, wall time, µs.")
    solver = make(device)
    positions, orientations = problems.positions[:, 0], problems.orientations_xyzw[:, 0]
    place = iter(range(10**9))

    def call() -> None:
        k = next(place) % len(positions)
        solver.solve(positions[k : k + 1], orientations[k : k + 1])

    times = 1e6 * timed(device, call, seconds)
    report.table("calls", "p50", "p99")
    report.row(len(times), *(f"{np.percentile(times, share):.1f}" for share in (50, 99)))
    report.line("")
    median = float(np.median(times))
    report.claim("median latency of one target", f"{median:.1f} µs", f"{LATENCY_MAX:g} µs", median < LATENCY_MAX)


# ---------------------------------------------------------------------- arithmetic


def operations(source: IterationSource) -> dict[str, int]:
    """Count the floating-point operations of an iteration in its source, by sign; sqrt and rint count as one each.

    Comparisons, choices, negations and the arithmetic of addresses count nothing; an FMA is a product and a sum.
    """
    text = re.sub(NUMBER, "N", source.text())
    text = re.sub(r"\(F\{\} \+ N\)", "N", text)  # a number in every lane
    lines = [line for line in text.splitlines() if re.match(r"(const (F|auto) \w+|\w+|s\[\d+\]) = ", line)]
    text = "\n".join(line.split(" = ", 1)[1] for line in lines)
    text = re.sub(r"\[[^]]*\]", "", text)
    found = {sign: len(re.findall(rf"[\w)] {re.escape(sign)} [\w(-]", text)) for sign in "+-*/"}
    return found | {name: text.count(f"{name}f(") for name in ("sqrt", "rint")}


class _Kept(ThreadLaunches):
    """Keeps what has been recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[PartLaunches] = []
        self.kernels: list[IslandKernel] = []

    def record(self, size: tuple[int, ...], work: list[IslandWork], part: int, parts: int) -> PartLaunches:
        """Record the launches of an island."""
        self.parts.append(super().record(size, work, part, parts))
        self.kernels += [kernel for kernel, _ in work]
        return self.parts[-1]


def show_arithmetic(
    report: Report, device: wp.Device, problems: HandProblems, clock: float | None, seconds: float
) -> None:
    """Report how much of what the device can compute the kernel of the island uses."""
    count = len(problems.positions)
    solver = make(device, seeds=1, best_of="cost")  # every attempt runs to its own end, also when it runs again
    engine: Any = solver._core.engine
    engine.kernels.launches = kept = _Kept()
    result = solver.solve(problems.positions, problems.orientations_xyzw)
    with wp.ScopedCapture(device=device) as capture:
        kept.parts[0].run(count)
    times = timed(device, lambda: wp.capture_launch(capture.graph), seconds)
    found = operations(kept.kernels[0].source)
    each, evaluations = sum(found.values()), int((result.iterations + 1).sum())
    rate = each * evaluations / float(np.median(times))
    report.section(
        "Arithmetic",
        f"{count} targets, one attempt each, by the island's kernel alone. An iteration of the Panda has {each} "
        f"floating-point operations in its source ({', '.join(f'{n} {sign}' for sign, n in found.items())}; "
        "comparisons and choices are not counted). An attempt evaluates its start and every step that it tries: "
        f"{evaluations} iterations in all.",
    )
    report.table("iterations/s", "ns per iteration", "float32 operations/s", "limit of the device", "share")
    limit = _limit(device, clock)
    report.row(
        f"{evaluations / np.median(times):.3g}",
        f"{1e9 * np.median(times) / evaluations:.3f}",
        f"{rate:.3g}",
        "not known" if limit is None else f"{limit:.3g}",
        "not known" if limit is None else f"{rate / limit:.1%}",
    )


def _limit(device: wp.Device, clock: float | None) -> float | None:
    """Float32 operations per second: multiprocessors x lanes x 2 (an FMA) x largest clock."""
    if device.is_cpu or device.arch not in FP32_LANES:
        return None
    if clock is None and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", f"--id={device.ordinal}", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
        answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
        clock = float(answer) if re.fullmatch(r"\d+", answer) else None
    return None if clock is None else 2.0 * FP32_LANES[device.arch] * int(device.sm_count) * clock * 1e6


# ---------------------------------------------------------------------- PyRoki


def show_pyroki(report: Report, problems: HandProblems, ours: dict[int, float]) -> None:
    """Report PyRoki on the same targets, where it is installed."""
    report.section(
        "PyRoki",
        f"The same targets: {SEEDS} seeds x {STEPS} steps, the best {KEPT} x {MORE_STEPS} more, as PyRoki's own "
        f"benchmark has it; NumPy arrays in and out. Its limits are soft: success with {PYROKI_SLACK:g} rad of slack.",
    )
    try:
        beam = PyrokiBeam(PANDA.path, PANDA.links[0])
    except ImportError as error:
        report.line(f"Not measured: {error}.")
        return
    heads = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]
    report.table("solver", "batch", "µs per call", "targets/s", *heads, "ours, times as many targets/s")
    for batch, rate in ours.items():
        few = problems.first(batch)
        joint_q, times = beam.solve(few.positions[:, 0], few.orientations_xyzw[:, 0], CALLS_MIN)
        shares = [solved(few, joint_q, tolerance, PYROKI_SLACK).mean() for tolerance in TOLERANCES]
        theirs = batch / float(np.median(times))
        cells = [f"{1e6 * np.median(times):.1f}", f"{theirs:,.0f}", *(f"{share:.2%}" for share in shares)]
        report.row(beam.who, batch, *cells, f"{rate / theirs:.1f}")


if __name__ == "__main__":
    main()

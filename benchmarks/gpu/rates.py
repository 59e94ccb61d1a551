"""Rates of the compiled engine on a GPU: targets per second, one target's latency, arithmetic, gradients, peers."""

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.gpu.pyroki_beam import KEPT, MORE_STEPS, SEEDS, STEPS, PyrokiBeam
from benchmarks.peers.environments import NEWTON_ITERATIONS, SLACK
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.pose_problems import SOLVED, PoseProblems
from benchmarks.report import Report
from ik_service.cli.pose_problems import TOLERANCES
from ik_service.compiler import IterationSource
from ik_service.solver.compiled.island_launches import IslandKernel, IslandWork, ThreadLaunches
from ik_service.solver.recording import PartLaunches

BATCHES = [1, 100, 1000, 10_000, 100_000]
LATENCY_MAX = 500.0  # [us], asked of the median
WARM_UP = 3  # calls: launches, a recording, and its first replay
CALLS_MIN = 5
PYROKI_BATCHES, PYROKI_SLACK = (1, 100, 1000), 1e-3  # [rad]; its limits are soft
NEWTON_SEEDS, NEWTON_S = 16, 240.0
NEWTON_SCRIPT = Path(__file__).parents[1] / "peers" / "newton_ik.py"
GRADIENT_BATCHES, COMPARED = (1, 1000, 10_000, 100_000), 1000
SHARE = 0.95  # of those compared; near singular poses gradients are large, and change as much
SAME = 1e-3  # of the largest entry of a gradient: answers in float32 differ by rounding between devices
# Multiprocessors compute so many float32 products and sums at once.
FP32_LANES = {75: 64, 80: 64, 86: 128, 87: 128, 89: 128, 90: 128, 100: 128, 103: 128, 110: 128, 120: 128, 121: 128}
NUMBER = r"\(-?[\d.]+(?:e[+-]?\d+)?f\)"
HEADS = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]


def describe(device: wp.Device) -> str:
    """Name of a device."""
    if device.is_cpu:
        return "CPU, by the kernels for GPUs, thread after thread"
    return f"{device.name}, sm_{device.arch}, {device.sm_count} multiprocessors"


def make(device: wp.Device, **options: object) -> ik_service.IKSolver:
    """Return a solver for the Panda."""
    chosen = ik_service.SolverOptions(**options)
    return ik_service.IKSolver(PANDA.robot, list(PANDA.links), device=str(device), engine="compiled", options=chosen)


def wall_times(device: wp.Device, run: Callable[[], object], seconds: float) -> NDArray[np.float64]:
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


def show_batches(
    report: Report, device: wp.Device, problems: PoseProblems, batches: list[int], seconds: float
) -> dict[int, float]:
    """Report time and success of every batch size; return the targets per second of the public call."""
    report.section(
        "Batches",
        "Panda, random reachable targets, default options, wall time, median of the calls. 'Public call': NumPy arrays "
        "in and out, checks and judgement included. 'On the device': the same work as one recorded graph with its "
        "copies, without Python. Success by float64 forward kinematics apart from the solver, inside exact limits.",
        *("batch", "calls", "public call, µs", "targets/s", "on the device, µs", "targets/s", *HEADS),
    )
    rates, wrong, count = {}, 0, 0
    for batch in batches:
        solver, few = make(device), problems.first(batch)
        calls = wall_times(device, partial(solver.solve, *few.given), seconds)
        result = solver.solve(*few.given)
        replays = wall_times(device, partial(wp.capture_launch, _recorded(solver)), seconds)
        shares = [f"{few.met(result.joint_q, tolerance).mean():.2%}" for tolerance in TOLERANCES]
        wrong += int((result.success != few.met(result.joint_q, SOLVED)).sum())
        count += batch
        median, own = float(np.median(calls)), float(np.median(replays))
        rates[batch] = batch / median
        cells = f"{1e6 * median:.1f}", f"{rates[batch]:,.0f}", f"{1e6 * own:.1f}", f"{batch / own:,.0f}"
        report.row(batch, len(calls), *cells, *shares)
    report.claim("`success` differs from the judge's", f"{wrong} of {count}", "none", wrong == 0 < count)
    return rates


def _recorded(solver: ik_service.IKSolver) -> wp.Graph:
    """The graph of the last solve, which has been called several times."""
    engine: Any = solver._core.engine
    plan = next(reversed(engine.plans.values()))
    replay: Any = next(reversed(plan.recording._graphs.values()))
    (graph,) = replay.args  # it launches that, and waits
    return graph


def show_latency(report: Report, device: wp.Device, problems: PoseProblems, seconds: float) -> None:
    """Report how long one target takes."""
    report.section("One target", "Panda, another target in every public call, wall time, µs.", "calls", "p50", "p99")
    solver, place = make(device), iter(range(10**9))
    times = 1e6 * wall_times(device, lambda: solver.solve(*problems[[next(place) % len(problems)]].given), seconds)
    report.row(len(times), *(f"{np.percentile(times, share):.1f}" for share in (50, 99)))
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


def show_arithmetic(report: Report, device: wp.Device, problems: PoseProblems, seconds: float) -> None:
    """Report how much of what the device can compute the kernel of the island uses."""
    solver = make(device, seeds=1, best_of="cost")  # every attempt runs to its own end, also when it runs again
    engine: Any = solver._core.engine
    engine.kernels.launches = kept = _Kept()
    result = solver.solve(*problems.given)
    with wp.ScopedCapture(device=device) as capture:
        kept.parts[0].run(len(problems))
    median = float(np.median(wall_times(device, lambda: wp.capture_launch(capture.graph), seconds)))
    found = operations(kept.kernels[0].source)
    each, evaluations = sum(found.values()), int((result.iterations + 1).sum())
    report.section(
        "Arithmetic",
        f"{len(problems)} targets, one attempt each, by the kernel of the island alone. An iteration has {each} "
        f"floating-point operations in its source ({', '.join(f'{n} {sign}' for sign, n in found.items())}; "
        "comparisons and choices are not counted). An attempt evaluates its start and every step that it tries: "
        f"{evaluations} iterations in all.",
        *("iterations/s", "ns per iteration", "float32 operations/s", "limit of the device", "share"),
    )
    limit, rate = _limit(device), each * evaluations / median
    known = ("not known",) * 2 if limit is None else (f"{limit:.3g}", f"{rate / limit:.1%}")
    report.row(f"{evaluations / median:.3g}", f"{1e9 * median / evaluations:.3f}", f"{rate:.3g}", *known)


def _limit(device: wp.Device) -> float | None:
    """Float32 operations per second: multiprocessors x lanes x 2 (an FMA) x largest clock."""
    if device.is_cpu or device.arch not in FP32_LANES or not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", f"--id={device.ordinal}", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    if not re.fullmatch(r"\d+", answer):
        return None
    return 2.0 * FP32_LANES[device.arch] * int(device.sm_count) * float(answer) * 1e6


# ---------------------------------------------------------------------- peers
PEER_HEADS = ("solver", "batch", "µs per call", "targets/s", *HEADS, "ours, times as many targets/s")


def _peer_row(report: Report, who: str, few: PoseProblems, answers: tuple[Any, Any], slack: float, ours: float) -> None:
    joint_q, median, batch = answers[0], float(np.median(answers[1])), len(few)
    shares = [f"{few.met(joint_q, tolerance, slack).mean():.2%}" for tolerance in TOLERANCES]
    cells = f"{1e6 * median:.1f}", f"{batch / median:,.0f}", *shares
    report.row(who, batch, *cells, f"{ours * median / batch:.1f}")


def show_pyroki(report: Report, problems: PoseProblems, ours: dict[int, float]) -> None:
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
    report.table(*PEER_HEADS)
    for batch in [batch for batch in PYROKI_BATCHES if batch in ours]:
        few = problems.first(batch)
        answers = beam.solve(few.positions[:, 0], few.orientations_xyzw[:, 0], CALLS_MIN)
        _peer_row(report, beam.who, few, answers, PYROKI_SLACK, ours[batch])


def show_newton(report: Report, device: wp.Device, problems: PoseProblems, ours: dict[int, float]) -> None:
    """Report newton.ik beside our targets per second, where it is installed beside ours."""
    report.section(
        "newton.ik",
        f"The same targets: {NEWTON_SEEDS} seeds, {NEWTON_ITERATIONS} iterations, with which it did best on CPUs; "
        "arrays stay on the device, and its steps are a recorded graph. Its limits are soft: success with "
        f"{SLACK:g} rad of slack.",
    )
    if importlib.util.find_spec("newton") is None:
        report.line("Not measured: newton is not installed.")
        return
    report.table(*PEER_HEADS)
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
                seeds=NEWTON_SEEDS,
                iterations=NEWTON_ITERATIONS,
                repeats=CALLS_MIN,
                device=str(device),
            )
            subprocess.run([sys.executable, NEWTON_SCRIPT, inputs, answers], check=True, timeout=NEWTON_S)
            with np.load(answers) as saved:
                who, given = f"newton.ik {saved['version']}", (saved["joint_q"], saved["times"])
        _peer_row(report, who, few, given, SLACK, rate)


# ---------------------------------------------------------------------- gradients
def show_gradients(report: Report, device: wp.Device, problems: PoseProblems, seconds: float) -> None:
    """Report how long a solve with its backward pass takes, and whether the gradient is that of the CPU."""
    report.section(
        "Gradients",
        "Panda, float64 tensors of PyTorch on the device: a solve, and a solve with the gradient of the squared "
        "configurations by all targets; wall time, median.",
    )
    if not device.is_cuda or importlib.util.find_spec("torch") is None:
        report.line("Not measured: PyTorch is not installed, or there is no card.")
        return
    torch, of_torch = importlib.import_module("torch"), importlib.import_module("ik_service.torch")
    names = ("cpu", str(device))
    solvers = {one: ik_service.IKSolver(PANDA.robot, list(PANDA.links), device=one) for one in names}
    solve = {one: of_torch.TorchSolver(solver) for one, solver in solvers.items()}

    def tensors(batch: int, name: str) -> list[Any]:
        few = problems[np.arange(batch) % len(problems)]
        return [torch.tensor(one[:, 0], device=name) for one in few.given]

    def gradient(name: str, given: list[Any]) -> tuple[Any, list[Any], Any]:
        """Answers, gradients of their squares by the targets, and which have one."""
        inputs = [one.detach().requires_grad_() for one in given]
        answer = solve[name](*inputs)
        answer.joint_q.square().sum().backward()
        return answer.joint_q.detach(), [one.grad for one in inputs], answer.is_differentiable

    def plain(given: list[Any]) -> None:
        with torch.no_grad():
            solve[names[1]](*given)

    report.table("batch", "solve, µs", "with its gradient, µs", "targets/s", "answers with a gradient")
    for batch in GRADIENT_BATCHES:
        given = tensors(batch, names[1])
        runs = partial(plain, given), partial(gradient, names[1], given)
        medians = [float(np.median(wall_times(device, run, seconds))) for run in runs]
        share = float(gradient(names[1], given)[2].float().mean())
        cells = [f"{1e6 * median:.0f}" for median in medians]
        report.row(batch, *cells, f"{batch / medians[1]:,.0f}", f"{share:.2%}")
    cpu, own = (gradient(name, tensors(COMPARED, name)) for name in names)
    same = (own[0].cpu() - cpu[0]).abs().amax(dim=1) < 1e-4  # the same answer
    apart = max(
        float(((a.cpu() - b).abs().amax(dim=1) / b.abs().amax(dim=1))[same].quantile(SHARE))
        for a, b in zip(own[1], cpu[1], strict=True)
    )
    share = float(same.float().mean())
    what = f"gradients beside the CPU's, {SHARE:.0%} of the {share:.1%} of {COMPARED} with the same answers"
    report.claim(what, f"{apart:.1e}", f"{SAME:g}", apart <= SAME and share > 0.9)

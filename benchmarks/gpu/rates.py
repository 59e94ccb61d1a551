"""Rates of the compiled engine on a GPU: targets per second, one target's latency, arithmetic, gradients, peers.

PyRoki, as its own benchmark: many seeds for a few steps, the best of them for some more. It needs the package `pyroki`
(JAX) beside ours; JAX takes the GPU that it finds.
"""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.arms.contenders import NEWTON_SEEDS, newton_problems
from benchmarks.gpu.steps import CALLS_MIN, Contact
from benchmarks.peers.environments import NEWTON_ITERATIONS, SLACK, run_script
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.pose_problems import SOLVED, PoseProblems
from benchmarks.report import Report
from ik_service.cli.pose_problems import TOLERANCES
from ik_service.compiler import IterationSource
from ik_service.solver.compiled.island_launches import IslandKernel, IslandWork, ThreadLaunches
from ik_service.solver.recording import PartLaunches

SEEDS, STEPS = 64, 6  # coarse
KEPT, MORE_STEPS = 4, 10  # refined
WEIGHTS = (10.0, 5.0, 50.0)  # of position, orientation and limits
DAMPING = 10.0  # of the first step
BATCHES = [1, 100, 1000, 10_000, 100_000]
LATENCY_MAX = 500.0  # [us], asked of the median
PYROKI_BATCHES, PYROKI_SLACK = (1, 100, 1000), 1e-3  # [rad]; its limits are soft
NEWTON_S = 240.0
GRADIENT_BATCHES, COMPARED = (1, 1000, 10_000, 100_000), 1000
SHARE = 0.95  # of those compared; near singular poses gradients are large, and change as much
SAME = 1e-3  # of the largest entry of a gradient: answers in float32 differ by rounding between devices
# Multiprocessors compute so many float32 products and sums at once.
FP32_LANES = {75: 64, 80: 64, 86: 128, 87: 128, 89: 128, 90: 128, 100: 128, 103: 128, 110: 128, 120: 128, 121: 128}
NUMBER = r"\(-?[\d.]+(?:e[+-]?\d+)?f\)"
HEADS = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]
PEER_HEADS = ("solver", "batch", "µs per call", "targets/s", *HEADS, "ours, times as many targets/s")


def spread_evenly(count: int, width: int) -> NDArray[np.float64]:
    """Points that fill the unit cube evenly [count, width]: multiples of powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(64):  # x^(width + 1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (width + 1))
    return np.arange(count)[:, None] * ratio ** -np.arange(1.0, width + 1) % 1.0


class PyrokiBeam:
    """PyRoki for one link of a robot; an ImportError where PyRoki is not installed."""

    def __init__(self, urdf: Path, link: str) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # Warp needs memory too
        import jax
        import pyroki
        import yourdfpy

        package = metadata.packages_distributions()["pyroki"][0]
        self.who = f"{package} {metadata.version(package)}, JAX {jax.__version__} on {jax.devices()[0].platform}"
        self._robot = pyroki.Robot.from_urdf(yourdfpy.URDF.load(str(urdf), load_meshes=False))
        self._link = self._robot.links.names.index(link)
        self._solve = jax.jit(jax.vmap(self._solve_one))

    def _solve_one(self, position: Any, wxyz: Any) -> Any:
        import jax
        import jaxls
        from jax import numpy as jnp

        joints = self._robot.joints
        span = joints.upper_limits - joints.lower_limits
        seeds = joints.lower_limits + jnp.asarray(spread_evenly(SEEDS, joints.num_actuated_joints)) * span

        def descend(q: Any, damping: Any, steps: int) -> Any:
            variable = self._robot.joint_var_cls(0)
            problem = jaxls.LeastSquaresProblem(self._costs(variable, position, wxyz), [variable]).analyze()
            values, summary = problem.solve(
                jaxls.VarValues.make([variable.with_value(q)]),
                verbose=False,
                linear_solver="dense_cholesky",
                termination=jaxls.TerminationConfig(max_iterations=steps, early_termination=False),
                trust_region=jaxls.TrustRegionConfig(lambda_initial=damping),
                return_summary=True,
            )
            return values[variable], summary.cost_history[steps - 1], summary.lambda_history[steps - 1]

        coarse, cost, damping = jax.vmap(lambda q: descend(q, DAMPING, STEPS))(seeds)
        best = jnp.argsort(cost)[:KEPT]
        fine, cost, _ = jax.vmap(lambda q, d: descend(q, d, MORE_STEPS))(coarse[best], damping[best])
        return fine[jnp.argmin(cost)]

    def _costs(self, variable: Any, position: Any, wxyz: Any) -> list[Any]:
        import jaxlie
        import pyroki
        from jax import numpy as jnp

        pose = jaxlie.SE3.from_rotation_and_translation(jaxlie.SO3(wxyz), position)
        target = pyroki.costs.pose_cost_analytic_jac(
            self._robot, variable, pose, jnp.array(self._link), pos_weight=WEIGHTS[0], ori_weight=WEIGHTS[1]
        )
        return [target, pyroki.costs.limit_cost(self._robot, variable, weight=WEIGHTS[2])]

    def solve(
        self, positions: NDArray[np.float64], orientations_xyzw: NDArray[np.float64], repeats: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the answers [n, joints] to targets [n, 3] and [n, 4], NumPy arrays in and out, and times of runs [s].

        Times are wall time; a run before them compiles.
        """
        given = positions.astype(np.float32), np.roll(orientations_xyzw, 1, axis=1).astype(np.float32)
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            joint_q = np.asarray(self._solve(*given))
            times.append(time.perf_counter() - start)
        return joint_q.astype(np.float64), np.array(times[1:])


def make(contact: Contact, **options: object) -> ik_service.IKSolver:
    """Return a solver for the Panda."""
    chosen = ik_service.SolverOptions(**options)
    return contact.make(PANDA.robot, list(PANDA.links), engine="compiled", options=chosen)


def show_batches(contact: Contact, problems: PoseProblems, batches: list[int]) -> dict[int, float]:
    """Report time and success of every batch size; return the targets per second of the public call."""
    report = contact.report
    report.section(
        "Batches",
        "Panda, random reachable targets, default options, wall time, median of the calls. 'Public call': NumPy arrays "
        "in and out, checks and judgement included. 'On the device': the same work as one recorded graph with its "
        "copies, without Python. Success by float64 forward kinematics apart from the solver, inside exact limits.",
        *("batch", "calls", "public call, µs", "targets/s", "on the device, µs", "targets/s", *HEADS),
    )
    rates, wrong, count = {}, 0, 0
    for batch in batches:
        solver, few = make(contact), problems.first(batch)
        calls = contact.wall_times(partial(solver.solve, *few.given))
        result = solver.solve(*few.given)
        own = contact.rate(partial(wp.capture_launch, _recorded(solver)), batch, decimals=1)
        shares = [f"{few.met(result.joint_q, tolerance).mean():.2%}" for tolerance in TOLERANCES]
        wrong += int((result.success != few.met(result.joint_q, SOLVED)).sum())
        count += batch
        median = float(np.median(calls))
        rates[batch] = batch / median
        report.row(batch, len(calls), f"{1e6 * median:.1f}", f"{rates[batch]:,.0f}", *own, *shares)
    report.claim("`success` differs from the judge's", f"{wrong} of {count}", "none", wrong == 0 < count)
    return rates


def _recorded(solver: ik_service.IKSolver) -> wp.Graph:
    """The graph of the last solve, which has been called several times."""
    engine: Any = solver._core.engine
    plan = next(reversed(engine.plans.values()))
    replay: Any = next(reversed(plan.recording._graphs.values()))
    (graph,) = replay.args  # it launches that, and waits
    return graph


def show_latency(contact: Contact, problems: PoseProblems) -> None:
    """Report how long one target takes."""
    report = contact.report
    report.section("One target", "Panda, another target in every public call, wall time, µs.", "calls", "p50", "p99")
    solver, place = make(contact), iter(range(10**9))
    times = 1e6 * contact.wall_times(lambda: solver.solve(*problems[[next(place) % len(problems)]].given))
    report.row(len(times), *(f"{np.percentile(times, share):.1f}" for share in (50, 99)))
    median = float(np.median(times))
    report.claim("median latency of one target", f"{median:.1f} µs", f"{LATENCY_MAX:g} µs", median < LATENCY_MAX)


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


def show_arithmetic(contact: Contact, problems: PoseProblems) -> None:
    """Report how much of what the device can compute the kernel of the island uses."""
    report, device = contact.report, contact.device
    solver = make(contact, seeds=1, best_of="cost")  # every attempt runs to its own end, also when it runs again
    engine: Any = solver._core.engine
    engine.kernels.launches = kept = _Kept()
    result = solver.solve(*problems.given)
    with wp.ScopedCapture(device=device) as capture:
        kept.parts[0].run(len(problems))
    median = float(np.median(contact.wall_times(lambda: wp.capture_launch(capture.graph))))
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


def _peer_row(report: Report, who: str, few: PoseProblems, answers: tuple[Any, Any], slack: float, ours: float) -> None:
    joint_q, median, batch = answers[0], float(np.median(answers[1])), len(few)
    shares = [f"{few.met(joint_q, tolerance, slack).mean():.2%}" for tolerance in TOLERANCES]
    cells = f"{1e6 * median:.1f}", f"{batch / median:,.0f}", *shares
    report.row(who, batch, *cells, f"{ours * median / batch:.1f}")


def show_pyroki(contact: Contact, problems: PoseProblems, ours: dict[int, float]) -> None:
    """Report PyRoki on the same targets, where it is installed."""
    report = contact.report
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


def show_newton(contact: Contact, problems: PoseProblems, ours: dict[int, float]) -> None:
    """Report newton.ik beside our targets per second, where it is installed beside ours."""
    report = contact.report
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
        asked = newton_problems(PANDA, few) | {"repeats": CALLS_MIN, "device": str(contact.device)}
        saved = run_script(sys.executable, "newton_ik.py", timeout_s=NEWTON_S, **asked)
        _peer_row(report, f"newton.ik {saved['version']}", few, (saved["joint_q"], saved["times"]), SLACK, rate)


def show_gradients(contact: Contact, problems: PoseProblems) -> None:
    """Report how long a solve with its backward pass takes, and whether the gradient is that of the CPU."""
    report, device = contact.report, contact.device
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
        medians = [float(np.median(contact.wall_times(run))) for run in runs]
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

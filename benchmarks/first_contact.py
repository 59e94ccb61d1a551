"""First contact with a GPU: does it run, are the answers right, the same each time, and how fast is what.

python -m benchmarks.first_contact [--device cuda:0] [--steps answers laws ...] [--count 20000] [--seconds 2] [--write]

One command on a machine with a card, without a network. A step that fails is told, and the others go on. --write keeps
gpu.md beside this file. Without a GPU it says so; `--device cpu` runs the kernels for GPUs on one core, thread
after thread: that tries this script and tells nothing of a card. The exit code is 1 where a bound is missed.
"""

import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import warp as wp

import ik_service
from benchmarks.gpu import rates, steps
from benchmarks.gpu.steps import Contact, circle, panda_controller, reachable
from benchmarks.problems.compared_robots import LINKS, PANDA
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report
from benchmarks.run import benchmark
from benchmarks.service.service_process import service
from ik_service.solver.compiled import island_launches, thread_kernel, waves

SAME_SEEDS = 0.95  # of the problems: a step that hardly changes the cost is decided by the last bits
SAME_COMMANDS = 1e-8  # [m or rad] between two compilers' float64
FIRST_SOLVE_S = 60.0  # kernels compiled; 2 s where they are found
ALONE = 16  # problems that are solved once more, each alone
SIZES = (1, 1000, 10_000, 100_000, 1_000_000)  # of batches
OWN = int(thread_kernel.ROUND), waves.THREADS_PER_SM  # what solvers have
LAUNCHES = (OWN, (12, 768), (8, 384))  # alike
TICKS = 1000
DT = 1e-3
SERVICE_S = 300.0
TOOLS, TOOL_S = ("memcheck", "racecheck", "initcheck", "synccheck"), 200.0  # of compute-sanitizer


def false_successes(problems: PoseProblems, result: ik_service.IKResult) -> int:
    """Return how many successes do not meet all targets, by float64 kinematics of the host."""
    return int((result.success & ~problems.met(result.joint_q)).sum())


def _show_machine(contact: Contact) -> None:
    report, device = contact.report, contact.device
    report.section("The machine", "")
    name = f"{device.name}, sm_{device.arch}, {device.sm_count} multiprocessors"
    name = "CPU, by the kernels for GPUs, thread after thread" if device.is_cpu else name
    report.line(f"- {name}; NumPy {np.__version__}")
    if device.is_cuda:
        runtime: Any = wp._src.context.runtime
        report.line(f"- driver {runtime.driver_version}, toolkit {runtime.toolkit_version}")
        report.line(f"- memory pools {device.is_mempool_enabled}, {device.total_memory / 2**30:.0f} GiB")
    began = time.perf_counter()
    contact.solver("panda").solve(np.array([[0.4, 0.1, 0.5]]))
    took = time.perf_counter() - began
    what = "first solve, kernels loaded or compiled"
    report.claim(what, f"{took:.1f} s", f"{FIRST_SOLVE_S:g} s", took < FIRST_SOLVE_S)


def _show_answers(contact: Contact) -> None:
    report, false, shares = contact.report, 0, dict[str, float]()
    report.section(
        "Answers",
        "Random reachable targets, beside the same solver on the CPU. 'Same seeds': problems in which the same seeds "
        "win on every island. 'Apart': largest difference of a joint [rad] where the winning attempts took as many "
        "steps, median over the problems. A false success is one that float64 kinematics of the host do not confirm.",
        *("robot", "engine", "targets", "success on the CPU", "on the device", "same seeds", "apart", "false"),
    )
    for name in contact.robots:
        solver = contact.solver(name)
        problems = reachable(solver.robot, LINKS[name], contact.count)
        result, cpu = (one.solve(*problems.given) for one in (solver, contact.solver(name, "cpu")))
        same = (result.islands.seed_index == cpu.islands.seed_index).all(axis=1)
        alike = same & (result.islands.iterations == cpu.islands.iterations).all(axis=1) & cpu.success
        apart = np.abs(result.joint_q - cpu.joint_q).max(axis=1)[alike]
        wrong = false_successes(problems, result)
        false += wrong
        cells = f"{cpu.success.mean():.2%}", f"{result.success.mean():.2%}", f"{same.mean():.2%}"
        report.row(name, solver.engine, contact.count, *cells, f"{np.median(apart):.1e}", wrong)
        if solver.engine == "compiled":
            shares[name] = float(same.mean())
    for name, share in shares.items():
        report.claim(f"same seeds, {name}", f"{share:.2%}", f"{SAME_SEEDS:.0%}", share >= SAME_SEEDS)
    report.claim("false successes", f"{false}", "none", false == 0)


def _show_laws(contact: Contact) -> None:
    report = contact.report
    report.section("Laws", "Bytes of all columns of the result: the same problems in other company.")
    for name in contact.robots:
        solver = contact.solver(name)
        problems = reachable(solver.robot, LINKS[name], contact.count)
        result = solver.solve(*problems.given)
        order = np.random.default_rng(1).permutation(contact.count)
        others: dict[str, list[tuple[Any, ik_service.IKResult]]] = {
            "again, recorded": [(slice(None), solver.solve(*problems.given)) for _ in range(4)],
            "permuted": [(order, solver.solve(*problems[order].given))],
            "alone": [([k], solver.solve(*problems[[k]].given)) for k in order[:ALONE]],
            "by another solver": [(slice(None), contact.solver(name).solve(*problems.given))],
        }
        wrong = [what for what, pairs in others.items() if not all(_same(result, *pair) for pair in pairs)]
        if solver.engine == "compiled":
            columns = solver.on_device().solve(*_on(contact.device, problems))
            if any(column.numpy().tobytes() != getattr(result, own).tobytes() for own, column in columns.items()):
                wrong.append("arrays that stay on the device")
            if contact.device.is_cuda and importlib.util.find_spec("torch"):
                torch = importlib.import_module("torch")
                tensors = (torch.tensor(one, device=str(contact.device)) for one in problems.given)
                given = solver.on_device().solve(*tensors)["joint_q"]
                if torch.from_dlpack(given).cpu().numpy().tobytes() != result.joint_q.tobytes():
                    wrong.append("tensors of PyTorch")
        report.claim(f"the same bytes, {name}", ", ".join(wrong) or "in all", "in all", not wrong)


def _same(result: ik_service.IKResult, problems: Any, other: ik_service.IKResult) -> bool:
    names = ("joint_q", "success", "status", "position_error", "orientation_error", "cost", "iterations", "seed_index")
    return all(getattr(result, name)[problems].tobytes() == getattr(other, name).tobytes() for name in names)


def _on(device: wp.Device, problems: PoseProblems) -> "list[wp.array[Any]]":
    return [wp.array(one, dtype=wp.float32, device=device) for one in problems.given]


def _show_ticks(contact: Contact) -> None:
    report, commands, times = contact.report, [], np.zeros(0)
    robot = ik_service.load_robot("panda", collision="ignore")
    report.section("Ticks", f"A Panda's hand on a circle of 0.1 m, {TICKS} ticks of {DT * 1e3:g} ms, one robot.")
    for device in (wp.get_device("cpu"), contact.device):
        controller = panda_controller(robot, device)
        took, found = [], []
        for pose in circle(robot, TICKS):
            began = time.perf_counter()
            result = controller.step(pose, dt=DT)
            took.append(time.perf_counter() - began)
            found.append(result.joint_q[0].copy())
        commands.append(np.array(found))
        times = 1e6 * np.array(took[10:])
    apart = float(np.abs(commands[1] - commands[0]).max())
    report.claim("commands beside the CPU's", f"{apart:.1e} rad", f"{SAME_COMMANDS:g}", apart <= SAME_COMMANDS)
    report.line(f"- a tick: {np.median(times):.0f} µs median, {np.percentile(times, 99):.0f} µs p99")


def _show_rates(contact: Contact) -> None:
    batches = [batch for batch in rates.BATCHES if batch <= 5 * contact.count]
    problems = PANDA.problems(max(batches), random_seed=0)
    per_batch = rates.show_batches(contact, problems, batches)
    _show_on_device(contact, batches)
    rates.show_latency(contact, problems)
    rates.show_arithmetic(contact, problems)
    rates.show_pyroki(contact, problems, per_batch)
    rates.show_newton(contact, problems, per_batch)
    rates.show_gradients(contact, problems)


def _show_robots(contact: Contact) -> None:
    report = contact.report
    report.section(
        "Robots",
        "The public call, NumPy arrays in and out, wall time, median. False: as above. All targets are reachable.",
        *("robot", "engine", "targets", "µs", "targets/s", "success", "false"),
    )
    for name in contact.robots:
        solver = contact.solver(name)
        for count in (1, 1000, contact.count):
            problems = reachable(solver.robot, LINKS[name], count)
            solve = partial(solver.solve, *problems.given)
            cells, result = contact.rate(solve, count), solve()
            success = f"{result.success.mean():.2%}"
            report.row(name, solver.engine, count, *cells, success, false_successes(problems, result))


def _show_launches(contact: Contact) -> None:
    report = contact.report
    report.section(
        "Launches",
        "Panda, arrays that stay on the device, a recorded graph [µs], by iterations from refill to refill and threads "
        "of a launch per multiprocessor. The first line is what solvers have.",
        *("iterations", "threads", *(f"{size:,} targets" for size in SIZES), "bytes of answers"),
    )
    first = None
    for rounds, threads in LAUNCHES:
        island_launches._thread_kernel.cache_clear()
        own_rounds = patch.object(thread_kernel, "ROUND", wp.constant(rounds))
        with own_rounds, patch.object(waves, "THREADS_PER_SM", threads):
            cells, answers = [], b""
            for size in SIZES:
                solver = contact.solver("panda")
                given = _on(contact.device, reachable(solver.robot, LINKS["panda"], size))
                on_device = solver.on_device()
                out = on_device.solve(*given)
                with wp.ScopedCapture(device=contact.device) as capture:
                    on_device.solve(*given, out=out)
                cells.append(contact.rate(partial(wp.capture_launch, capture.graph), size)[0])
                answers += out["joint_q"].numpy().tobytes()
        first = first or answers
        report.row(rounds, threads, *cells, "the same" if answers == first else "others")
    island_launches._thread_kernel.cache_clear()


def _show_on_device(contact: Contact, batches: list[int]) -> None:
    heads = "batch", "calls", "µs", "targets/s"
    contact.report.section("Arrays that stay on the device", "Panda, `solver.on_device()`, wall time, median.", *heads)
    solver = contact.solver("panda")
    on_device = solver.on_device()
    for batch in batches:
        given = _on(contact.device, reachable(solver.robot, LINKS["panda"], batch))
        call = partial(on_device.solve, *given, out=on_device.solve(*given))
        times = contact.wall_times(call)
        median = float(np.median(times))
        contact.report.row(batch, len(times), f"{1e6 * median:.1f}", f"{batch / median:,.0f}")


def _show_service(contact: Contact) -> None:
    contact.report.section("The service", "`ik-service serve` on the device: 100 Panda targets by JSON.")
    device = str(contact.device)
    with service(None, {"device": device, "robots": "panda"}) as running:
        solver = ik_service.IKSolver(ik_service.load_robot("panda"), LINKS["panda"], device=device)
        problems = reachable(solver.robot, LINKS["panda"], 100)
        positions, orientations = (values[:, 0].tolist() for values in problems.given)
        target = {"link": "panda_hand", "positions": positions, "orientations_xyzw": orientations}
        body, kind = json.dumps({"targets": [target]}).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{running.url}/v1/robots/panda/solve", body, kind)
        with urllib.request.urlopen(request, timeout=SERVICE_S) as reply:
            answer = json.loads(reply.read())
        result = solver.solve(*problems.given)
        same = np.array(answer["joint_q"], np.float32).tobytes() == result.joint_q.tobytes()
        contact.report.claim("bytes of Python over HTTP", "the same" if same else "others", "the same", same)
        where = answer["resolved"]["device"]
        contact.report.claim("device of the service", where, device, where == device)


def _show_sanitizers(contact: Contact) -> None:
    contact.report.section("compute-sanitizer", "Laws of 64 Panda targets by this program under each tool.")
    program = shutil.which("compute-sanitizer")
    if program is None or not contact.device.is_cuda:
        contact.report.line("Not run: there is no compute-sanitizer here, or no card.")
        return
    own = [sys.executable, "-m", "benchmarks.first_contact", "--device", str(contact.device)]
    own += ["--steps", "laws", "--count", "64", "--robots", "panda"]
    words = {tool: [program, "--tool", tool, "--error-exitcode", "9", *own] for tool in TOOLS}
    running = {tool: subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for tool, one in words.items()}
    for tool, process in running.items():
        try:
            said, code = process.communicate(timeout=TOOL_S)[0].strip().splitlines()[-1:], str(process.returncode)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said, code = [f"not done in {TOOL_S:g} s"], "none"
        contact.report.claim(f"{tool}: exit code", f"{code} ({' '.join(said)})", "0", code == "0")


STEPS: dict[str, Callable[[Contact], None]] = {
    "machine": _show_machine,
    "answers": _show_answers,
    "laws": _show_laws,
    "ticks": _show_ticks,
    "rates": _show_rates,
    "robots": _show_robots,
    "loops": steps.show_loops,
    "contacts": steps.show_contacts,
    "company": steps.show_company,
    "threads": steps.show_threads,
    "deadline": steps.show_deadline,
    "first_use": steps.show_first_use,
    "launches": _show_launches,
    "sanitizers": _show_sanitizers,
    "service": _show_service,
}


def show(report: Report, *, device: str, steps: list[str], robots: list[str], count: int, seconds: float) -> None:
    """Take the steps on a device; what fails is reported, and the next one goes on."""
    if not device and not wp.is_cuda_available():
        report.line("There is no GPU here that Warp can use: nothing is measured. --device cpu tries the script.")
        return
    contact = Contact(report, wp.get_device(device or "cuda:0"), count, seconds, tuple(robots))
    for step in steps:
        try:
            STEPS[step](contact)
        except Exception as error:  # noqa: BLE001 - whatever a card or its driver raises; the other steps still count
            traceback.print_exc()
            report.claim(f"step {step}", f"{type(error).__name__}: {error}", "no error", passed=False)


if __name__ == "__main__":
    benchmark(
        "First contact with a GPU",
        show,
        sizes={"device": "", "steps": [*STEPS], "robots": [*LINKS], "count": 20_000, "seconds": 2.0},
        file=Path(__file__).with_name("gpu.md"),
        core=None,
        is_strict=True,
    )

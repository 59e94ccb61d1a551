"""First contact with a GPU: does it run, are the answers right, the same each time, and how fast is what.

python -m benchmarks.first_contact [--device cuda:0] [--steps answers laws ...] [--count 20000] [--seconds 2] [--write]

One command on a machine with a card, without a network. A step that fails is told, and the others go on. --write also
writes gpu.md beside this file. Without a GPU it says so; `--device cpu` runs the kernels for GPUs on one core, thread
after thread: that tries this script and tells nothing of a card. The exit code is 1 where a bound is missed.
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import warp as wp

import ik_service
from benchmarks.gpu import company, gradients, loops_and_contacts, newton, rates, sanitizers
from benchmarks.problems.compared_robots import ALLEGRO_TIPS, PANDA
from benchmarks.report import Report, machine
from ik_service.control import ControlLimits, IKController
from ik_service.solver.compiled import island_launches, thread_kernel, waves

LINKS = {
    "panda": ["panda_hand"],
    "ur5e": ["tool0"],
    "iiwa14": ["iiwa_link_ee"],
    "dual_panda": ["left_panda_hand", "right_panda_hand"],
    "allegro": list(ALLEGRO_TIPS),
    "humanoid": ["left_grasp", "right_grasp", "left_sole", "right_sole", "head"],
}
TOLERANCES = 1e-3, 1e-2  # [m, rad], the solver's own
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


@dataclass(frozen=True)
class Contact:
    """What all steps are given.

    Attributes:
        report: Where figures go.
        device: The device.
        count: Problems of each robot.
        seconds: Time for the calls of each rate [s].
        robots: Names of robots.
    """

    report: Report
    device: wp.Device
    count: int
    seconds: float
    robots: tuple[str, ...] = tuple(LINKS)

    def solver(self, name: str, device: str | None = None) -> ik_service.IKSolver:
        """Return a solver of a built-in robot by the compiled engine, where it can hold the robot."""
        return self.make(ik_service.load_robot(name, collision="ignore"), LINKS[name], device)

    def make(self, robot: ik_service.RobotModel, targets: Any, device: str | None = None) -> ik_service.IKSolver:
        """Return a solver of any robot on the device, or on another."""
        with ExitStack() as stack:
            if device is None and self.device.is_cpu:
                stack.enter_context(patch.object(island_launches, "in_threads", lambda _: True))
            return ik_service.IKSolver(robot, targets, device=device or str(self.device))

    def runs(self) -> loops_and_contacts.Runs:
        """What steps of other modules are given."""
        return loops_and_contacts.Runs(self.report, self.device, self.make, self.count, self.seconds)


def reachable(robot: ik_service.RobotModel, links: list[str], count: int) -> tuple[Any, Any]:
    """Positions [n, links, 3] and orientations [n, links, 4] that random configurations reach, in float32."""
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(7), count), links)
    return poses.positions.astype(np.float32), poses.orientations_xyzw.astype(np.float32)


def is_met(robot: ik_service.RobotModel, links: list[str], joint_q: Any, positions: Any, orientations: Any) -> Any:
    """Whether configurations meet all targets, by float64 kinematics of the host."""
    poses = robot.forward_kinematics(joint_q, links)
    distance = np.linalg.norm(poses.positions - positions, axis=-1)
    unit = orientations / np.linalg.norm(orientations.astype(np.float64), axis=-1, keepdims=True)
    cosine = np.abs((poses.orientations_xyzw * unit).sum(axis=-1))
    angle = 2.0 * np.arccos(np.minimum(cosine, 1.0))
    return ((distance <= TOLERANCES[0]) & (angle <= TOLERANCES[1])).all(axis=1)


def show_machine(contact: Contact) -> None:
    """Report what this is, and the first solve of the process."""
    report, device = contact.report, contact.device
    report.section("The machine", "")
    report.line(f"- {rates.describe(device)}; {machine()}; NumPy {np.__version__}; ik-service {ik_service.__version__}")
    if device.is_cuda:
        runtime: Any = wp._src.context.runtime
        report.line(f"- driver {runtime.driver_version}, toolkit {runtime.toolkit_version}")
        report.line(f"- memory pools {device.is_mempool_enabled}, {device.total_memory / 2**30:.0f} GiB")
    began = time.perf_counter()
    contact.solver("panda").solve(np.array([[0.4, 0.1, 0.5]]))
    took = time.perf_counter() - began
    report.claim(
        "first solve, kernels loaded or compiled", f"{took:.1f} s", f"{FIRST_SOLVE_S:g} s", took < FIRST_SOLVE_S
    )


def show_answers(contact: Contact) -> None:
    """Report how the answers compare with those of the CPU, and judge them in float64."""
    report, false, shares = contact.report, 0, dict[str, float]()
    report.section(
        "Answers",
        "Random reachable targets, beside the same solver on the CPU. 'Same seeds': problems in which the same seeds "
        "win on every island. 'Apart': largest difference of a joint [rad] where the winning attempts took as many "
        "steps, median over the problems. A false success is one that float64 kinematics of the host do not confirm.",
    )
    report.table("robot", "engine", "targets", "success on the CPU", "on the device", "same seeds", "apart", "false")
    for name in contact.robots:
        solver = contact.solver(name)
        positions, orientations = reachable(solver.robot, LINKS[name], contact.count)
        result, cpu = (one.solve(positions, orientations) for one in (solver, contact.solver(name, "cpu")))
        same = (result.islands.seed_index == cpu.islands.seed_index).all(axis=1)
        alike = same & (result.islands.iterations == cpu.islands.iterations).all(axis=1) & cpu.success
        apart = np.abs(result.joint_q - cpu.joint_q).max(axis=1)[alike]
        wrong = int(
            (result.success & ~is_met(solver.robot, LINKS[name], result.joint_q, positions, orientations)).sum()
        )
        false += wrong
        cells = f"{cpu.success.mean():.2%}", f"{result.success.mean():.2%}", f"{same.mean():.2%}"
        report.row(name, solver.engine, contact.count, *cells, f"{np.median(apart):.1e}", wrong)
        if solver.engine == "compiled":
            shares[name] = float(same.mean())
    report.line("")
    for name, share in shares.items():
        report.claim(f"same seeds, {name}", f"{share:.2%}", f"{SAME_SEEDS:.0%}", share >= SAME_SEEDS)
    report.claim("false successes", f"{false}", "none", false == 0)


def show_laws(contact: Contact) -> None:
    """Report whether answers depend on anything but their own problem."""
    report = contact.report
    report.section("Laws", "Bytes of all columns of the result: the same problems in other company.")
    for name in contact.robots:
        solver = contact.solver(name)
        positions, orientations = reachable(solver.robot, LINKS[name], contact.count)
        result = solver.solve(positions, orientations)
        order = np.random.default_rng(1).permutation(contact.count)
        few = order[:ALONE]
        others: dict[str, list[tuple[Any, ik_service.IKResult]]] = {
            "again, recorded": [(slice(None), solver.solve(positions, orientations)) for _ in range(4)],
            "permuted": [(order, solver.solve(positions[order], orientations[order]))],
            "alone": [([k], solver.solve(positions[[k]], orientations[[k]])) for k in few],
            "by another solver": [(slice(None), contact.solver(name).solve(positions, orientations))],
        }
        wrong = [what for what, pairs in others.items() if not all(_same(result, *pair) for pair in pairs)]
        if solver.engine == "compiled":
            columns = solver.on_device().solve(*_on(contact.device, positions, orientations))
            if any(column.numpy().tobytes() != getattr(result, own).tobytes() for own, column in columns.items()):
                wrong.append("arrays that stay on the device")
            if contact.device.is_cuda and importlib.util.find_spec("torch"):
                torch = importlib.import_module("torch")
                tensors = (torch.tensor(one, device=str(contact.device)) for one in (positions, orientations))
                given = solver.on_device().solve(*tensors)["joint_q"]
                if torch.from_dlpack(given).cpu().numpy().tobytes() != result.joint_q.tobytes():
                    wrong.append("tensors of PyTorch")
        report.claim(f"the same bytes, {name}", ", ".join(wrong) or "in all", "in all", not wrong)


def _same(result: ik_service.IKResult, problems: Any, other: ik_service.IKResult) -> bool:
    names = ("joint_q", "success", "status", "position_error", "orientation_error", "cost", "iterations", "seed_index")
    return all(getattr(result, name)[problems].tobytes() == getattr(other, name).tobytes() for name in names)


def _on(device: wp.Device, *values: Any) -> "list[wp.array[Any]]":
    return [wp.array(one, dtype=wp.float32, device=device) for one in values]


def show_ticks(contact: Contact) -> None:
    """Report how a controller's commands compare with those on the CPU, and how long a tick takes."""
    report, commands, times = contact.report, [], np.zeros(0)
    robot = ik_service.load_robot("panda", collision="ignore")
    report.section("Ticks", f"A Panda's hand on a circle of 0.1 m, {TICKS} ticks of {DT * 1e3:g} ms, one robot.")
    for device in ("cpu", str(contact.device)):
        controller = IKController(robot, ["panda_hand"], limits=ControlLimits(acceleration=10.0), device=device)
        start = robot.mid_joint_q
        pose = robot.forward_kinematics(start, ["panda_hand"])
        controller.reset(start)
        target, took, found = np.concatenate([pose.positions[0, 0], pose.orientations_xyzw[0, 0]]), [], []
        for k in range(TICKS):
            angle = 2.0 * np.pi * k / TICKS
            moved = target + np.concatenate([0.1 * np.array([np.cos(angle) - 1.0, np.sin(angle), 0.0]), np.zeros(4)])
            began = time.perf_counter()
            result = controller.step(moved, dt=DT)
            took.append(time.perf_counter() - began)
            found.append(result.joint_q[0].copy())
        commands.append(np.array(found))
        times = 1e6 * np.array(took[10:])
    apart = float(np.abs(commands[1] - commands[0]).max())
    report.claim("commands beside the CPU's", f"{apart:.1e} rad", f"{SAME_COMMANDS:g}", apart <= SAME_COMMANDS)
    report.line(f"- a tick: {np.median(times):.0f} µs median, {np.percentile(times, 99):.0f} µs p99")


def show_rates(contact: Contact) -> None:
    """Report targets per second, latency, arithmetic and a peer, as `benchmarks.gpu.rates` does."""
    batches = [batch for batch in rates.BATCHES if batch <= 5 * contact.count]
    problems = PANDA.problems(max(batches), random_seed=0)
    per_batch = rates.show_batches(contact.report, contact.device, problems, batches, contact.seconds)
    show_on_device(contact, batches)
    rates.show_latency(contact.report, contact.device, problems, contact.seconds)
    rates.show_arithmetic(contact.report, contact.device, problems, None, contact.seconds)
    few = {batch: rate for batch, rate in per_batch.items() if batch in rates.PYROKI_BATCHES}
    rates.show_pyroki(contact.report, problems, few)
    newton.show_newton(contact.report, contact.device, problems, per_batch)
    gradients.show_gradients(contact.report, contact.device, problems, contact.seconds)


def show_robots(contact: Contact) -> None:
    """Report targets per second of every robot."""
    report = contact.report
    report.section(
        "Robots",
        "The public call, NumPy arrays in and out, wall time, median. False: as above. All targets are reachable.",
    )
    report.table("robot", "engine", "targets", "µs", "targets/s", "success", "false")
    for name in contact.robots:
        solver = contact.solver(name)
        for count in (1, 1000, contact.count):
            positions, orientations = reachable(solver.robot, LINKS[name], count)
            times = rates.timed(contact.device, partial(solver.solve, positions, orientations), contact.seconds)
            median, result = float(np.median(times)), solver.solve(positions, orientations)
            wrong = result.success & ~is_met(solver.robot, LINKS[name], result.joint_q, positions, orientations)
            cells = f"{1e6 * median:.0f}", f"{count / median:,.0f}", f"{result.success.mean():.2%}", int(wrong.sum())
            report.row(name, solver.engine, count, *cells)


def show_launches(contact: Contact) -> None:
    """Report how long a solve takes by what its launches are made of; kernels are compiled for it."""
    report = contact.report
    report.section(
        "Launches",
        "Panda, arrays that stay on the device, a recorded graph [µs], by iterations from refill to refill and threads "
        "of a launch per multiprocessor. The first line is what solvers have.",
    )
    report.table("iterations", "threads", *(f"{size:,} targets" for size in SIZES), "bytes of answers")
    first = None
    for rounds, threads in LAUNCHES:
        island_launches._thread_kernel.cache_clear()
        with (
            patch.object(thread_kernel, "ROUND", wp.constant(rounds)),
            patch.object(waves, "THREADS_PER_SM", threads),
        ):
            cells, answers = [], b""
            for size in SIZES:
                solver = contact.solver("panda")
                given = _on(contact.device, *reachable(solver.robot, LINKS["panda"], size))
                on_device = solver.on_device()
                out = on_device.solve(*given)
                with wp.ScopedCapture(device=contact.device) as capture:
                    on_device.solve(*given, out=out)
                times = rates.timed(contact.device, partial(wp.capture_launch, capture.graph), contact.seconds)
                cells.append(f"{1e6 * float(np.median(times)):.0f}")
                answers += out["joint_q"].numpy().tobytes()
        first = first or answers
        report.row(rounds, threads, *cells, "the same" if answers == first else "others")
    island_launches._thread_kernel.cache_clear()


def show_on_device(contact: Contact, batches: list[int]) -> None:
    """Report how long solves take whose arrays stay on the device."""
    contact.report.section("Arrays that stay on the device", "Panda, `solver.on_device()`, wall time, median.")
    contact.report.table("batch", "calls", "µs", "targets/s")
    solver = contact.solver("panda")
    on_device = solver.on_device()
    for batch in batches:
        given = _on(contact.device, *reachable(solver.robot, LINKS["panda"], batch))
        call = partial(on_device.solve, *given, out=on_device.solve(*given))
        times = rates.timed(contact.device, call, contact.seconds)
        median = float(np.median(times))
        contact.report.row(batch, len(times), f"{1e6 * median:.1f}", f"{batch / median:,.0f}")


def show_service(contact: Contact) -> None:
    """Report whether the service answers with the bytes of Python."""
    contact.report.section("The service", "`ik-service serve` on the device: 100 Panda targets by JSON.")
    command = [sys.executable, "-c", "from ik_service.cli import main; main()", "serve", "--port", "0"]
    command += ["--device", str(contact.device), "--log-format", "json", "--robots", "panda"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert server.stderr is not None
        line = next((line for line in server.stderr if "Ready at " in line), "")
        url = line.split("Ready at ")[1].split(",")[0]
        solver = ik_service.IKSolver(ik_service.load_robot("panda"), LINKS["panda"], device=str(contact.device))
        positions, orientations = reachable(solver.robot, LINKS["panda"], 100)
        target = {"link": "panda_hand", "positions": positions[:, 0].tolist()}
        target["orientations_xyzw"] = orientations[:, 0].tolist()
        request = urllib.request.Request(
            f"{url}/v1/robots/panda/solve",
            json.dumps({"targets": [target]}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SERVICE_S) as reply:
            answer = json.loads(reply.read())
        result = solver.solve(positions, orientations)
        same = np.array(answer["joint_q"], np.float32).tobytes() == result.joint_q.tobytes()
        contact.report.claim("bytes of Python over HTTP", "the same" if same else "others", "the same", same)
        where = answer["resolved"]["device"]
        contact.report.claim("device of the service", where, str(contact.device), where == str(contact.device))
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=SERVICE_S)


STEPS: dict[str, Callable[[Contact], None]] = {
    "machine": show_machine,
    "answers": show_answers,
    "laws": show_laws,
    "ticks": show_ticks,
    "rates": show_rates,
    "robots": show_robots,
    "loops": lambda contact: loops_and_contacts.show_loops(contact.runs()),
    "contacts": lambda contact: loops_and_contacts.show_contacts(contact.runs()),
    "company": lambda contact: company.show_company(contact.report, contact.device, 4.0 * contact.seconds),
    "threads": lambda contact: company.show_threads(contact.report, contact.device, 5 * contact.count, contact.seconds),
    "deadline": lambda contact: company.show_deadline(contact.report, contact.device, min(1000, contact.count)),
    "first_use": lambda contact: company.show_first_use(contact.report, contact.device),
    "launches": show_launches,
    "sanitizers": lambda contact: sanitizers.show_sanitizers(contact.report, contact.device),
    "service": show_service,
}


def show(contact: Contact, steps: list[str]) -> None:
    """Take steps; what fails is reported, and the next one goes on."""
    for step in steps:
        try:
            STEPS[step](contact)
        except Exception as error:  # noqa: BLE001 - whatever a card or its driver raises; the other steps still count
            traceback.print_exc()
            contact.report.claim(f"step {step}", f"{type(error).__name__}: {error}", "no error", passed=False)


def main() -> int:
    """Take the steps and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="cuda:0 and so on; cpu tries the script")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP")
    parser.add_argument("--robots", nargs="+", choices=LINKS, default=list(LINKS), metavar="ROBOT")
    parser.add_argument("--count", type=int, default=20_000, help="targets of each robot")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for the calls of each rate")
    parser.add_argument("--write", action="store_true", help="write gpu.md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    if arguments.device is None and not wp.is_cuda_available():
        print("There is no GPU here that Warp can use, so there is nothing to meet. --device cpu tries the script.")
        return 0
    device = wp.get_device(arguments.device or "cuda:0")
    report = Report("First contact with a GPU")
    show(Contact(report, device, arguments.count, arguments.seconds, tuple(arguments.robots)), arguments.steps)
    report.line("")
    report.line(f"Bounds missed: {', '.join(report.missed) or 'none'}.")
    if arguments.write:
        report.save(Path(__file__).with_name("gpu.md"))
    return int(bool(report.missed))


if __name__ == "__main__":
    sys.exit(main())

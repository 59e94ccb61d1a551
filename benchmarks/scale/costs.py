"""What things cost on one core: targets, requests, clients, ticks, robots of one's own."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.control.ticks import make_controller, targets_of
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.problems.tick_paths import panda_paths
from benchmarks.service.load import LoadPlan, LoadReport, run_load
from benchmarks.service.service_process import ServiceProcess, service
from benchmarks.service.stream import TICKS, follow
from ik_service.client import Client

SERVER_CORE, CLIENT_CORE = 0, 1
LINK = "panda_hand"
KEY = "scale-0123456789abcdef0123456789abcdef"
PANDA = Path(ik_service.__file__).parent / "robots" / "builtin" / "panda.urdf"


@dataclass(frozen=True)
class Line:
    """A cost that grows in proportion: so much each time, and so much for each thing.

    Attributes:
        counts: Numbers of things.
        seconds: CPU time for so many [s].
        each_time: The fixed part [s].
        per_thing: The part for each [s].
    """

    counts: tuple[int, ...]
    seconds: tuple[float, ...]
    each_time: float
    per_thing: float

    @classmethod
    def through(cls, counts: tuple[int, ...], seconds: list[float]) -> "Line":
        """Return the line of least relative squares, with no part below 0."""
        n, t = np.array(counts, dtype=float), np.array(seconds)
        (fixed, each), *_ = np.linalg.lstsq(np.stack([1.0 / t, n / t], axis=1), np.ones(len(n)), rcond=None)
        return cls(counts, tuple(seconds), max(0.0, float(fixed)), float(each))

    def at(self, count: float) -> float:
        """CPU time of the line for so many things [s]."""
        return self.each_time + self.per_thing * count


class CountingClient(Client):
    """A client that counts the bytes of bodies.

    Attributes:
        bytes_in: Of replies.
        bytes_out: Of requests.
    """

    bytes_in = bytes_out = 0

    async def _send(self, *request: Any, **fields: Any) -> Any:
        reply = await super()._send(*request, **fields)
        self.bytes_out += len(reply.request.content)
        self.bytes_in += len(reply.content)
        return reply


def repeated(call: Callable[[], object], budget_s: float, clock: Callable[[], float]) -> float:
    """Return the CPU time of a call [s], the mean over as many as take the time of the budget."""
    call()
    started, count, end = clock(), 0, time.perf_counter() + budget_s
    while time.perf_counter() < end:
        call()
        count += 1
    return (clock() - started) / count


def embedded(counts: tuple[int, ...], budget_s: float) -> Line:
    """What `IKSolver.solve` costs by the number of targets."""
    robot = ik_service.load_robot("panda", collision="ignore")
    solver = ik_service.IKSolver(robot, [LINK], device="cpu")
    os.sched_setaffinity(0, {SERVER_CORE})
    found = []
    for count in counts:
        problems = PoseProblems.random(robot, LINK, count, 0)
        call = solver_call(solver, problems)
        found.append(repeated(call, budget_s, time.process_time))
    os.sched_setaffinity(0, {CLIENT_CORE})
    return Line.through(counts, found)


def solver_call(solver: ik_service.IKSolver, problems: PoseProblems) -> Callable[[], object]:
    """Return a function that solves them."""
    return lambda: solver.solve(problems.positions, problems.orientations_xyzw)


def requests(
    running: ServiceProcess, encoding: str, counts: tuple[int, ...], budget_s: float
) -> tuple[Line, float, float]:
    """What a request costs the service by its targets, and the bytes of a target in and out."""
    robot, found = ik_service.load_robot("panda", collision="ignore"), []
    client = CountingClient(running.url, encoding=encoding)
    with client:
        for count in counts:
            problems = PoseProblems.random(robot, LINK, count, 0)
            columns = {"positions": problems.positions, "orientations_xyzw": problems.orientations_xyzw}
            call = request_call(client, columns)
            found.append(repeated(call, budget_s, lambda: running.cpu_seconds))
        client.bytes_in = client.bytes_out = 0
        call()
        sizes = client.bytes_out / counts[-1], client.bytes_in / counts[-1]
    return Line.through(counts, found), *sizes


def request_call(client: Client, columns: Any) -> Callable[[], object]:
    """Return a function that asks for them."""
    return lambda: client.solve("panda", link=LINK, **columns)


def clients(running: ServiceProcess, count: int, problems: int, seconds: float) -> tuple[LoadReport, float]:
    """So many clients, each of which sends the next request once it is answered; and the CPU time of a request [s]."""
    plan = LoadPlan(
        url=running.url, link=LINK, clients=count, problems=problems, duration_s=min(1.0, seconds), warm_up_s=0.0
    )
    run_load(plan)
    before = running.cpu_seconds
    load = run_load(replace(plan, duration_s=seconds))
    assert set(load.statuses) == {200}, load.statuses
    return load, (running.cpu_seconds - before) / load.statuses[200]


def ticks(counts: tuple[int, ...], acceleration: Any) -> Line:
    """What a tick of a controller costs by the number of its Pandas."""
    os.sched_setaffinity(0, {SERVER_CORE})
    robot = ik_service.load_robot("panda", collision="ignore")
    path = panda_paths(robot, 10_000)["circle"]
    found = []
    for count in counts:
        controller = make_controller(robot, path, acceleration, robots=count)
        targets = targets_of(path, count, 2000)
        controller.reset(path.joint_q)
        times = [timed(controller, target) for target in targets]
        found.append(statistics.median(times[len(times) // 2 :]))
    os.sched_setaffinity(0, {CLIENT_CORE})
    return Line.through(counts, found)


def timed(controller: Any, target: NDArray[np.float64]) -> float:
    """CPU time of a tick [s]."""
    begun = time.thread_time_ns()
    controller.step(target)
    return 1e-9 * (time.thread_time_ns() - begun)


def stream_tick(running: ServiceProcess) -> float:
    """CPU time of the service for a tick of a stream [s]."""
    before = running.cpu_seconds
    follow(running, "msgpack")
    return (running.cpu_seconds - before) / TICKS


@dataclass(frozen=True)
class RobotCosts:
    """What a robot of one's own costs a service.

    Attributes:
        compile_s: CPU time to its first answer, once per catalog of kernels [s].
        again_s: CPU time to its first answer after a restart [s].
        turn_s: CPU time of an answer when more robots take turns than solvers are kept [s].
        kept_s: CPU time of an answer when its solver is kept [s].
        memory_mib: Memory with its solver kept [MiB].
        disk_kib: Kernels on disk [KiB].
    """

    compile_s: float
    again_s: float
    turn_s: float
    kept_s: float
    memory_mib: float
    disk_kib: float


def own_robots(count: int) -> RobotCosts:
    """What robots cost that are put at run time: Pandas with arms of different lengths."""
    text = PANDA.read_text()
    texts = {f"panda{k}": text.replace("0.316", f"{0.316 + 0.001 * k:.3f}") for k in range(1, count + 1)}
    with tempfile.TemporaryDirectory() as folder:
        kernels = Path(folder, "kernels")
        settings = {
            "catalog_dir": folder + "/robots",
            "uploads_enabled": True,
            "api_keys": f"lab:{KEY}",
            "robots": "panda",
            "warm_up_robots": "panda",
            "solvers": count + 1,
        }
        os.environ["WARP_CACHE_PATH"], kept = str(kernels), os.environ.get("WARP_CACHE_PATH")
        try:
            with service(SERVER_CORE, settings) as running, Client(running.url, api_key=KEY) as client:
                before, disk = running.memory_mib, size_of(kernels)
                for name, urdf in texts.items():
                    client.put_robot(name, urdf)
                compiled = cpu_of(running, lambda: visit(client, texts)) / count
                memory = (running.memory_mib - before) / count
                grown = (size_of(kernels) - disk) / count
                kept_solver = cpu_of(running, lambda: [visit(client, texts) for _ in range(5)]) / (5 * count)
            with (
                service(SERVER_CORE, settings | {"solvers": 1}) as running,
                Client(running.url, api_key=KEY) as client,
            ):
                again = cpu_of(running, lambda: visit(client, texts)) / count
                turns = cpu_of(running, lambda: [visit(client, texts) for _ in range(3)]) / (3 * count)
        finally:
            del os.environ["WARP_CACHE_PATH"]
            if kept is not None:
                os.environ["WARP_CACHE_PATH"] = kept
    return RobotCosts(compiled, again, turns, kept_solver, memory, grown / 1024)


def visit(client: Client, names: Any) -> None:
    """Ask for one target of each robot."""
    for name in names:
        answer = client.solve(name, [[0.45, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]], link=LINK)
        assert answer.success.all(), name


def cpu_of(running: ServiceProcess, call: Callable[[], object]) -> float:
    """CPU time of the service during a call, compilers that it has started and that have ended included [s]."""
    before = running.cpu_seconds_with_children
    call()
    return running.cpu_seconds_with_children - before


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

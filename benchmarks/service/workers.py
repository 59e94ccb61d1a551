"""One and more workers of a service: answers per second, and CPU time per answer.

python -m benchmarks.service.workers [--workers 1 2 ...] [--loads N] [--device D] [--seconds S] [--rounds N] [--write]

Services of one process and of several workers, in turns; OpenBLAS has one thread in all of them, whose waiting would be
counted otherwise. The load is made by other processes of the same machine, so that answers per second tell something
only where there are more free cores than processes; the CPU time per answer tells something anyway. The number of
processes that send is to be a divisor of the clients. --write keeps the figures in workers.md beside this file.
"""

import argparse
import http.client
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgpack
import warp as wp

from benchmarks.report import Report, machine
from benchmarks.service.load import LoadPlan, run_load
from benchmarks.service.service import LINK, MANY, free_problems
from benchmarks.service.service_process import TICKS, service
from ik_service.packed_columns import packed

CLIENTS, MANY_CLIENTS = 64, 8  # of all processes of the load together
MSGPACK = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
RATIO_LEAST = 1.8
"""Answers per second of two workers over those of one that are asked for."""


@dataclass
class Figures:
    """Measurements, one for each round.

    Attributes:
        per_second: Answers per second.
        cpu_ms: CPU time of all workers per answer [ms].
        shares: Smallest share of the workers' CPU time that one of them has.
    """

    per_second: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure each time")
    parser.add_argument("--rounds", type=int, default=3, help="how often, in turns")
    parser.add_argument("--write", action="store_true", help="keep the figures in workers.md")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="workers of the services")
    parser.add_argument("--loads", type=int, default=1, help="processes that send requests")
    parser.add_argument("--device", default="cpu", help="what solves")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the services
    report = Report("Workers, one and more")
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    report.line(
        f"\n{machine()}; {cores} cores for the service and the load together; before, {load:.1f} threads "
        f"wanted to run on them. Medians of {arguments.rounds} rounds. Solved on {described(arguments.device)}. "
        f"Requests are sent by {arguments.loads} {'process' if arguments.loads == 1 else 'processes'}."
    )
    problems = free_problems(MANY, 0)
    columns = {"positions": packed(problems.positions), "orientations_xyzw": packed(problems.orientations_xyzw)}
    many = msgpack.packb({"targets": [{"link": LINK, **columns}]})
    single, large = ({workers: Figures() for workers in arguments.workers} for _ in range(2))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.loads, mp_context=context) as processes:
        for _ in range(arguments.rounds):
            for workers in arguments.workers:
                with service(None, {"workers": workers, "access_log": False}, device=arguments.device) as running:
                    for figures, ask in ((single, ask_single), (large, partial(ask_many, many))):
                        send = partial(ask, running.url, arguments.seconds)
                        measure(figures[workers], running.pid, partial(ask_all, processes, arguments.loads, send))
    show(report, f"Single targets as JSON, {CLIENTS} clients", single)
    show(report, f"{MANY} targets by MessagePack, {MANY_CLIENTS} clients", large)
    if arguments.write:
        report.save(Path(__file__).with_suffix(".md"))


def described(device: str) -> str:
    """Return the name of a device."""
    return "the CPU" if device == "cpu" else f"{device}, an {wp.get_device(device).name}"


def show(report: Report, title: str, figures: dict[int, Figures]) -> None:
    """Add a table."""
    report.section(title, "CPU time of all workers per answer.")
    report.table("workers", "answers/s", "over the first", "CPU [ms]", "least share of a worker")
    medians = {workers: statistics.median(own.per_second) for workers, own in figures.items()}
    first, *others = medians
    for workers, own in figures.items():
        cpu, share = statistics.median(own.cpu_ms), statistics.median(own.shares)
        ratio = medians[workers] / medians[first]
        report.row(workers, f"{medians[workers]:.0f}", f"{ratio:.2f}", f"{cpu:.3f}", f"{share:.2f}")
    report.line("")
    if others:
        ratio = medians[others[0]] / medians[first]
        what = f"answers per second, {others[0]} workers over {first}"
        report.claim(what, f"{ratio:.2f}", f"{RATIO_LEAST}", ratio >= RATIO_LEAST)


def measure(figures: Figures, pid: int, ask: Callable[[], tuple[int, float]]) -> None:
    """Add a measurement of a service; the first answers, which make batches and buffers grow, do not count."""
    ask()
    before = cpu_seconds(pid)
    answers, seconds = ask()
    spent = [after - earlier for after, earlier in zip(cpu_seconds(pid), before, strict=True)]
    figures.per_second.append(answers / seconds)
    figures.cpu_ms.append(1e3 * sum(spent) / answers)
    figures.shares.append(min(spent) / sum(spent))


def cpu_seconds(pid: int) -> list[float]:
    """CPU time of the processes of a service that serve [s]: of the only one, or of each worker."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    started = [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    serving = started if len(started) > 1 else [pid]  # one of its own compiles
    times = []
    for process in serving:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        times.append((int(fields[11]) + int(fields[12])) / TICKS)
    return times


def ask_all(processes: Executor, count: int, ask: Callable[[int], tuple[int, float]]) -> tuple[int, float]:
    """Send requests from several processes at once; return the number of answers and the longest time [s]."""
    answers, seconds = zip(*processes.map(ask, [count] * count), strict=True)
    return sum(answers), max(seconds)


def ask_single(url: str, seconds: float, loads: int) -> tuple[int, float]:
    """Send single targets, with this process's share of the clients; return the number of answers and the time [s]."""
    clients = max(1, CLIENTS // loads)
    load = run_load(LoadPlan(url=url, link=LINK, warm_up_s=0.0, clients=clients, duration_s=seconds))
    return load.statuses[200], load.seconds


def ask_many(body: bytes, url: str, seconds: float, loads: int) -> tuple[int, float]:
    """Send requests of many targets alike."""
    started, clients = time.perf_counter(), max(1, MANY_CLIENTS // loads)
    address = urlsplit(url)

    def ask(_: int) -> int:
        connection, answers = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60.0), 0
        while time.perf_counter() < started + seconds:
            connection.request("POST", "/v1/robots/panda/solve", body, MSGPACK)
            reply = connection.getresponse()
            reply.read()
            if reply.status != 200:
                raise RuntimeError(f"A request was answered by {reply.status}.")
            answers += 1
        connection.close()
        return answers

    with ThreadPoolExecutor(clients) as threads:
        answers = sum(threads.map(ask, range(clients)))
    return answers, time.perf_counter() - started


if __name__ == "__main__":
    main()

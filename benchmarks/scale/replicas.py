"""Replicas under Ray beside the plain service: answers per second, latency, memory, start, and the loss of a replica.

python -m benchmarks.scale.replicas [--full] [--write]

Everything runs on this machine, the load too, and shares its cores; only what is side by side in a table compares.
--write keeps the figures in replicas.md beside this file.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import warp as wp

from benchmarks.report import Report, machine
from benchmarks.scale.ray_cluster import HAPROXY, KEY, RayCluster, memory_mib, ray_cluster
from benchmarks.service.load import LoadPlan, LoadReport, run_load
from benchmarks.service.service_process import service

HERE = Path(__file__).parent
SMALL, LARGE = 1, 1000  # targets of a request
CLIENTS = {SMALL: 64, LARGE: 8}
KILL_CLIENTS, KILL_AFTER_S = 16, 3.0
DEADLINE_S = 60.0  # of the service
RECOVERY_S = 30.0


@dataclass(frozen=True)
class Sizes:
    """How long to measure [s]."""

    load_s: float
    kill_s: float


@dataclass(frozen=True)
class Case:
    """A way to serve: how many replicas, 0 for the plain service, and behind which proxy."""

    name: str
    replicas: int
    has_haproxy: bool = False


@dataclass(frozen=True)
class Figures:
    """What was measured of a case; times [s], memory [MiB]."""

    start_s: float
    memory_mib: float
    loads: dict[int, LoadReport]
    loss: "Loss | None"


@dataclass(frozen=True)
class Loss:
    """What the death of one of two replicas cost under load."""

    back_s: float
    load: LoadReport


QUICK, FULL = Sizes(6.0, 20.0), Sizes(15.0, 30.0)
CASES = (
    Case("plain service", 0),
    Case("Ray, its own proxy, 1 replica", 1),
    Case("Ray, its own proxy, 2 replicas", 2),
    Case("Ray, HAProxy, 1 replica", 1, has_haproxy=True),
    Case("Ray, HAProxy, 2 replicas", 2, has_haproxy=True),
)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="measure everything for as long as it takes")
    parser.add_argument("--write", action="store_true", help="keep the figures in replicas.md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    sizes = FULL if arguments.full else QUICK
    report = report_of({case: measure(case, sizes) for case in CASES})
    if arguments.write:
        report.save(HERE / "replicas.md")


def measure(case: Case, sizes: Sizes) -> Figures:
    """Start a case, put it under load, and end it."""
    started = time.monotonic()
    if not case.replicas:
        with service(None, {"access_log": False, "api_keys": f"lab:{KEY}"}) as plain:
            start_s = time.monotonic() - started
            loads = measure_loads(plain.url, sizes)
            return Figures(start_s, memory_mib(plain.pid), loads, None)
    variables = {"IK_SERVICE_ACCESS_LOG": "false", **(HAPROXY if case.has_haproxy else {})}
    with ray_cluster(case.replicas, variables) as cluster:
        start_s = time.monotonic() - started
        loads = measure_loads(cluster.url, sizes)
        memory = cluster.memory_mib()
        return Figures(start_s, memory, loads, measure_loss(cluster, sizes) if case.replicas > 1 else None)


def measure_loads(url: str, sizes: Sizes) -> dict[int, LoadReport]:
    """Put a service under load, by targets of a request."""
    return {
        problems: run_load(LoadPlan(url=url, problems=problems, clients=clients, duration_s=sizes.load_s, api_key=KEY))
        for problems, clients in CLIENTS.items()
    }


def measure_loss(cluster: RayCluster, sizes: Sizes) -> Loss:
    """Kill a replica under load."""
    back_s: list[float] = []

    def kill() -> None:
        time.sleep(KILL_AFTER_S)
        victim = cluster.ready_replicas()[0]
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: len({*cluster.ready_replicas()} - {victim}) == 2, sizes.kill_s)
        back_s.append(time.monotonic() - killed)

    killing = threading.Thread(target=kill)
    killing.start()
    plan = LoadPlan(url=cluster.url, clients=KILL_CLIENTS, duration_s=sizes.kill_s, warm_up_s=0.0, api_key=KEY)
    load = run_load(plan)
    killing.join()
    return Loss(back_s[0], load)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, or for as long as it may take."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


def report_of(figures: dict[Case, Figures]) -> Report:
    """Tell what was measured."""
    report = Report("Replicas under Ray")
    report.line(f"\n{machine()}, {os.cpu_count()} cores for everything, the load included. Times in ms but where said.")
    for problems, clients in CLIENTS.items():
        targets = "Single targets" if problems == 1 else f"{problems} targets in each request"
        report.section(f"{targets}, {clients} clients", "JSON; each client sends the next request at once.")
        report.table("served by", "answers/s", "targets/s", "p50", "p99", "other answers")
        for case, found in figures.items():
            load = found.loads[problems]
            times, rate = load.quantiles(), load.answers_per_second
            others = sum(count for status, count in load.statuses.items() if status != 200)
            report.row(case.name, f"{rate:.0f}", f"{rate * problems:.0f}", times["p50"], times["p99"], others)
    report.section("Start and memory", "Until the first solve of every replica; kernels are there. Shared memory once.")
    report.table("served by", "start [s]", "memory [MiB]")
    for case, found in figures.items():
        report.row(case.name, f"{found.start_s:.1f}", f"{found.memory_mib:.0f}")
    explanation = f"One of two is killed under the load of {KILL_CLIENTS} clients. 0 is a connection that was closed."
    report.section("Loss of a replica", explanation)
    for case, found in figures.items():
        if found.loss is not None:
            show_loss(report, case, found.loss)
    return report


def show_loss(report: Report, case: Case, loss: Loss) -> None:
    """Tell what a loss cost."""
    others = {status: count for status, count in sorted(loss.load.statuses.items()) if status != 200}
    answered, longest_s = loss.load.statuses[200], loss.load.latency_ms[-1] / 1e3
    report.line(f"- {case.name}: {answered} answers, others by status: {others or 'none'}")
    report.claim("longest answer", f"{longest_s:.2f} s", f"{DEADLINE_S:.0f} s", longest_s < DEADLINE_S)
    report.claim("back to two", f"{loss.back_s:.1f} s", f"{RECOVERY_S:.0f} s", loss.back_s < RECOVERY_S)


if __name__ == "__main__":
    main()

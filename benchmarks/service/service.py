"""The service under load on one core of this machine: batching, codecs, small requests beside a large one, overload.

python -m benchmarks.service.service [--full] [--write]

The service runs in a process of its own on one core, the load comes from another. Without --full it measures little;
--write keeps the figures in service.md beside this file.
"""

import argparse
import dataclasses
import multiprocessing
import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report, machine
from benchmarks.service.load import LoadPlan, LoadReport, run_load
from benchmarks.service.service_process import ServiceProcess, service
from ik_service.client import Client

HERE = Path(__file__).parent
SERVER_CORE, LOAD_CORE = 0, 1
LINK = "panda_hand"
MANY = 10_000
OVERLOAD_CLIENTS = 1500


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How long to measure [s], and how often."""

    load_s: float
    overload_s: float
    repeats: int
    options: dict[str, object] = dataclasses.field(default_factory=dict)  # of the solves


QUICK, FULL = Sizes(3.0, 5.0, 3), Sizes(15.0, 60.0, 11)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="measure everything for as long as it takes")
    parser.add_argument("--write", action="store_true", help="keep the figures in service.md")
    parser.add_argument("--collision", choices=("self", "off"), default="self", help="check of the solves")
    arguments = parser.parse_args()
    sizes = dataclasses.replace(FULL if arguments.full else QUICK, options={"collision": arguments.collision})
    os.sched_setaffinity(0, {LOAD_CORE})
    wp.config.log_level = wp.LOG_ERROR
    report = Report("The service under load")
    checked = "checked for collision with itself" if arguments.collision == "self" else "not checked for collision"
    report.line(f"\n{machine()}; the service on one core, the load on another. Times in ms. Answers are {checked}.")
    show_batching(report, sizes)
    show_codecs(report, sizes)
    show_fairness(report, sizes)
    show_overload(report, sizes)
    if arguments.write:
        report.save(HERE / "service.md")
    raise SystemExit(1 if report.missed else 0)


def show_batching(report: Report, sizes: Sizes) -> None:
    """Report single targets of 64 clients, with batching and without."""
    report.section("Single targets, 64 clients, keep-alive", "JSON; each client sends the next target at once.")
    report.table("batching", "answers/s", "p50", "p99", "problems per launch", "CPU of the service per answer")
    answered = {}
    for name, settings in (("on", {}), ("off", {"batch_problems": 1})):
        with service(SERVER_CORE, settings) as running:
            load, cpu = loaded(running, duration_s=sizes.load_s, options=sizes.options)
        answered[name] = load
        quantiles = load.quantiles()
        cost = f"{1e3 * cpu / load.statuses[200]:.3f}"
        launch = "" if load.problems_per_launch is None else f"{load.problems_per_launch:.1f}"
        report.row(name, f"{load.answers_per_second:.0f}", quantiles["p50"], quantiles["p99"], launch, cost)
    on = answered["on"]
    report.line("")
    report.claim("answers per second", f"{on.answers_per_second:.0f}", "1500", on.answers_per_second >= 1500)
    report.claim("p99", f"{on.quantiles()['p99']} ms", "100 ms", on.quantiles()["p99"] < 100.0)


def loaded(running: ServiceProcess, **plan: Any) -> tuple[LoadReport, float]:
    """Return how the service bore a load, and its CPU time meanwhile [s]; the warm-up counts for neither."""
    run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, **plan | {"duration_s": 2.0}))
    before = running.cpu_seconds
    load = run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, **plan))
    return load, running.cpu_seconds - before


def show_codecs(report: Report, sizes: Sizes) -> None:
    """Report what the service adds to the solver's own time."""
    report.section(
        f"{MANY} Panda targets in one request",
        "CPU time of the service's process beyond that of the solver alone, for the same targets on the same core.",
    )
    problems = free_problems(MANY, 0)
    alone = solver_cpu_ms(problems, sizes)
    report.table("format", "solver alone", "whole request", "added")
    with service(SERVER_CORE) as running:
        for name, bound in (("msgpack", 5.0), ("json", 40.0)):
            whole = request_cpu_ms(running, problems, name, sizes)
            report.row(name, f"{alone:.2f}", f"{whole:.2f}", f"{whole - alone:.2f}")
            report.claim(f"added by {name}", f"{whole - alone:.2f} ms", f"{bound:g} ms", whole - alone <= bound)


def free_problems(count: int, random_seed: int) -> PoseProblems:
    """Poses of random configurations of a Panda in which it does not touch itself."""
    robot = ik_service.load_robot("panda")
    joint_q = robot.random_joint_q(np.random.default_rng(random_seed), 2 * count)
    poses = robot.forward_kinematics(joint_q[robot.collision(joint_q).is_free][:count], [LINK])
    return PoseProblems(robot, LINK, poses.positions[:, 0], poses.orientations_xyzw[:, 0])


def solver_cpu_ms(problems: PoseProblems, sizes: Sizes) -> float:
    """CPU time of a solve of all targets on the service's core [ms], the median."""
    os.sched_setaffinity(0, {SERVER_CORE})
    options = ik_service.SolverOptions(**sizes.options)
    solver = ik_service.IKSolver(problems.robot, [LINK], device="cpu", options=options)
    solver.solve(problems.positions, problems.orientations_xyzw)
    times = []
    for _ in range(4 * sizes.repeats):
        started = time.process_time()
        solver.solve(problems.positions, problems.orientations_xyzw)
        times.append(1e3 * (time.process_time() - started))
    os.sched_setaffinity(0, {LOAD_CORE})
    return statistics.median(times)


def request_cpu_ms(running: ServiceProcess, problems: PoseProblems, encoding: str, sizes: Sizes) -> float:
    """CPU time of the service per request [ms]; many, because its clock counts in hundredths of a second."""
    with Client(running.url, encoding=encoding) as client:
        targets: dict[str, Any] = {"positions": problems.positions, "options": sizes.options}
        targets["orientations_xyzw"] = problems.orientations_xyzw
        for _ in range(5):
            client.solve("panda", link=LINK, **targets)
        before, count = running.cpu_seconds, 20 * sizes.repeats
        for _ in range(count):
            assert client.solve("panda", link=LINK, **targets).success.mean() > 0.99
        return 1e3 * (running.cpu_seconds - before) / count


def show_fairness(report: Report, sizes: Sizes) -> None:
    """Report single targets while requests of 100 000 problems are solved."""
    report.section("Single targets beside a request of 100 000 problems", "One client each, one after the other.")
    report.table("beside", "p50", "p99", "answers")
    medians = []
    with service(SERVER_CORE) as running:
        for name in ("nothing", "100 000 problems"):
            large = multiprocessing.get_context("spawn").Process(target=keep_sending, args=(running.url, sizes.options))
            if name != "nothing":
                large.start()
                time.sleep(5.0)  # until it sends
            load, _ = loaded(running, clients=1, duration_s=sizes.load_s, options=sizes.options)
            if name != "nothing":
                large.terminate()
                large.join()
            quantiles = load.quantiles()
            medians.append(quantiles["p50"])
            report.row(name, quantiles["p50"], quantiles["p99"], load.statuses[200])
    report.line("")
    ratio = medians[1] / medians[0]
    report.claim("median of single targets", f"{ratio:.2f} times as long", "3 times", ratio <= 3.0)


def keep_sending(url: str, options: dict[str, object]) -> None:
    """Send one request of 100 000 problems after the other; runs in a process of its own until it is ended."""
    problems = free_problems(100_000, 1)
    targets: dict[str, Any] = {"positions": problems.positions, "orientations_xyzw": problems.orientations_xyzw}
    with Client(url) as client:
        while True:
            client.solve("panda", link=LINK, options=options, **targets)


def show_overload(report: Report, sizes: Sizes) -> None:
    """Report five times as much as the service can take, and how it recovers."""
    report.section(
        f"Overload: five times the capacity for {sizes.overload_s:g} s",
        "Requests of 50 problems that try all 64 seeds each, at a fixed rate whatever comes back; each has 2 s. The "
        "capacity is what 32 clients get that wait for each answer: before, and once more after the overload.",
    )
    heavy = {"problems": 50, "options": sizes.options | {"best_of": "cost"}}
    with service(SERVER_CORE, {"request_timeout_s": 2.0}) as running:
        unloaded = {"duration_s": sizes.load_s, "clients": 32, **heavy}
        capacity = loaded(running, **unloaded)[0].answers_per_second
        memory: list[float] = []
        stop = threading.Event()
        watcher = threading.Thread(target=watch_memory, args=(running, memory, stop))
        watcher.start()
        rate = {"rate_hz": 5 * capacity, "duration_s": sizes.overload_s}
        load = run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, clients=OVERLOAD_CLIENTS, **heavy, **rate))
        stop.set()
        watcher.join()
        time.sleep(2.0)
        after = run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, duration_s=2.0, clients=1))
        again = loaded(running, **unloaded)[0].answers_per_second
    report.table(
        "capacity before, after",
        "sent",
        "statuses",
        "200 per second",
        "memory before, at most, after [MiB]",
        "p50 after 2 s",
    )
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(load.statuses.items()))
    quarter = max(1, len(memory) // 4)
    early, end = np.median(memory[:quarter]), np.median(memory[-quarter:])
    report.row(
        f"{capacity:.0f}/s, {again:.0f}/s",
        load.sent,
        statuses,
        f"{load.answers_per_second:.0f}",
        f"{early:.0f}, {max(memory):.0f}, {end:.0f}",
        after.quantiles()["p50"],
    )
    report.line("")
    allowed = set(load.statuses) <= {200, 503, 504}
    report.claim("every request answered by 200, 503 or 504", statuses, "nothing else", allowed)
    answered = sum(load.statuses.values())
    slowest = float(np.nan_to_num(load.inside_ms, nan=np.inf).max(initial=0.0))
    report.claim("longest time of an accepted request in the service", f"{slowest:.0f} ms", "2000", slowest <= 2000.0)
    report.claim("requests without an answer", str(load.sent - answered), "0", load.sent == answered)
    goodput = load.answers_per_second / statistics.mean((capacity, again))
    report.claim("200 per second, share of the capacity", f"{goodput:.0%}", "70 %", goodput >= 0.7)
    report.claim("memory, last quarter over first", f"{end / early:.3f}", "1.05", end <= 1.05 * early)
    share = after.statuses.get(200, 0) / max(1, after.sent)
    report.claim("answered 2 s after the overload", f"{share:.1%}", "100 %", share == 1.0)


def watch_memory(running: ServiceProcess, memory: list[float], stop: threading.Event) -> None:
    """Note the resident memory every half second."""
    while not stop.wait(0.5):
        memory.append(running.memory_mib)


if __name__ == "__main__":
    main()

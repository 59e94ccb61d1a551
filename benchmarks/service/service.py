"""The service under load on one core of this machine: batching, codecs, small requests beside a large one, overload.

The service runs in a process of its own on one core, the load comes from another. Without --full it measures little.
"""

import multiprocessing
import statistics
import threading
import time
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import ik_service
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report
from benchmarks.run import benchmark, pin, timed
from benchmarks.service.load import LoadPlan, LoadReport, run_load
from benchmarks.service.service_process import CLIENT_CORE, SERVER_CORE, ServiceProcess, service
from ik_service.client import Client

LINK = "panda_hand"
MANY = 10_000
OVERLOAD_CLIENTS = 1500
# how long to measure [s], how often, and the check of the solves
SIZES = {"load_s": (3.0, 15.0), "overload_s": (5.0, 60.0), "repeats": (3, 11), "collision": "self"}


def _show_batching(report: Report, sizes: Any) -> None:
    report.section(
        "Single targets, 64 clients, keep-alive",
        "JSON; each client sends the next target at once.",
        *("batching", "answers/s", "p50", "p99", "problems per launch", "CPU of the service per answer"),
    )
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
    report.claim("answers per second", f"{on.answers_per_second:.0f}", "1500", on.answers_per_second >= 1500)
    report.claim("p99", f"{on.quantiles()['p99']} ms", "100 ms", on.quantiles()["p99"] < 100.0)


def loaded(running: ServiceProcess, **plan: Any) -> tuple[LoadReport, float]:
    """Return how the service bore a load, and its CPU time meanwhile [s]; the warm-up counts for neither."""
    run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, **plan | {"duration_s": 2.0}))
    before = running.cpu_seconds
    load = run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, **plan))
    return load, running.cpu_seconds - before


def _show_codecs(report: Report, sizes: Any) -> None:
    report.section(
        f"{MANY} Panda targets in one request",
        "CPU time of the service's process beyond that of the solver alone, for the same targets on the same core.",
        *("format", "solver alone", "whole request", "added"),
    )
    problems = free_problems(MANY, 0)
    alone = solver_cpu_ms(problems, sizes)
    with service(SERVER_CORE) as running:
        for name, bound in (("msgpack", 5.0), ("json", 40.0)):
            whole = request_cpu_ms(running, problems, name, sizes)
            report.row(name, f"{alone:.2f}", f"{whole:.2f}", f"{whole - alone:.2f}")
            report.claim(f"added by {name}", f"{whole - alone:.2f} ms", f"{bound:g} ms", whole - alone <= bound)


def free_problems(count: int, random_seed: int) -> PoseProblems:
    """Poses of random configurations of a Panda in which it does not touch itself."""
    robot = ik_service.load_robot("panda")
    joint_q = robot.random_joint_q(np.random.default_rng(random_seed), 2 * count)
    return PoseProblems.of(robot, [LINK], joint_q[robot.collision(joint_q).is_free][:count])


def asked_for(problems: PoseProblems, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of a client's solve."""
    positions, orientations = (values[:, 0] for values in problems.given)
    return {"link": LINK, "positions": positions, "orientations_xyzw": orientations, "options": options}


def solver_cpu_ms(problems: PoseProblems, sizes: Any) -> float:
    """CPU time of a solve of all targets on the service's core [ms], the median."""
    pin(SERVER_CORE)
    options = ik_service.SolverOptions(**sizes.options)
    solver = ik_service.IKSolver(problems.robot, [LINK], device="cpu", options=options)
    _, times = timed(partial(solver.solve, *problems.given), 4 * sizes.repeats, 1)
    pin(CLIENT_CORE)
    return 1e-3 * times.median


def request_cpu_ms(running: ServiceProcess, problems: PoseProblems, encoding: str, sizes: Any) -> float:
    """CPU time of the service per request [ms]; many, because its clock counts in hundredths of a second."""
    with Client(running.url, encoding=encoding) as client:
        asked = asked_for(problems, sizes.options)
        for _ in range(5):
            client.solve("panda", **asked)
        before, count = running.cpu_seconds, 20 * sizes.repeats
        for _ in range(count):
            assert client.solve("panda", **asked).success.mean() > 0.99
        return 1e3 * (running.cpu_seconds - before) / count


def _show_fairness(report: Report, sizes: Any) -> None:
    report.section(
        "Single targets beside a request of 100 000 problems",
        "One client each, one after the other.",
        *("beside", "p50", "p99", "answers"),
    )
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
    ratio = medians[1] / medians[0]
    report.claim("median of single targets", f"{ratio:.2f} times as long", "3 times", ratio <= 3.0)


def keep_sending(url: str, options: dict[str, object]) -> None:
    """Send one request of 100 000 problems after the other; runs in a process of its own until it is ended."""
    asked = asked_for(free_problems(100_000, 1), options)
    with Client(url) as client:
        while True:
            client.solve("panda", **asked)


def _show_overload(report: Report, sizes: Any) -> None:
    report.section(
        f"Overload: five times the capacity for {sizes.overload_s:g} s",
        "Requests of 50 problems that try all 64 seeds each, at a fixed rate whatever comes back; each has 2 s. The "
        "capacity is what 32 clients get that wait for each answer: before, and once more after the overload.",
        *("capacity before, after", "sent", "statuses", "200 per second", "memory before, at most, after [MiB]"),
        "p50 after 2 s",
    )
    heavy = {"problems": 50, "options": sizes.options | {"best_of": "cost"}}
    with service(SERVER_CORE, {"request_timeout_s": 2.0}) as running:
        unloaded = {"duration_s": sizes.load_s, "clients": 32, **heavy}
        capacity = loaded(running, **unloaded)[0].answers_per_second
        memory, stop = list[float](), threading.Event()
        watcher = threading.Thread(target=watch_memory, args=(running, memory, stop))
        watcher.start()
        rate = {"rate_hz": 5 * capacity, "duration_s": sizes.overload_s}
        load = run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, clients=OVERLOAD_CLIENTS, **heavy, **rate))
        stop.set()
        watcher.join()
        time.sleep(2.0)
        after = run_load(LoadPlan(url=running.url, link=LINK, warm_up_s=0.0, duration_s=2.0, clients=1))
        again = loaded(running, **unloaded)[0].answers_per_second
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(load.statuses.items()))
    quarter = max(1, len(memory) // 4)
    early, end = np.median(memory[:quarter]), np.median(memory[-quarter:])
    capacities, per_second = f"{capacity:.0f}/s, {again:.0f}/s", f"{load.answers_per_second:.0f}"
    used = f"{early:.0f}, {max(memory):.0f}, {end:.0f}"
    report.row(capacities, load.sent, statuses, per_second, used, after.quantiles()["p50"])
    allowed = set(load.statuses) <= {200, 503, 504}
    report.claim("every request answered by 200, 503 or 504", statuses, "nothing else", allowed)
    answered = sum(load.statuses.values())
    slowest = float(np.nan_to_num(np.array(load.inside_ms), nan=np.inf).max(initial=0.0))
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


def show(report: Report, *, collision: str, **sizes: Any) -> None:
    """Measure everything."""
    chosen = SimpleNamespace(**sizes, options={"collision": collision})
    _show_batching(report, chosen)
    _show_codecs(report, chosen)
    _show_fairness(report, chosen)
    _show_overload(report, chosen)


if __name__ == "__main__":
    benchmark(
        "The service under load",
        show,
        "The service on one core, the load on another. Times in ms. Answers are checked for collision with the robot "
        "itself, unless `--collision off` is given.",
        sizes=SIZES,
        core=CLIENT_CORE,
        is_strict=True,
    )

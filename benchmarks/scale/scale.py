"""What a million targets per second, a thousand robots and a hundred clients cost, and where the next bottleneck is.

python -m benchmarks.scale.scale [--full] [--write]

Measures what a target, a request, a tick and a robot cost on one core, and says by a formula what many of them do. The
service runs in a process of its own on one core, the client on another. Without --full it measures little; --write
keeps the page as docs/scale.md.
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import warp as wp

from benchmarks.problems.tick_paths import ACCELERATION
from benchmarks.report import Report, machine
from benchmarks.scale.costs import (
    CLIENT_CORE,
    SERVER_CORE,
    Line,
    RobotCosts,
    clients,
    embedded,
    own_robots,
    requests,
    stream_tick,
    ticks,
)
from benchmarks.service.load import LoadReport
from benchmarks.service.service_process import service

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
COUNTS = (1, 10, 100, 1000, 10_000)
ROBOTS = (1, 16, 64, 256, 1000)
BUSY = 0.7  # share of a core that is planned with
RATE = 1_000_000
GBIT = 1e9 / 8  # bytes


@dataclass(frozen=True)
class Sizes:
    """How much to measure: seconds for each figure, and robots of one's own."""

    budget_s: float
    load_s: float
    robots: int


QUICK, FULL = Sizes(0.3, 2.0, 2), Sizes(2.0, 10.0, 8)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="measure everything for as long as it takes")
    parser.add_argument("--write", action="store_true", help="keep the page as docs/scale.md")
    arguments = parser.parse_args()
    sizes = FULL if arguments.full else QUICK
    os.sched_setaffinity(0, {CLIENT_CORE})
    wp.config.log_level = wp.LOG_ERROR
    report = Report("Scale")
    report.line(
        f"\nMade by `python -m benchmarks.scale.scale --full --write` on one core of {machine()}; the client on "
        "another. Pandas throughout. All costs are CPU time. The machine is shared: two runs differ by up to a "
        "quarter. No GPU was at hand; `benchmarks/gpu/rates.py` measures one."
    )
    alone = embedded(COUNTS, sizes.budget_s)
    with service(SERVER_CORE) as running:
        msgpack, *msgpack_bytes = requests(running, "msgpack", COUNTS, sizes.budget_s)
        json, *json_bytes = requests(running, "json", COUNTS, sizes.budget_s)
        loads = {n: clients(running, 100, n, sizes.load_s) for n in (1, 10, 100)}
        stream = stream_tick(running)
    lines = {"`IKSolver.solve`": alone, "MessagePack": msgpack, "JSON": json}
    show_costs(report, lines, loads[1][1])
    show_million(report, lines, {"MessagePack": msgpack_bytes, "JSON": json_bytes}, loads[1][1])
    show_thousand(report, stream, own_robots(sizes.robots))
    show_clients(report, loads)
    show_bottleneck(report, lines, loads[1][1], json_bytes)
    if arguments.write:
        report.save(PAGE)


def show_costs(report: Report, lines: dict[str, Line], single: float) -> None:
    """Report the costs, and the formula that they go into."""
    report.section(
        "The formula",
        "A call with n targets takes c + t n of a core. A rate of R targets per second in calls of n then needs\n\n"
        "    cores = R (c / n + t) / u\n\n"
        f"with u the share of its time for which a core is planned to be busy, {BUSY} below. c and t are fitted to "
        "what was measured, by least relative squares:",
    )
    report.table("call", "c [µs]", "t [µs]", *(f"measured, n = {n} [µs a target]" for n in COUNTS))
    for name, line in lines.items():
        measured = [f"{1e6 * t / n:.2f}" for n, t in zip(line.counts, line.seconds, strict=True)]
        report.row(name, f"{1e6 * line.each_time:.0f}", f"{1e6 * line.per_thing:.2f}", *measured)
    report.line(
        f"\nThe service takes requests that wait together into one batch: of 100 clients at once a JSON request for "
        f"one target takes {1e6 * single:.0f} µs."
    )


def show_million(report: Report, lines: dict[str, Line], sizes: dict[str, list[float]], single: float) -> None:
    """Report what a million targets per second take."""
    report.section(
        "A million targets per second",
        "Cores by the formula, and what goes through the network, bodies only.",
    )
    report.table("way", "µs a target", "cores", "in, out [Gbit/s]")
    plans = [("`IKSolver.solve`", 10_000), ("MessagePack", 10_000), ("MessagePack", 1000), ("MessagePack", 100)]
    for name, n in [*plans, ("JSON", 10_000), ("JSON", 100)]:
        cost = lines[name].each_time / n + lines[name].per_thing
        traffic = "none"
        if name in sizes:
            traffic = ", ".join(f"{RATE * size / GBIT:.2f}" for size in sizes[name])
        report.row(f"{name}, {n} at a time", f"{1e6 * cost:.2f}", f"{RATE * cost / BUSY:.1f}", traffic)
    report.row("JSON, one at a time, 100 clients", f"{1e6 * single:.0f}", f"{RATE * single / BUSY:.0f}", "")
    report.line(
        "\nThreads of one solver share batches: two of them solve nearly twice as much ([RESULTS.md]"
        "(../benchmarks/arms/RESULTS.md)). Files of targets need no requests: [bulk jobs](bulk.md) read, "
        "solve and write them on as many machines as Ray has ([measured](../benchmarks/scale/bulk.md))."
    )


def show_thousand(report: Report, stream: float, own: RobotCosts) -> None:
    """Report what a thousand robots take: of one model under control, and of a thousand models."""
    report.section(
        "A thousand robots",
        "**Under control**, all of one model, each with a target in every tick. `IKController` takes them through a "
        "tick together; over HTTP each has a stream of its own.",
    )
    kinds = {"speed limits": ticks(ROBOTS, None), "speed and acceleration limits": ticks(ROBOTS, ACCELERATION)}
    heads = [f"µs a tick of {n}" for n in ROBOTS]
    report.table("way", *heads, "cores for 1000 at 100 Hz", "at 1 kHz")
    for name, line in kinds.items():
        tick = line.seconds[-1]
        figures = [f"{1e6 * seconds:.1f}" for seconds in line.seconds]
        report.row(f"`IKController`, {name}", *figures, f"{100 * tick / BUSY:.2f}", f"{1000 * tick / BUSY:.2f}")
    rates = [f"{rate * 1000 * stream / BUSY:.0f}" for rate in (100, 1000)]
    report.row("streams", f"{1e6 * stream:.0f}", *["" for _ in ROBOTS[1:]], *rates)
    report.line(
        "\n**Of a thousand models**, put into one service at run time. Each has kernels of its own, compiled when it "
        "is first asked for; a service keeps the solvers used last (`solvers`, 16 unless told)."
    )
    report.line("")
    report.table("what", "a robot", "a thousand")
    compiling = f"{own.compile_s:.2f} s", f"{1000 * own.compile_s / 60:.0f} min"
    report.row("compiling, once for all that share the kernels", *compiling)
    report.row("kernels on disk", f"{own.disk_kib:.0f} KiB", f"{1000 * own.disk_kib / 1024:.0f} MiB")
    report.row("first answer after a restart", f"{1e3 * own.again_s:.0f} ms", f"{1000 * own.again_s:.0f} s")
    report.row(
        "memory while its solver is kept", f"{own.memory_mib:.2f} MiB", f"{1000 * own.memory_mib / 1024:.1f} GiB"
    )
    report.row("an answer while its solver is kept", f"{1e3 * own.kept_s:.2f} ms", "")
    report.row("an answer when its solver was given up", f"{1e3 * own.turn_s:.1f} ms", "")


def show_clients(report: Report, loads: dict[int, tuple[LoadReport, float]]) -> None:
    """Report a hundred clients on one service."""
    report.section(
        "A hundred clients",
        "On one service on one core, JSON, keep-alive; each sends the next request as soon as it has its answer. So "
        "this is all that one core can do; clients that ask less often wait less.",
    )
    report.table("targets a request", "requests/s", "targets/s", "p50 [ms]", "p99 [ms]", "CPU a request [µs]")
    for n, (load, cpu) in loads.items():
        quantiles = load.quantiles()
        rate = load.answers_per_second
        report.row(n, f"{rate:.0f}", f"{rate * n:.0f}", quantiles["p50"], quantiles["p99"], f"{1e6 * cpu:.0f}")


def show_bottleneck(report: Report, lines: dict[str, Line], single: float, json_bytes: list[float]) -> None:
    """Say what gives way next."""
    alone, msgpack, json = lines.values()
    solver = alone.per_thing
    report.section("Where the next bottleneck is", "In this order, as the load grows:")
    report.line(
        f"1. **Requests, not targets.** Of the {1e6 * single:.0f} µs of a single target the solver needs "
        f"{1e6 * solver:.1f} µs, {solver / single:.1%}. As much time goes into requests as into their targets at "
        f"{msgpack.each_time / msgpack.per_thing:.0f} targets a request in MessagePack, "
        f"{json.each_time / json.per_thing:.0f} in JSON: ask for more at a time."
    )
    report.line(
        f"2. **The format.** A target costs {1e6 * (json.per_thing - solver):.2f} µs beyond the solver in JSON, "
        f"{1e6 * (msgpack.per_thing - solver):.2f} in MessagePack. One process reads and writes on one core, so it "
        f"takes {1e-3 * BUSY / (json.per_thing - solver):.0f} thousand targets a second in JSON and "
        f"{1e-6 * BUSY / (msgpack.per_thing - solver):.1f} million in MessagePack, however many threads solve; "
        "more need more replicas."
    )
    report.line(
        "3. **What stands in front of replicas.** Ray's own proxy passes fewer requests than one service answers; "
        "HAProxy in its place, or a load balancer in front of containers, does not hold them back "
        "([measured](../benchmarks/scale/replicas.md))."
    )
    report.line(
        f"4. **The network.** A target takes {json_bytes[0]:.0f} bytes in and {json_bytes[1]:.0f} out in JSON: "
        f"10 Gbit/s carry {1e-6 * 10 * GBIT / max(json_bytes):.0f} million targets a second."
    )
    report.line("5. **The solver** is last on CPUs: it is what large MessagePack requests and bulk jobs are made of.")


if __name__ == "__main__":
    main()

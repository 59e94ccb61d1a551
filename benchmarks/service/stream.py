"""Round trips of a stream and of single requests on loopback, and what gzip would cost.

python -m benchmarks.service.stream [--write]

The service runs on one core, the client on another; a target moves along a circle. --write keeps the figures in
stream.md beside this file.
"""

import argparse
import http.client
import json
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import warp as wp
from websockets.sync.client import connect

import ik_service
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report, machine
from benchmarks.service.service_process import ServiceProcess, service

HERE = Path(__file__).parent
SERVER_CORE, CLIENT_CORE = 0, 1
LINK = "panda_hand"
TICKS, ROUNDS = 1000, 5
ORIENTATION = [1, 0, 0, 0]
BOUND_MS = 1.0
CODECS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "json": (json.dumps, json.loads),
    "msgpack": (msgpack.packb, msgpack.unpackb),
}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures in stream.md")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT_CORE})
    wp.config.log_level = wp.LOG_ERROR
    report = Report("Streams")
    report.line(f"\n{machine()}; the service on one core, the client on another. One Panda target at a time.")
    with service(SERVER_CORE) as running:
        show_streams(report, running)
        show_requests(report, running)
        show_gzip(report, running)
    if arguments.write:
        report.save(HERE / "stream.md")
    raise SystemExit(1 if report.missed else 0)


def targets() -> list[list[float]]:
    """Positions on a circle [m]."""
    angle = np.linspace(0.0, 2.0 * np.pi, TICKS)
    x, y = 0.45 + 0.05 * np.cos(angle), 0.1 * np.sin(angle)
    return np.stack([x, y, np.full(TICKS, 0.5)], axis=1).tolist()


def show_streams(report: Report, running: ServiceProcess) -> None:
    """Report round trips of a client that waits for each answer."""
    report.section("Streams", f"{ROUNDS} times {TICKS} ticks, each sent when the answer to the one before is there.")
    report.table("encoding", "p50 [ms]", "p99 [ms]", "CPU of the service per tick [ms]", "not answered in order")
    claims = []
    for name in CODECS:
        before = running.cpu_seconds
        rounds = [follow(running, name) for _ in range(ROUNDS)]
        cost = 1e3 * (running.cpu_seconds - before) / (ROUNDS * TICKS)
        times, wrong = np.concatenate([times for times, _ in rounds]), sum(wrong for _, wrong in rounds)
        p50, p99 = np.percentile(times, [50, 99])
        report.row(name, f"{p50:.3f}", f"{p99:.3f}", f"{cost:.3f}", wrong)
        claims.append((f"median round trip, {name}", f"{p50:.3f} ms", f"{BOUND_MS:g} ms", p50 <= BOUND_MS))
        claims.append((f"lost or reordered, {name}", str(wrong), "0", wrong == 0))
    report.line("")
    for claim in claims:
        report.claim(*claim)


def follow(running: ServiceProcess, codec: str) -> tuple[np.ndarray, int]:
    """Return the round trips [ms], and how many answers were not those to the ticks before them."""
    write, read = CODECS[codec]
    times, wrong = [], 0
    with connect(running.url.replace("http", "ws", 1) + "/v1/robots/panda/stream", compression=None) as stream:
        stream.send(write({"type": "configure", "targets": [{"link": LINK}]}))
        assert read(stream.recv())["type"] == "configured"
        for seq, position in enumerate(targets()):
            message = write({"seq": seq, "positions": [position], "orientations_xyzw": [ORIENTATION]})
            started = time.perf_counter()
            stream.send(message)
            content = stream.recv()
            times.append(1e3 * (time.perf_counter() - started))
            answer = read(content)
            wrong += answer.get("seq") != seq or not answer.get("success") or answer["skipped"] != 0
    return np.array(times), wrong


def show_requests(report: Report, running: ServiceProcess) -> None:
    """Report the same targets as requests of their own, over one connection."""
    report.section("Single requests", "The same targets, one request each, keep-alive.")
    report.table("request", "p50 [ms]", "p99 [ms]", "CPU of the service per request [ms]")
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"))
    for name, (write, _) in CODECS.items():
        kind = {"Content-Type": f"application/{name}"}
        bodies = [write({"targets": [as_target(position)]}) for position in targets()]
        requests = [("POST", "/v1/robots/panda/solve", body, kind) for body in bodies]
        report.row(f"solve, {name}", *round_trips(running, connection, requests))
    live = [("GET", "/health/live", None, {})] * TICKS
    report.row("/health/live", *round_trips(running, connection, live))


def as_target(position: list[float]) -> dict[str, Any]:
    """Return one problem's target."""
    return {"link": LINK, "positions": [position], "orientations_xyzw": [ORIENTATION]}


def round_trips(running: ServiceProcess, connection: http.client.HTTPConnection, requests: list[Any]) -> list[str]:
    """Send requests one after the other; return quantiles and CPU time as they stand in the table."""
    times = []
    before = running.cpu_seconds
    for request in requests * ROUNDS:
        started = time.perf_counter()
        connection.request(*request)
        answer = connection.getresponse()
        content = answer.read()
        times.append(1e3 * (time.perf_counter() - started))
        assert answer.status == 200, content
    cost = 1e3 * (running.cpu_seconds - before) / len(times)
    p50, p99 = np.percentile(times, [50, 99])
    return [f"{p50:.3f}", f"{p99:.3f}", f"{cost:.3f}"]


def show_gzip(report: Report, running: ServiceProcess) -> None:
    """Report what it would cost to compress a large answer here, instead of in a proxy."""
    problems = PoseProblems.random(ik_service.load_robot("panda", collision="ignore"), LINK, 10_000, 0)
    columns = {"positions": problems.positions.tolist(), "orientations_xyzw": problems.orientations_xyzw.tolist()}
    body = json.dumps({"targets": [{"link": LINK, **columns}]})
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"))
    connection.request("POST", "/v1/robots/panda/solve", body, {"Content-Type": "application/json"})
    answer = connection.getresponse().read()
    report.section("Compression", f"The JSON answer to 10 000 targets, {len(answer) / 1e3:.0f} kB, by zlib.")
    report.table("level", "size [kB]", "CPU [ms]")
    for level in (1, 6):
        started = time.process_time()
        size = len(zlib.compress(answer, level))
        report.row(level, f"{size / 1e3:.0f}", f"{1e3 * (time.process_time() - started):.1f}")


if __name__ == "__main__":
    main()

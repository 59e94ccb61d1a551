"""Round trips of a stream and of single requests on loopback, and what gzip would cost.

The service runs on one core, the client on another; a target moves along a circle.
"""

import http.client
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
from websockets.sync.client import connect

import ik_service
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report
from benchmarks.run import benchmark, percentiles
from benchmarks.service.service_process import CLIENT_CORE, SERVER_CORE, ServiceProcess, service

LINK = "panda_hand"
TICKS, ROUNDS = 1000, 5
ORIENTATION = [1, 0, 0, 0]
BOUND_MS = 1.0
CODECS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "json": (json.dumps, json.loads),
    "msgpack": (msgpack.packb, msgpack.unpackb),
}


def targets() -> list[list[float]]:
    """Positions on a circle [m]."""
    angle = np.linspace(0.0, 2.0 * np.pi, TICKS)
    x, y = 0.45 + 0.05 * np.cos(angle), 0.1 * np.sin(angle)
    return np.stack([x, y, np.full(TICKS, 0.5)], axis=1).tolist()


def _show_streams(report: Report, running: ServiceProcess) -> None:
    report.section(
        "Streams",
        f"{ROUNDS} times {TICKS} ticks, each sent when the answer to the one before is there.",
        *("encoding", "p50 [ms]", "p99 [ms]", "CPU of the service per tick [ms]", "not answered in order"),
    )
    for name in CODECS:
        before = running.cpu_seconds
        rounds = [follow(running, name) for _ in range(ROUNDS)]
        cost = 1e3 * (running.cpu_seconds - before) / (ROUNDS * TICKS)
        times, wrong = np.concatenate([times for times, _ in rounds]), sum(wrong for _, wrong in rounds)
        report.row(name, *percentiles(times, 50, 99, decimals=3), f"{cost:.3f}", wrong)
        p50 = np.median(times)
        report.claim(f"median round trip, {name}", f"{p50:.3f} ms", f"{BOUND_MS:g} ms", p50 <= BOUND_MS)
        report.claim(f"lost or reordered, {name}", wrong, "0", wrong == 0)


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


def _show_requests(report: Report, running: ServiceProcess) -> None:
    heads = "request", "p50 [ms]", "p99 [ms]", "CPU of the service per request [ms]"
    report.section("Single requests", "The same targets, one request each, keep-alive.", *heads)
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"))
    for name, (write, _) in CODECS.items():
        kind = {"Content-Type": f"application/{name}"}
        asked = [{"link": LINK, "positions": [one], "orientations_xyzw": [ORIENTATION]} for one in targets()]
        requests = [("POST", "/v1/robots/panda/solve", write({"targets": [one]}), kind) for one in asked]
        report.row(f"solve, {name}", *round_trips(running, connection, requests))
    live = [("GET", "/health/live", None, {})] * TICKS
    report.row("/health/live", *round_trips(running, connection, live))


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
    return [*percentiles(times, 50, 99, decimals=3), f"{cost:.3f}"]


def _show_gzip(report: Report, running: ServiceProcess) -> None:
    problems = PoseProblems.random(ik_service.load_robot("panda", collision="ignore"), [LINK], 10_000, 0)
    positions, orientations = (values[:, 0].tolist() for values in problems.given)
    columns = {"positions": positions, "orientations_xyzw": orientations}
    body = json.dumps({"targets": [{"link": LINK, **columns}]})
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"))
    connection.request("POST", "/v1/robots/panda/solve", body, {"Content-Type": "application/json"})
    answer = connection.getresponse().read()
    size = f"{len(answer) / 1e3:.0f} kB"
    what = f"The JSON answer to 10 000 targets, {size}, by zlib."
    report.section("Compression", what, "level", "size [kB]", "CPU [ms]")
    for level in (1, 6):
        started = time.process_time()
        size = len(zlib.compress(answer, level))
        report.row(level, f"{size / 1e3:.0f}", f"{1e3 * (time.process_time() - started):.1f}")


def show(report: Report) -> None:
    """Measure everything."""
    with service(SERVER_CORE) as running:
        _show_streams(report, running)
        _show_requests(report, running)
        _show_gzip(report, running)


if __name__ == "__main__":
    intro = "The service on one core, the client on another. One Panda target at a time."
    benchmark("Streams", show, intro, core=CLIENT_CORE, is_strict=True)

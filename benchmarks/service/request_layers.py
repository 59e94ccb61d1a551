"""CPU time that the gate costs a request, without a socket, a route or a solve."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import uvloop

from benchmarks.report import Report
from benchmarks.run import benchmark, in_turns
from ik_service.service.gate.admission import Admission
from ik_service.service.gate.gate import Gate
from ik_service.service.gate.logs import AccessLog
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.settings import ServiceSettings

ROUNDS, REQUESTS = 31, 2000
KEY = "0123456789abcdef"
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"user-agent", b"client/1.0"),
    (b"accept", b"*/*"),
    (b"content-type", b"application/json"),
    (b"content-length", b"150"),
    (b"x-api-key", KEY.encode()),
]
BODY = b"x" * 150


class Route:
    """Stands for a route in the scope."""

    path = "/v1/robots/{robot}/solve"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers."""
    scope["route"] = Route
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})


async def ask(app: Callable[..., Any]) -> None:
    """Sends requests, one after the other."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        pass

    for _ in range(REQUESTS):
        scope = {"type": "http", "method": "POST", "path": "/v1/robots/panda/solve", "headers": HEADERS}
        await app({**scope, "client": ("127.0.0.1", 4711)}, receive, send)


def cpu_us(app: Callable[..., Any]) -> float:
    """Return the CPU time of a request [us]."""
    started = time.thread_time()
    uvloop.run(ask(app))
    return 1e6 * (time.thread_time() - started) / REQUESTS


def show(report: Report) -> None:
    """Add the CPU time of each stack, medians of alternating rounds."""
    report.table("layers", "in all [us]", "of its own [us]")
    settings = ServiceSettings(api_keys=f"lab:{KEY},other:{KEY[::-1]}", log_format="json")
    admission, metrics = Admission(settings.request_timeout_s), ServiceMetrics(lambda robot: "panda")
    gate = partial(Gate, application, settings, None, admission, metrics)
    with open(os.devnull, "w") as sink:
        stacks = {"no gate": application, "gate": gate(), "and access log": gate(AccessLog(settings, sink))}
        found = in_turns({name: partial(cpu_us, app) for name, app in stacks.items()}, ROUNDS)
    before = base = float(np.median(found["no gate"]))
    for name, times in found.items():
        median = float(np.median(times))
        report.row(name, f"{median - base:.1f}", f"{median - before:.1f}")
        before = median


if __name__ == "__main__":
    benchmark("Layers of a request", show)

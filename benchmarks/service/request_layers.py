"""What the service's own layers cost a request: CPU time of each, without a socket, a route or a solve.

python -m benchmarks.service.request_layers
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any, TextIO

import uvloop

from ik_service.service.gate.access import AccessMiddleware
from ik_service.service.gate.body_limits import BodyLimitMiddleware
from ik_service.service.gate.logs import AccessLog
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.gate.request_memory import MemoryBudget
from ik_service.service.gate.request_middleware import RequestMiddleware
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


def stacks(sink: TextIO) -> dict[str, Callable[..., Any]]:
    """The layers, one more at a time.

    Args:
        sink: Where the access log goes.
    """
    settings = ServiceSettings(api_keys=f"lab:{KEY},other:{KEY[::-1]}", log_format="json")
    metrics = ServiceMetrics(lambda robot: "panda")
    log = AccessLog(settings, sink)
    checked = AccessMiddleware(application, settings, None)
    memory = MemoryBudget(settings.memory_bytes, settings.max_answer_bytes, is_shared=True, refused=lambda reason: None)
    bounded = BodyLimitMiddleware(checked, settings.max_body_bytes, settings.body_timeout_s, memory)
    return {
        "no layer": application,
        "API keys": checked,
        "and bounds of the body": bounded,
        "and request id, last word on errors": RequestMiddleware(bounded, (), lambda: False),
        "and metrics": RequestMiddleware(bounded, (metrics,), lambda: False),
        "and access log": RequestMiddleware(bounded, (metrics, log), lambda: False),
    }


async def ask(app: Callable[..., Any]) -> None:
    """Sends requests, one after the other."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        pass

    for _ in range(REQUESTS):
        scope = {"type": "http", "method": "POST", "path": "/v1/robots/panda/solve", "headers": HEADERS}
        await app({**scope, "client": ("127.0.0.1", 4711)}, receive, send)


def main() -> None:
    """Print the CPU time of each stack, medians of alternating rounds."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with open(os.devnull, "w") as sink:
        apps = stacks(sink)
        found: dict[str, list[float]] = {name: [] for name in apps}
        for _ in range(ROUNDS):
            for name, app in apps.items():
                started = time.thread_time()
                uvloop.run(ask(app))
                found[name].append(1e6 * (time.thread_time() - started) / REQUESTS)
    before = base = statistics.median(found["no layer"])
    for name, times in found.items():
        median = statistics.median(times)
        print(f"{name:38} {median - base:6.1f} us in all, {median - before:5.1f} us of its own")
        before = median


if __name__ == "__main__":
    main()

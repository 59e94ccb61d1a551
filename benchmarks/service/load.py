"""Load on a running service: requests at a given rate whether it keeps up or not, or as fast as it answers.

    reachable targets -> request bodies -> arrivals (a Poisson process, or as answers come) -> free connections
    -> statuses and latencies -> report

Open loop: the latency of a request counts from when it should have been sent, so that a service that stalls cannot hide
the requests that it kept from being sent. `python -m benchmarks.service.load http://127.0.0.1:8000 --clients 8` puts
a running service under load; `--help` lists the rest.
"""

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import httptools
import numpy as np
import orjson
from prometheus_client.parser import text_string_to_metric_families

from ik_service.robots import load_robot
from objectives.errors import IKError

BODIES = 256  # different ones, which are sent over and over
COMPILING_S = 120
QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)  # of the latency, in a report


class LoadError(IKError):
    """The service cannot be put under load: it is not there, or refuses the request."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """What to ask of a service, how often, and for how long."""

    url: str  # where it listens, such as "http://127.0.0.1:8000"
    robot: str = "panda"  # name of a built-in robot that it serves
    link: str = "panda_hand"  # link that is to reach the targets
    problems: int = 1  # problems in each request
    rate_hz: float | None = None  # requests per second; None sends the next request after each answer
    clients: int = 64
    duration_s: float = 10.0  # how long to measure [s]
    warm_up_s: float = 2.0  # how long to send before that [s]
    random_seed: int = 0  # of targets and arrivals
    options: Mapping[str, object] = field(default_factory=dict)  # options of the solve, as they stand in a request
    api_key: str | None = None  # key to send, if any


@dataclass
class LoadReport:
    """How a service bore a load."""

    seconds: float = 0.0  # time measured [s]
    sent: int = 0  # requests that were due in that time
    statuses: Counter[int] = field(default_factory=Counter)  # answers by HTTP status; 0: the connection was closed
    latency_ms: list[float] = field(default_factory=list)  # latencies of answers with status 200 [ms]
    inside_ms: list[float] = field(default_factory=list)  # how long their requests were in the service, as it says [ms]
    problems_per_launch: float | None = None  # mean size of the service's batches; None where it does not tell

    @property
    def answers_per_second(self) -> float:
        """Answers with status 200 per second."""
        return self.statuses[200] / self.seconds

    def quantiles(self) -> dict[str, float]:
        """Return quantiles of the latency [ms], "p50" to "p100"; nothing where there was no answer."""
        if not self.latency_ms:
            return {}
        return {f"p{100 * q:g}": round(float(np.quantile(self.latency_ms, q)), 3) for q in QUANTILES}


class Connection(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection that costs little, so that the load and not its maker is measured."""

    def __init__(self) -> None:
        self.answers, self.transport = 0, None  # no transport where the other side has closed
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser, self._body = httptools.HttpResponseParser(self), b""

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request, and return status and body of the answer; a ConnectionError where there is none."""
        if self.transport is None:
            raise ConnectionResetError("The connection is closed.")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Disconnect."""
        if self.transport is not None:
            self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request under way."""
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("The connection was closed before the answer."))

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Bring the answer."""
        self.answers += 1
        answer, self._body = (self._parser.get_status_code(), self._body), b""
        self._parser = httptools.HttpResponseParser(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


def run_load(plan: LoadPlan) -> LoadReport:
    """Put a service under load and measure; a LoadError where it is not there or refuses the request."""
    return asyncio.run(_run(plan))


async def _run(plan: LoadPlan) -> LoadReport:
    requests = _requests(plan)
    for _ in range(COMPILING_S):
        status, body = await _once(plan, requests[0])
        if status != 503:
            break
        await asyncio.sleep(1.0)  # code for this kind of request is being compiled
    if status != 200:
        raise LoadError(f"The service answered {status}: {body[:500].decode(errors='replace')}")
    if plan.warm_up_s > 0.0:
        await _send_all(replace(plan, duration_s=plan.warm_up_s), requests)
    before = await _batches(plan)
    report = await _send_all(plan, requests)
    problems, launches = (after - earlier for after, earlier in zip(await _batches(plan), before, strict=True))
    report.problems_per_launch = problems / launches if launches else None
    return report


def _requests(plan: LoadPlan) -> list[bytes]:
    """Whole requests for reachable targets."""
    robot, rng, requests = load_robot(plan.robot), np.random.default_rng(plan.random_seed), []
    for _ in range(BODIES if plan.problems < 100 else 4):
        poses = robot.forward_kinematics(robot.random_free_joint_q(rng, plan.problems), [plan.link])
        columns = {"positions": poses.positions[:, 0], "orientations_xyzw": poses.orientations_xyzw[:, 0]}
        target = {"link": plan.link} | {name: values.astype(np.float32) for name, values in columns.items()}
        body = orjson.dumps({"targets": [target], "options": plan.options}, option=orjson.OPT_SERIALIZE_NUMPY)
        requests.append(_raw(plan, "POST", f"/v1/robots/{plan.robot}/solve", body))
    return requests


def _raw(plan: LoadPlan, method: str, path: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(plan.url).netloc}", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json"] * bool(body)
    lines += [f"X-API-Key: {plan.api_key}"] if plan.api_key is not None else []
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _connect(plan: LoadPlan) -> Connection:
    address, loop = urlsplit(plan.url), asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(Connection, address.hostname, address.port or 80)
    except OSError as error:
        raise LoadError(f"Nothing answers at {plan.url}: {error.strerror or error}.") from error
    return connection


async def _once(plan: LoadPlan, request: bytes) -> tuple[int, bytes]:
    connection = await _connect(plan)
    try:
        return await connection.send(request)
    finally:
        connection.close()


async def _batches(plan: LoadPlan) -> tuple[float, float]:
    """Problems and launches so far, as the service's metrics tell them; none where they do not."""
    status, body = await _once(plan, _raw(plan, "GET", "/metrics"))
    found = Counter[str]()
    for family in text_string_to_metric_families(body.decode() if status == 200 else ""):
        if family.name == "ik_service_batch_problems":
            for sample in family.samples:
                found[sample.name.rpartition("_")[2]] += sample.value
    return found["sum"], found["count"]


async def _send_all(plan: LoadPlan, requests: list[bytes]) -> LoadReport:
    report, begun = LoadReport(), time.perf_counter()
    if plan.rate_hz is None:
        await asyncio.gather(*(_eager_client(plan, requests[k % len(requests) :], report) for k in range(plan.clients)))
    else:
        due: asyncio.Queue[tuple[bytes, float] | None] = asyncio.Queue()
        clients = [asyncio.create_task(_paced_client(plan, due, report)) for _ in range(plan.clients)]
        await _let_arrive(plan, requests, due)
        for _ in clients:
            due.put_nowait(None)
        await asyncio.gather(*clients)
    report.seconds = time.perf_counter() - begun
    return report


async def _eager_client(plan: LoadPlan, requests: list[bytes], report: LoadReport) -> None:
    connection, k, end = await _connect(plan), 0, time.perf_counter() + plan.duration_s
    while (now := time.perf_counter()) < end:
        connection = await _send(plan, connection, requests[k % len(requests)], now, report)
        k += 1
    connection.close()


async def _paced_client(plan: LoadPlan, due: "asyncio.Queue[tuple[bytes, float] | None]", report: LoadReport) -> None:
    connection = await _connect(plan)
    while (arrival := await due.get()) is not None:
        connection = await _send(plan, connection, *arrival, report)
    connection.close()


async def _let_arrive(plan: LoadPlan, requests: list[bytes], due: "asyncio.Queue[tuple[bytes, float] | None]") -> None:
    """Make requests due at random times of the given rate."""
    rng, start, offset, k = np.random.default_rng(plan.random_seed), time.perf_counter(), 0.0, 0
    while (offset := offset + rng.exponential(1.0 / plan.rate_hz)) < plan.duration_s:
        ahead = start + offset - time.perf_counter()
        if ahead > 0.0:
            await asyncio.sleep(ahead)
        due.put_nowait((requests[k % len(requests)], start + offset))
        k += 1


async def _send(plan: LoadPlan, connection: Connection, request: bytes, due: float, report: LoadReport) -> Connection:
    """Send a request, count its answer, and return the connection for the next one."""
    report.sent += 1
    try:
        if connection.transport is None:
            connection = await _connect(plan)
        try:
            status, body = await connection.send(request)
        except ConnectionError:
            if connection.answers == 0:
                raise
            connection = await _connect(plan)  # the service may close one that was idle just when it is used again
            status, body = await connection.send(request)
    except ConnectionError:
        report.statuses[0] += 1
        return connection
    report.statuses[status] += 1
    if status == 200:
        report.latency_ms.append(1e3 * (time.perf_counter() - due))
        _, told, rest = body.rpartition(b'"total":')
        report.inside_ms.append(float(rest.partition(b"}")[0]) if told else float("nan"))
    return connection


def main() -> None:
    """Put a running service under load and print the report."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("url", help="where the service listens; the key is that of IK_SERVICE_API_KEY, if any")
    kinds = {"robot": str, "link": str, "problems": int, "rate_hz": float, "clients": int, "duration_s": float}
    for name, kind in {**kinds, "warm_up_s": float, "random_seed": int}.items():
        default = getattr(LoadPlan, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=f"default: {default}")
    load = run_load(LoadPlan(**vars(parser.parse_args()), api_key=os.environ.get("IK_SERVICE_API_KEY")))
    said = {"answers_per_second": load.answers_per_second, "latency_ms": load.quantiles()}
    said |= {"sent": load.sent, "statuses": {str(status): count for status, count in sorted(load.statuses.items())}}
    print(orjson.dumps(said | {"problems_per_launch": load.problems_per_launch}, option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()

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
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.service.http_connection import HttpConnection, raw_request
from ik_service.robots import RobotModel, builtin_robot_names, load_robot, load_urdf
from objectives.errors import IKError, InputError

BODIES = 256
"""Different request bodies; they are sent over and over."""
QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Of the latency, in a report."""


class LoadError(IKError):
    """The service cannot be put under load: it is not there, or refuses the request."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """What to ask of a service, how often, and for how long.

    Attributes:
        url: Where it listens, such as "http://127.0.0.1:8000".
        robot: Name of a robot that it serves.
        link: Link that is to reach the targets; None takes the end of the robot's last branch.
        problems: Problems in each request.
        rate_hz: Requests per second; None sends the next request as soon as a connection has its answer.
        clients: Connections.
        duration_s: How long to measure [s].
        warm_up_s: How long to send before that [s].
        random_seed: Of targets and arrivals.
        options: Options of the solve, as they stand in a request.
        api_key: Key to send, if any.
    """

    url: str
    robot: str = "panda"
    link: str | None = None
    problems: int = 1
    rate_hz: float | None = None
    clients: int = 64
    duration_s: float = 10.0
    warm_up_s: float = 2.0
    random_seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    api_key: str | None = None

    def __post_init__(self) -> None:
        """Refuse values outside the allowed ranges.

        Raises:
            InputError: Names the value and what is allowed.
        """
        for name in ("problems", "clients"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}. Allowed: 1 or more.")
        if self.rate_hz is not None and not self.rate_hz > 0.0:
            raise InputError(f"The rate is {self.rate_hz}. Allowed: more than 0 requests per second.")
        if not self.duration_s > 0.0 or self.warm_up_s < 0.0:
            raise InputError("The duration must be more than 0 s, and the time to warm up at least 0 s.")
        if self.address.scheme != "http" or self.address.hostname is None:
            raise InputError(f"The URL is {self.url!r}. Allowed: http://HOST:PORT.")

    @property
    def address(self) -> SplitResult:
        """The URL in parts."""
        return urlsplit(self.url)


@dataclass(frozen=True)
class LoadReport:
    """How a service bore a load.

    Attributes:
        seconds: Time measured [s].
        sent: Requests that were due in that time.
        statuses: Answers by HTTP status; 0 stands for a connection that was closed.
        solved_share: Share of the problems in answers with status 200 that succeeded.
        latency_ms: Latencies of answers with status 200 [ms], sorted.
        inside_ms: How long their requests were in the service, as it says [ms], sorted.
        problems: Problems in each request.
        problems_per_launch: Mean size of the service's batches meanwhile; None where it does not tell.
    """

    seconds: float
    sent: int
    statuses: dict[int, int]
    solved_share: float
    latency_ms: NDArray[np.float64]
    inside_ms: NDArray[np.float64]
    problems: int
    problems_per_launch: float | None

    @property
    def answers_per_second(self) -> float:
        """Answers with status 200 per second."""
        return self.statuses.get(200, 0) / self.seconds

    def quantiles(self) -> dict[str, float]:
        """Return quantiles of the latency [ms], "p50" to "p100"; nothing where there was no answer."""
        if not len(self.latency_ms):
            return {}
        return {f"p{100 * q:g}": round(float(np.quantile(self.latency_ms, q)), 3) for q in QUANTILES}

    def document(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "seconds": round(self.seconds, 3),
            "sent": self.sent,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "answers_per_second": round(self.answers_per_second, 1),
            "problems_per_second": round(self.answers_per_second * self.problems, 1),
            "solved_share": self.solved_share,
            "latency_ms": self.quantiles(),
            "problems_per_launch": self.problems_per_launch,
        }


@dataclass
class _Tally:
    statuses: Counter[int] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    inside_ms: list[float] = field(default_factory=list)
    solved: int = 0
    sent: int = 0
    until: float = 0.0  # when the last answer that counts has come


def run_load(plan: LoadPlan) -> LoadReport:
    """Put a service under load and measure.

    Args:
        plan: What to do.

    Raises:
        LoadError: The service is not there, or refuses the request.
        InputError: The robot has no such link.
    """
    return asyncio.run(_run(plan))


async def _run(plan: LoadPlan) -> LoadReport:
    requests = await _requests(plan)
    if plan.warm_up_s > 0.0:
        await _send_all(replace(plan, duration_s=plan.warm_up_s), requests)
    before = await _batches(plan)
    started = time.perf_counter()
    tally = await _send_all(plan, requests)
    seconds = tally.until - started
    after = await _batches(plan)
    per_launch = None
    if before is not None and after is not None and after[1] > before[1]:
        per_launch = (after[0] - before[0]) / (after[1] - before[1])
    answered = tally.statuses[200] * plan.problems
    return LoadReport(
        seconds=seconds,
        sent=tally.sent,
        statuses=dict(tally.statuses),
        solved_share=tally.solved / answered if answered else 0.0,
        latency_ms=np.sort(np.array(tally.latencies_ms)),
        inside_ms=np.sort(np.array(tally.inside_ms)),
        problems=plan.problems,
        problems_per_launch=per_launch,
    )


# ---------------------------------------------------------------------- what is sent
async def _requests(plan: LoadPlan) -> list[bytes]:
    """Whole requests for reachable targets, tried once."""
    robot = await _robot(plan)
    link = plan.link if plan.link is not None else robot.link_names[-1]
    rng = np.random.default_rng(plan.random_seed)
    requests = []
    for _ in range(BODIES if plan.problems < 100 else 4):
        poses = robot.forward_kinematics(robot.random_free_joint_q(rng, plan.problems), [link])
        target = {
            "link": link,
            "positions": poses.positions[:, 0].astype(np.float32),
            "orientations_xyzw": poses.orientations_xyzw[:, 0].astype(np.float32),
        }
        body = orjson.dumps({"targets": [target], "options": plan.options}, option=orjson.OPT_SERIALIZE_NUMPY)
        requests.append(_raw(plan, "POST", f"/v1/robots/{plan.robot}/solve", body))
    status, body = await _once(plan, requests[0])
    if status != 200:
        raise LoadError(f"The service answered {status}: {body[:500].decode(errors='replace')}")
    return requests


async def _robot(plan: LoadPlan) -> RobotModel:
    """The robot: our own where it is built in, else as the service describes it."""
    if plan.robot in builtin_robot_names():
        return load_robot(plan.robot)
    status, body = await _once(plan, _raw(plan, "GET", f"/v1/robots/{plan.robot}/urdf"))
    if status != 200:
        raise LoadError(f"The service answered {status} for the robot: {body[:500].decode(errors='replace')}")
    return load_urdf(body.decode())


def _raw(plan: LoadPlan, method: str, path: str, body: bytes = b"") -> bytes:
    headers = {"Content-Type": "application/json"} if body else {}
    if plan.api_key is not None:
        headers["X-API-Key"] = plan.api_key
    return raw_request(method, path, plan.address.netloc, body, headers)


async def _once(plan: LoadPlan, request: bytes) -> tuple[int, bytes]:
    connection = await _connect(plan)
    try:
        return await connection.send(request)
    finally:
        await connection.close()


async def _connect(plan: LoadPlan) -> HttpConnection:
    address = plan.address
    try:
        return await HttpConnection.open(address.hostname or "", address.port or 80)
    except OSError as error:
        raise LoadError(f"Nothing answers at {plan.url}: {error.strerror or error}.") from error


async def _batches(plan: LoadPlan) -> tuple[float, float] | None:
    """Problems and launches so far, as the service's metrics tell them; None where they do not."""
    status, body = await _once(plan, _raw(plan, "GET", "/metrics"))
    if status != 200:
        return None
    found = {"sum": 0.0, "count": 0.0}
    for family in text_string_to_metric_families(body.decode()):
        if family.name == "ik_service_batch_problems":
            for sample in family.samples:
                kind = sample.name.rpartition("_")[2]
                if kind in found:
                    found[kind] += sample.value
    return found["sum"], found["count"]


# ---------------------------------------------------------------------- how it is sent
async def _send_all(plan: LoadPlan, requests: list[bytes]) -> _Tally:
    tally = _Tally()
    if plan.rate_hz is None:
        end = time.perf_counter() + plan.duration_s
        await asyncio.gather(*(_eager_client(plan, requests, k, end, tally) for k in range(plan.clients)))
    else:
        due: asyncio.Queue[tuple[bytes, float] | None] = asyncio.Queue()
        clients = [asyncio.create_task(_paced_client(plan, due, tally)) for _ in range(plan.clients)]
        await _let_arrive(plan, requests, due)
        for _ in clients:
            due.put_nowait(None)
        await asyncio.gather(*clients)
    tally.until = time.perf_counter()
    return tally


async def _eager_client(plan: LoadPlan, requests: list[bytes], first: int, end: float, tally: _Tally) -> None:
    """Send the next request as soon as the last one is answered."""
    connection, k = await _connect(plan), first
    try:
        while (now := time.perf_counter()) < end:
            connection = await _send(plan, connection, requests[k % len(requests)], now, tally)
            k += plan.clients
    finally:
        await connection.close()


async def _paced_client(plan: LoadPlan, due: "asyncio.Queue[tuple[bytes, float] | None]", tally: _Tally) -> None:
    """Send what is due, one after the other."""
    connection = await _connect(plan)
    try:
        while (arrival := await due.get()) is not None:
            connection = await _send(plan, connection, *arrival, tally)
    finally:
        await connection.close()


async def _let_arrive(plan: LoadPlan, requests: list[bytes], due: "asyncio.Queue[tuple[bytes, float] | None]") -> None:
    """Make requests due at random times of the given rate."""
    assert plan.rate_hz is not None
    gaps = np.random.default_rng(plan.random_seed).exponential(
        1.0 / plan.rate_hz, int(3 * plan.rate_hz * plan.duration_s) + 10
    )
    start = time.perf_counter()
    for k, offset in enumerate(np.cumsum(gaps)):
        if offset >= plan.duration_s:
            return
        ahead = start + offset - time.perf_counter()
        if ahead > 0.0:
            await asyncio.sleep(ahead)
        due.put_nowait((requests[k % len(requests)], start + offset))


async def _send(
    plan: LoadPlan, connection: HttpConnection, request: bytes, due: float, tally: _Tally
) -> HttpConnection:
    """Send a request, count its answer, and return the connection for the next one."""
    tally.sent += 1
    try:
        if not connection.is_open:
            connection = await _connect(plan)
        try:
            status, body = await connection.send(request)
        except ConnectionError:
            if connection.answers == 0:
                raise
            connection = await _connect(plan)  # the service may close one that was idle just when it is used again
            status, body = await connection.send(request)
    except ConnectionError:
        tally.statuses[0] += 1
        return connection
    tally.statuses[status] += 1
    if status == 200:
        tally.latencies_ms.append(1e3 * (time.perf_counter() - due))
        _, told, rest = body.rpartition(b'"total":')
        tally.inside_ms.append(float(rest.partition(b"}")[0]) if told else float("nan"))
        tally.solved += body.partition(b'"success":[')[2].partition(b"]")[0].count(b"true")
    return connection


def main() -> None:
    """Put a running service under load and print the report."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("url", help="where the service listens; the key is that of IK_SERVICE_API_KEY, if any")
    kinds = {"robot": str, "link": str, "problems": int, "rate_hz": float, "clients": int, "duration_s": float}
    for name, kind in {**kinds, "warm_up_s": float, "random_seed": int}.items():
        default = next(each.default for each in fields(LoadPlan) if each.name == name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=f"default: {default}")
    report = run_load(LoadPlan(**vars(parser.parse_args()), api_key=os.environ.get("IK_SERVICE_API_KEY")))
    print(orjson.dumps(report.document(), option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()

"""Prometheus metrics of one application: requests, queue and solves, by robot.

The number of labels is bounded: served robots, routes, methods, statuses. Each application has its own registry. The
workers of a service count into files of one folder, in the multiprocess mode of prometheus_client; so each worker can
show the metrics of the whole service. Labels stay in these files, also after a robot is deleted.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from starlette.types import Scope

from ik_service.kernels.kernel_loading import loaded_modules
from ik_service.robots import RobotModel
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.errors import RefusalReason
from ik_service.service.queue.solve_request import Answers, BatchShare, PoolObserver, QueuedRequest
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.result import IKResult

SOLVE_CALLS = ("/solve", "/solve_any", "/clip", "/follow")  # ends of addresses that the gate admits by their headers
REMOVED = "(removed)"
"""Label of robots that are no longer served."""
OTHER = "(other)"
"""Label of further robots, where a worker has counted `LABELS_MOST` of them."""
LABELS_MOST = 1024
"""Robots that a worker counts by name, those included that are deleted later."""
_METHODS = frozenset(("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "WEBSOCKET"))
_FAST = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
_SIZES = tuple(2**k for k in range(13))
_ISLANDS = (0, 1, 2, 3, 4, 6, 8, 16)
_OF_PROCESS: Mapping[str, Literal["livesum", "livemin"]] = {
    "process_virtual_memory_bytes": "livesum",
    "process_resident_memory_bytes": "livesum",
    "process_open_fds": "livesum",
    "process_start_time_seconds": "livemin",
    "process_max_fds": "livemin",
}
"""Values of a process, and how they become those of all workers; the CPU time, which is counted, is left out."""


class WeightedHistogram(Histogram):
    """Histogram with a method to count many equal values at once."""

    def observe_many(self, value: float, count: int) -> None:
        """Count a value several times."""
        self._sum.inc(count * value)
        self._buckets[bisect_left(self._upper_bounds, value)].inc(count)


class ServiceMetrics(PoolObserver):
    """Metrics of an application: observer of its requests and of its solver pool.

    Args:
        is_served: Returns whether the catalog has a robot of this name.
        worker: Number of this process among several workers, from 1 on; prometheus_client then keeps values in files.
            None: this process alone.
    """

    def __init__(self, is_served: Callable[[str], bool], *, worker: int | None = None) -> None:
        self._is_served, self._is_shared = is_served, worker is not None
        self.registry = registry = CollectorRegistry(auto_describe=False)
        self._read: dict[Gauge, Callable[[], float]] = {}  # gauges, each with the function of its value
        self._reading = threading.Lock()
        self._names: set[str] = set()  # labels of robots in the files of this worker
        self._shown = registry if worker is None else CollectorRegistry(auto_describe=False)
        build = Info("ik_service_build", "Version of the service.", registry=self._shown)
        build.info({"version": version("ik-service")})
        if self._is_shared:
            MultiProcessCollector(self._shown)
            self._cpu = Counter(
                "process_cpu_seconds", "User and system CPU time of all workers [s].", registry=registry
            )
            self._cpu_seconds, self._process = 0.0, ProcessCollector(registry=None)
            self._own = {
                name: Gauge(name, f"{name} of all workers.", registry=registry, multiprocess_mode=mode)
                for name, mode in _OF_PROCESS.items()
            }
        else:
            ProcessCollector(registry=registry)
        self._requests = Counter(
            "ik_service_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.open_requests = 0
        self._read[self._gauge("requests_open", "Requests that are being answered.")] = lambda: self.open_requests
        self._request_time = _histogram("request_seconds", "Time to answer a request [s].", "route", _FAST, registry)
        self._problems = Counter(
            "ik_service_problems", "Problems solved, by how their solve ended.", ["robot", "status"], registry=registry
        )
        self._batches = _histogram("batch_problems", "Problems of a batch.", "robot", _SIZES, registry)
        self._queue_wait = _histogram(
            "queue_wait_seconds", "Time that a request waited for its first batch [s].", "robot", _FAST, registry
        )
        self._solve_time = _histogram("solve_seconds", "Time to solve a batch [s].", "robot", _FAST, registry)
        self._compile_time = _histogram(
            "compile_seconds", "Time to compile kernels, or to find them in the cache [s].", "robot", _SLOW, registry
        )
        self._islands = _histogram("problem_islands", "Islands of a problem.", "robot", _ISLANDS, registry)
        self._dropped = Counter(
            "ik_service_dropped_requests", "Requests dropped before they were solved.", ["reason"], registry=registry
        )
        self._refused = Counter(
            "ik_service_refused_requests", "Requests refused because too much is asked.", ["reason"], registry=registry
        )
        # A label for each worker: the rise of a counter does not include its first value.
        starts = Counter("ik_service_worker_starts", "Starts of a process.", ["worker"], registry=registry)
        starts.labels(worker or 1).inc()
        self._read[self._gauge("loaded_modules", "Modules of kernels that are loaded.")] = loaded_modules
        self._queue_requests = self._gauge("queue_requests", "Requests that wait.")
        self._queue_problems = self._gauge("queue_problems", "Problems that wait.")
        self._compiling = self._gauge("compiling_kinds", "Kinds of requests that wait for their code.")
        self._robot_count = self._gauge("robots", "Robots that are served.", "livemax")
        self._ready = self._gauge("ready", "1 while the service is ready, 0 otherwise.", "livemin")
        # A look-up of labels takes longer than counting.
        self._labelled: Any = cache(lambda metric, *labels: metric.labels(*labels))

    def watch(self, pool: SolverPool, robot_count: Callable[[], int], is_ready: Callable[[], bool]) -> None:
        """Read the queue and the state of the service whenever metrics are read."""
        self._read[self._queue_requests] = lambda: pool.waiting_requests
        self._read[self._queue_problems] = lambda: pool.waiting_problems
        self._read[self._compiling] = lambda: pool.compiling_kinds
        self._read[self._robot_count] = robot_count
        self._read[self._ready] = lambda: float(is_ready())

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their media type, chosen by the Accept header."""
        self.refresh()
        encode, media_type = choose_encoder(accept)
        return encode(self._shown), media_type

    def refresh(self) -> None:
        """Set all gauges to their current values; other workers see the gauges of this worker, too."""
        with self._reading:
            for gauge, read in self._read.items():
                gauge.set(read())
            if self._is_shared:
                found = {sample.name: sample.value for family in self._process.collect() for sample in family.samples}
                spent_s = found.pop("process_cpu_seconds_total", 0.0)
                self._cpu.inc(max(0.0, spent_s - self._cpu_seconds))
                self._cpu_seconds = spent_s
                for name, value in found.items():
                    self._own[name].set(value)

    def _gauge(
        self, name: str, documentation: str, mode: Literal["livesum", "livemax", "livemin"] = "livesum"
    ) -> Gauge:
        return Gauge(f"ik_service_{name}", documentation, registry=self.registry, multiprocess_mode=mode)

    def forget(self, robot: str) -> None:
        """Drop the metrics of a deleted robot."""
        if self._is_shared:
            return
        histograms = (self._batches, self._queue_wait, self._solve_time, self._compile_time, self._islands)
        for metric in (*histograms, self._problems):
            metric.remove_by_labels({"robot": robot})
        self._labelled.cache_clear()

    # ------------------------------------------------------------------ of requests
    def answered(self, scope: Scope, status: int, seconds: float, *, is_unread: bool = False) -> None:
        """Count an answered request."""
        self.open_requests -= 1
        method = scope.get("method", "WEBSOCKET")
        unread = f"/v1/robots/{{robot}}/{scope.get('path', '/solve').rpartition('/')[2]}"
        route = unread if is_unread else getattr(scope.get("route"), "path", "(none)")
        self._labelled(self._requests, method if method in _METHODS else "(other)", route, status).inc()
        self._labelled(self._request_time, route).observe(seconds)

    # ------------------------------------------------------------------ of the pool
    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: Answers, seconds: float) -> None:
        """Count a batch: for each robot its problems, of a choice its groups, and the time of the whole batch."""
        started_at, row = time.monotonic() - seconds, 0
        rows: dict[str, list[slice]] = {}
        for share in shares:
            name = self._name_of(share.queued)
            rows.setdefault(name, []).append(slice(row, row + share.count))
            row += share.count
            if share.rows.start == 0:
                self._labelled(self._queue_wait, name).observe(max(0.0, started_at - share.queued.queued_at))
        for name, own in rows.items():
            self._labelled(self._batches, name).observe(sum(each.stop - each.start for each in own))
            self._labelled(self._solve_time, name).observe(seconds)
            judged = own if isinstance(result, IKResult) else [slice(None)]
            for word, count in zip(STATUS_WORDS, _counts(result.status, judged, len(STATUS_WORDS)), strict=True):
                counter = self._labelled(self._problems, name, word)  # counters of all statuses are there
                if count:
                    counter.inc(count)
            found = _counts(result.islands.nisland, own) if isinstance(result, IKResult) else []
            for islands, count in enumerate(found):
                if count:
                    self._islands.labels(name).observe_many(islands, count)

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Count a compilation."""
        self._compile_time.labels(self._name_of(queued)).observe(seconds)

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Count requests dropped unsolved."""
        for queued in queued_requests:
            self._dropped.labels("cancelled" if queued.future.cancelled() else "expired").inc()

    def refused(self, reason: RefusalReason) -> None:
        """Count a refused request, read or unread."""
        self._labelled(self._refused, reason).inc()

    def _name_of(self, queued: QueuedRequest) -> str:
        name = queued.label if queued.label is not None and self._is_served(queued.label) else REMOVED
        if self._is_shared and name not in self._names:
            if len(self._names) == LABELS_MOST:
                return OTHER
            self._names.add(name)
        return name


def _counts(values: NDArray[np.integer[Any]], rows: Sequence[slice], least: int = 0) -> list[int]:
    """Return the number of occurrences of 0, 1, 2 ... in some of the rows; the list has at least `least` entries."""
    taken = values[rows[0]] if len(rows) == 1 else np.concatenate([values[each] for each in rows])
    return [int(count) for count in np.bincount(taken, minlength=least)]


def _histogram(
    name: str, documentation: str, label: str, buckets: Sequence[float], registry: CollectorRegistry
) -> WeightedHistogram:
    return WeightedHistogram(f"ik_service_{name}", documentation, [label], buckets=buckets, registry=registry)

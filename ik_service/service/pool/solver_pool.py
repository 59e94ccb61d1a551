"""Solver thread of a device, behind a bounded queue.

    submit -> queue -> the free thread takes a batch -> solves the batch -> sets the results of futures

A solver is not thread-safe, and a solve blocks. So one thread runs all solvers, and the event loop stays responsive.
A builder process compiles the kernels for the first request of a key; this request waits up to its deadline while the
thread solves other requests.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from ik_service.robots import RobotModel
from ik_service.service.pool.batch_runner import BatchRunner
from ik_service.service.pool.kernel_builder import KernelBuilder
from ik_service.service.pool.kernel_gate import KernelGate
from ik_service.service.pool.solver_cache import EFFORT_MOST, SolverCache
from ik_service.service.queue.batch_size import BatchSizer
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, SolverLostError
from ik_service.service.queue.fair_cap import UNKNOWN_OWNER, Owner
from ik_service.service.queue.fair_queue import FairQueue
from ik_service.service.queue.solve_request import (
    RETRY_MOST_S,
    BatchShare,
    Expected,
    PoolObserver,
    QueuedRequest,
    SolveRequest,
    TimedResult,
    notify,
)
from ik_service.warp_start import start_warp

_logger = logging.getLogger(__name__)

SWEEP_S = 0.05
"""Interval of the search for requests that are cancelled or past their deadline [s]."""
QUIET_S = 0.2
"""A request has the solver to itself if no other one was there for so long [s]."""
WAIT_SHARE = 0.5
"""Share of its deadline that an accepted request may wait, by estimate; the rest covers errors of the estimate."""


@dataclass(frozen=True)
class PoolLimits:
    """Bounds of a pool."""

    requests: int = 1024  # largest number of waiting requests
    problems: int = 1_000_000  # largest number of waiting problems; a single request may have more
    # largest number of waiting kinds of requests with kernels, and equally many kinds still being compiled
    keys: int = 64
    solvers: int = 16  # number of solvers kept for later requests
    batch_problems: int = 16_384  # largest number of problems in a batch; 1 solves problems one by one
    timeout_s: float = 60.0  # default deadline, from the arrival of the request [s]
    is_shared: bool = False  # whether several owners share these limits


class SolverPool:
    """Takes requests from any thread and answers them through futures.

    `device` is "auto", "cpu", "cuda" or a CUDA device such as "cuda:1"; `threads` are the threads of a solver on a CPU,
    None: one thread. With `compile_apart`, a separate process compiles kernels.
    """

    def __init__(
        self,
        device: str = "auto",
        *,
        limits: PoolLimits | None = None,
        threads: int | None = None,
        compile_apart: bool = True,
        observer: PoolObserver | None = None,
    ) -> None:
        self.limits = limits or PoolLimits()
        self._observer, self._batch_sizer = observer or PoolObserver(), BatchSizer(self.limits.batch_problems)
        self._to_compile: list[QueuedRequest] | None = None  # within `submit_together`: requests without kernels
        self._queue = FairQueue(
            request_limit=self.limits.requests,
            problem_limit=self.limits.problems,
            group_limit=self.limits.keys,
            is_shared=self.limits.is_shared,
        )
        self._changed = threading.Condition()  # its lock is reentrant
        builder = KernelBuilder(device) if compile_apart else None
        self._gate = KernelGate(builder, self._queue, self._changed, self._observer)
        solvers = SolverCache(device, capacity=self.limits.solvers, threads=threads, effort_most=EFFORT_MOST)
        self._runner = BatchRunner(solvers, self._queue, self._changed, self._gate, self._batch_sizer, self._observer)
        self._closed, self._swept_at = False, 0.0
        self._failure: BaseException | None = None  # the error that ended the thread
        self._in_progress: tuple[QueuedRequest, ...] = ()  # taken from the queue by the thread
        self._is_solving, self._took_at = False, 0.0
        self._shared_at = 0.0  # last arrival of a request while the pool was busy
        self._thread = threading.Thread(target=self._run, name="ik-solver", daemon=True)
        self._thread.start()

    @property
    def waiting_requests(self) -> int:
        """Number of waiting requests."""
        return self._queue.request_cap.used

    @property
    def waiting_problems(self) -> int:
        """Number of waiting problems."""
        return self._queue.problems

    @property
    def compiling_kinds(self) -> int:
        """Number of kinds of requests whose code is being compiled, or waits to be."""
        return len(self._gate.awaited)

    @property
    def solving_s(self) -> float:
        """Time since the start of the current batch [s]: 0 without a batch, infinite after the end of the thread."""
        if not self._thread.is_alive():
            return math.inf
        with self._changed:
            return time.monotonic() - self._took_at if self._is_solving else 0.0

    def submit(
        self,
        robot: RobotModel,
        request: SolveRequest,
        *,
        timeout_s: float | None = None,
        label: str | None = None,
        owner: Owner = None,
        compile_here: bool = False,
    ) -> Future[TimedResult]:
        """Queue a request of at least one problem; cancel and timeout drop all work not yet started.

        `timeout_s` is the time until the deadline of the answer [s]; None: default of the pool. `label` is the name of
        the robot for the observer. Owners share the solver's time and the queue. With `compile_here`, the solver thread
        compiles; faster if the thread is idle.

        QueueFullError if the queue is full, ShareExhaustedError if only the owner's share is full; CompileFailedError
        or KernelCacheError if the code could not be compiled or kept; ClosedError or SolverLostError as in
        `require_room`.
        """
        now, timeout_s = time.monotonic(), self.limits.timeout_s if timeout_s is None else timeout_s
        queued = QueuedRequest(robot, request, now, now + timeout_s, label=label, owner=owner)
        key = queued.key
        with self._changed:
            if self._is_solving or self._queue.request_cap.used:
                self._shared_at = now
            if key not in self._batch_sizer.paces and queued.may_be_slow:
                self._batch_sizer.start_small(key)
            if request.options.deadline_s is not None:
                self._batch_sizer.set_timed(key)
            queued.is_small = request.is_alone or queued.problem_count <= self._batch_sizer.budget(key)
            try:
                self.require_room(Expected(key, queued.problem_count, owner), timeout_s=timeout_s, is_read=True)
                is_ready = key not in self._queue.groups and self._gate.is_ready(queued, compile_here)
                is_open = self._queue.put(queued, is_open=is_ready)
            except QueueFullError as error:
                notify(self._observer.refused, error.reason)
                raise
            must_compile = not is_open and self._gate.open_or_wait(queued, compile_here)
            if must_compile and self._to_compile is not None:
                self._to_compile.append(queued)
                must_compile = False
            self._changed.notify()
        if must_compile:
            self._gate.compile(queued)
        return queued.future

    @contextmanager
    def submit_together(self) -> Iterator[None]:
        """Keep the solver thread from taking a batch before all requests of this block are submitted."""
        to_compile: list[QueuedRequest] = []
        try:
            with self._changed:
                self._to_compile = to_compile
                try:
                    yield
                finally:
                    self._to_compile = None
        finally:
            for queued in to_compile:  # without the lock: the start of a process takes a while
                self._gate.compile(queued)

    def require_room(
        self,
        expected: Expected | None = None,
        *,
        timeout_s: float | None = None,
        lag_s: float = 0.0,
        is_read: bool = False,
    ) -> None:
        """Check the estimated wait of a request, and the room in the queue; `timeout_s` is as in `submit`.

        `lag_s` is the waiting time of the request and its answer outside the queue [s]. Unless `is_read`, a request is
        refused after its deadline. QueueFullError if the wait would be too long, or the queue or the owner's share is
        full; ExpiredError after the deadline; ClosedError if the pool is closing, SolverLostError if the solver thread
        has failed.
        """
        timeout_s = self.limits.timeout_s if timeout_s is None else timeout_s
        key, problem_count, owner = expected or Expected(None, 1, UNKNOWN_OWNER)
        wait_s, sizer = 0.0, self._batch_sizer
        with self._changed:
            if self._failure is not None:
                raise self._solver_lost_error()
            if self._closed:
                raise ClosedError("The service is shutting down.")
            if timeout_s <= 0.0 and not is_read:
                raise ExpiredError("The deadline passed before the request was read. Nothing was solved.")
            if key is not None and self._queue.request_cap.used:
                is_small = problem_count <= sizer.budget(key)
                wait_s = self._queue.seconds_until(owner, key, sizer.usual_seconds, is_small=is_small)
            try:
                if wait_s + lag_s > WAIT_SHARE * timeout_s:
                    raise QueueFullError(
                        f"About {wait_s + lag_s:.3g} s would pass before the request is solved, and its deadline is in "
                        f"{timeout_s:.3g} s. Try again later.",
                        "wait" if wait_s >= lag_s else "lag",
                    )
                self._queue.require_room(owner, problem_count)
            except QueueFullError as error:
                error.retry_after_s = max(1, min(RETRY_MOST_S, math.ceil(0.5 * wait_s)))
                raise

    def close(self) -> None:
        """Refuse new requests, drop the waiting requests and end the threads."""
        with self._changed:
            self._closed = True
            left = self._queue.clear()
            self._changed.notify_all()
        for queued in left:
            queued.future.cancel()
        self._thread.join()
        self._gate.close()

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        try:
            start_warp()
            self._serve()
        except SolverLostError as error:
            _logger.error("%s. Nothing is solved any more; start the service again.", error)
            self._fail_all(error)
        except BaseException as error:  # any error: otherwise callers would wait for an ended thread
            _logger.exception("The thread of the solver has failed; nothing is solved any more.")
            self._fail_all(error)

    def _fail_all(self, failure: BaseException) -> None:
        """Fail all requests; `submit` refuses new requests."""
        with self._changed:
            self._failure = failure
            left = [*self._in_progress, *self._queue.clear()]
            self._changed.notify_all()
        for queued in left:
            queued.fail(self._solver_lost_error())

    def _solver_lost_error(self) -> SolverLostError:
        error = SolverLostError("The solver has failed and solves nothing any more. Start the service again.")
        error.__cause__ = self._failure
        return error

    def _serve(self) -> None:
        while True:
            with self._changed:
                now, stale = time.monotonic(), list[QueuedRequest]()
                shares: tuple[BatchShare, ...] = ()
                if now >= self._swept_at + SWEEP_S:
                    stale, self._swept_at = self._queue.drop_stale(now), now
                if not stale:
                    budget = partial(self._batch_sizer.budget, alone=now > self._shared_at + QUIET_S)
                    shares = self._queue.take(budget)
                self._is_solving, self._took_at = bool(shares), time.monotonic()
                self._in_progress = (*stale, *(share.queued for share in shares))
                if not self._in_progress:
                    if self._closed:
                        return
                    self._changed.wait(SWEEP_S if self._queue.request_cap.used else None)
                    continue
            if stale:
                self._runner.expire(stale)
            else:
                self._runner.run(shares)

"""One thread that owns the solvers of a device, behind a bounded queue.

    submit -> queue -> the thread takes a batch whenever it is free -> solves it -> brings the answers by futures

A solver is not thread-safe and a solve blocks, so all of them run in this thread and the event loop above goes on
answering. Kernels for the first request of a key are compiled in another process meanwhile; the request waits for them
under its deadline, and other keys go on.
"""

import logging
import math
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from ik_service.batching.errors import (
    ClosedError,
    ExpiredError,
    QueueFullError,
    SolverLostError,
    compile_failed_error,
    solver_stuck_error,
)
from ik_service.batching.kernels.builder_process import is_build_failure
from ik_service.batching.kernels.kernel_builder import KernelBuilder
from ik_service.batching.kernels.kernel_gate import KernelGate
from ik_service.batching.pool_limits import PoolLimits
from ik_service.batching.pool_observer import PoolObserver, SafeObserver
from ik_service.batching.queue.batch_size import BatchSizer
from ik_service.batching.queue.fair_cap import UNKNOWN_OWNER, Owner
from ik_service.batching.queue.fair_queue import FairQueue, expired
from ik_service.batching.queue.queued_request import BatchShare, Expected, QueuedRequest
from ik_service.batching.requests.solve_answer import SolveAnswer
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.solver_cache import EFFORT_MOST, SolverCache, staged_effort
from ik_service.robots import RobotModel
from ik_service.warp_start import start_warp
from objectives.errors import InputError

_log = logging.getLogger(__name__)

SWEEP_S = 0.05
"""How often requests that nobody waits for any more are looked for."""
WAIT_SHARE = 0.5
"""Of its deadline that a request may spend waiting, by estimate, to be accepted; the rest covers the estimate."""
GRACE_S = 0.25
"""How long after its deadline a request is given up by who waits: the solver knows better what has become of it."""
QUIET_S = 0.2
"""A request that has found nobody else there for so long has the solver to itself."""


class SolverPool:
    """Takes requests from any thread and answers them through futures.

    Args:
        device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
        limits: Its bounds.
        threads: Threads of a solver on a CPU; None is one.
        compile_apart: Whether a process of its own compiles.
        observer: Is told what happens.
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
        self._solver_cache = SolverCache(device, capacity=self.limits.solvers, threads=threads, effort_most=EFFORT_MOST)
        self._observer, self._batch_sizer = SafeObserver(observer), BatchSizer(self.limits.batch_problems)
        self._unbuilt: list[QueuedRequest] | None = (
            None  # within `submit_together`: those whose code has to be compiled
        )
        self._queue = FairQueue(
            request_limit=self.limits.requests,
            problem_limit=self.limits.problems,
            group_limit=self.limits.keys,
            is_shared=self.limits.is_shared,
        )
        self._changed = threading.Condition()  # of a lock that one thread may take several times
        builder = KernelBuilder(device) if compile_apart else None
        self._gate = KernelGate(builder, self._queue, self._changed, self._observer)
        self._closed, self._swept_at = False, 0.0
        self._failure: BaseException | None = None  # what has ended the thread
        self._in_progress: tuple[QueuedRequest, ...] = ()  # taken out of the queue by the thread
        self._is_solving, self._took_at = False, 0.0
        self._shared_at = 0.0  # when a request last found others there
        self._thread = threading.Thread(target=self._run, name="ik-solver", daemon=True)
        self._thread.start()

    @property
    def waiting_requests(self) -> int:
        """Requests that wait."""
        return self._queue.requests

    @property
    def waiting_problems(self) -> int:
        """Problems that wait."""
        return self._queue.problems

    @property
    def solving_s(self) -> float:
        """How long the thread has been at the same batch [s]: 0 while it waits for one, infinite once it has ended."""
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
    ) -> Future[SolveAnswer]:
        """Queue a request; what of it has not begun when its future is cancelled or its time is over is never solved.

        Args:
            robot: The robot.
            request: At least one problem.
            timeout_s: How long anybody waits for the answer [s]; None takes the pool's.
            label: What the observer is to call the robot.
            owner: Whose it is; owners share the solver's time, and what may wait.
            compile_here: Whether the solver's own thread compiles, which is sooner where it has nothing else to do.

        Raises:
            QueueFullError: Too much is waiting; a ShareExhaustedError where too much of the same owner's is.
            CompileFailedError: The code that it needs could not be compiled before.
            ClosedError: The pool is closing; a SolverLostError where its thread has failed.
        """
        now, timeout_s = time.monotonic(), self.limits.timeout_s if timeout_s is None else timeout_s
        queued = QueuedRequest(robot, request, now, now + timeout_s, label=label, owner=owner)
        with self._changed:
            self._require_open()
            if self._is_solving or self._queue.requests:
                self._shared_at = now
            if queued.may_be_slow:
                self._batch_sizer.start_small(queued.key)
            queued.is_small = self._is_small(queued.key, request.problem_count)
            wait_s = self._wait_s(owner, queued.key, is_small=queued.is_small)
            try:
                self._require_room(owner, request.problem_count, wait_s, timeout_s)
                is_ready = not self._queue.has_group(queued.key) and self._gate.is_ready(queued, compile_here)
                self._queue.put(queued, is_open=is_ready)
            except QueueFullError as error:
                self._observer.refused(error.reason)
                raise
            is_open = self._queue.is_open(queued.key)
            must_compile = not is_open and self._gate.open_or_wait(queued, compile_here)
            if must_compile and self._unbuilt is not None:
                self._unbuilt.append(queued)
                must_compile = False
            self._changed.notify()
        if must_compile:
            self._gate.compile(queued)
        return queued.future

    @contextmanager
    def submit_together(self) -> Iterator[None]:
        """Let the solver's thread begin none of what is submitted within, by this thread, before all of it is there."""
        unbuilt: list[QueuedRequest] = []
        try:
            with self._changed:
                self._unbuilt = unbuilt
                try:
                    yield
                finally:
                    self._unbuilt = None
        finally:
            for queued in unbuilt:  # without the lock: a process takes a while to start
                self._gate.compile(queued)

    def require_room(
        self, expected: Expected | None = None, *, timeout_s: float | None = None, lag_s: float = 0.0
    ) -> None:
        """Refuse early what would be refused by `submit`.

        Args:
            expected: What the request will be; None where that is not known.
            timeout_s: How long anybody waits for the answer from now on [s]; None takes the pool's.
            lag_s: How long the request and its answer will wait outside of the queue [s].

        Raises:
            QueueFullError: Too much is waiting.
            ExpiredError: Nobody waits any more.
            ClosedError: The pool is closing; a SolverLostError where its thread has failed.
        """
        timeout_s = self.limits.timeout_s if timeout_s is None else timeout_s
        with self._changed:
            self._require_open()
            if timeout_s <= 0.0:
                raise ExpiredError("The deadline passed before the request was read. Nothing was solved.")
            wait_s, count, owner = 0.0, 1, UNKNOWN_OWNER
            if expected is not None:
                count, owner = expected.problem_count, expected.owner
                wait_s = self._wait_s(owner, expected.key, is_small=self._is_small(expected.key, count))
            self._require_room(owner, count, wait_s, timeout_s, lag_s)

    def solve(self, robot: RobotModel, request: SolveRequest) -> SolveAnswer:
        """Queue a request and wait for its answer.

        Raises:
            QueueFullError: Too much is waiting.
            ClosedError: The pool is closing; a SolverLostError where its thread has failed.
            ExpiredError: The pool's deadline has passed, even where its thread does not come back.
            InputError: The solver refuses a value.
            EngineError: No engine can run this problem.
        """
        future = self.submit(robot, request)
        try:
            return future.result(self.limits.timeout_s + GRACE_S)
        except TimeoutError:
            future.cancel()
            raise solver_stuck_error(self.limits.timeout_s) from None

    def close(self, *, drain_s: float = 0.0) -> None:
        """Take no more requests, solve what waits for a while, drop the rest and end the threads.

        Args:
            drain_s: How long to go on with what waits [s].
        """
        end = time.monotonic() + drain_s
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._queue.requests and self._changed.wait(max(0.0, end - time.monotonic())):
                pass
            left = self._queue.clear()
            self._changed.notify_all()
        for queued in left:
            queued.future.cancel()
        self._thread.join()
        self._gate.close()

    # ------------------------------------------------------------------ room
    def _is_small(self, key: Hashable, problem_count: int) -> bool:
        return problem_count <= self._batch_sizer.budget(key)

    def _wait_s(self, owner: Owner, key: Hashable, *, is_small: bool) -> float:
        return self._queue.seconds_until(owner, key, self._batch_sizer.usual_seconds, is_small=is_small)

    def _require_room(
        self, owner: Owner, problem_count: int, wait_s: float, timeout_s: float, lag_s: float = 0.0
    ) -> None:
        try:
            if wait_s + lag_s > WAIT_SHARE * timeout_s:
                raise QueueFullError(
                    f"About {wait_s + lag_s:.3g} s would pass before the request is solved, and its deadline is in "
                    f"{timeout_s:.3g} s. Try again later.",
                    "wait" if wait_s >= lag_s else "lag",
                )
            self._queue.require_room(owner, problem_count)
        except QueueFullError as error:
            error.retry_after_s = max(1, min(60, math.ceil(0.5 * wait_s)))
            raise

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        try:
            start_warp()
            self._serve()
        except BaseException as error:  # noqa: BLE001  # whatever it is: callers would wait for a thread that is gone
            _log.exception("The thread of the solver has failed; nothing is solved any more.")
            self._fail_all(error)

    def _fail_all(self, failure: BaseException) -> None:
        """End all that waits, and take no more."""
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
                stale = self._drop_stale()
                shares = () if stale else self._queue.take(self._budget)
                self._is_solving, self._took_at = bool(shares), time.monotonic()
                self._in_progress = (*stale, *(share.queued for share in shares))
                if not shares and not stale:
                    if self._closed:
                        self._changed.notify_all()  # to `close`, which waits for an empty queue
                        if not self._queue.requests:
                            return
                    self._changed.wait(SWEEP_S if self._queue.requests else None)
                    continue
            self._end_stale(stale)
            if shares:
                self._solve(shares)

    def _budget(self, key: Hashable) -> int:
        return self._batch_sizer.budget(key, alone=time.monotonic() > self._shared_at + QUIET_S)

    def _drop_stale(self) -> list[QueuedRequest]:
        now = time.monotonic()
        if now < self._swept_at + SWEEP_S:
            return []
        self._swept_at = now
        return self._queue.drop_stale(now)

    def _end_stale(self, queued_requests: Sequence[QueuedRequest]) -> None:
        for queued in queued_requests:
            queued.fail(expired(queued, time.monotonic(), self._gate.seconds_left(queued.owner)))
        self._observer.dropped(queued_requests)

    def _solve(self, shares: tuple[BatchShare, ...]) -> None:
        """Solve a batch, but for requests that nobody waits for any more, and charge its group."""
        started_at = time.monotonic()
        kept: list[BatchShare] = []
        dropped: list[QueuedRequest] = []
        for share in shares:
            if share.queued.future.cancelled() or self._is_lost(share, started_at):
                dropped.append(share.queued)
            else:
                kept.append(share)
        if kept:
            self._solve_batch(kept)
        seconds = time.monotonic() - started_at
        self._batch_sizer.record(shares[0].queued.key, sum(share.count for share in kept), seconds)
        with self._changed:
            for queued in dropped:
                self._queue.discard(queued)
            self._queue.charge(shares, seconds)
        self._end_stale(dropped)

    def _is_lost(self, share: BatchShare, now: float) -> bool:
        """Whether a request will miss its deadline even if all that is left of it is solved at once and fast."""
        left = share.count + share.queued.remaining
        return share.queued.deadline <= now + left * self._batch_sizer.least_seconds(share.queued.key)

    def _solve_batch(self, shares: Sequence[BatchShare]) -> None:
        """Bring the answers of a batch; a request that the solver refuses fails alone."""
        robot, started_at = shares[0].queued.robot, time.monotonic()
        try:
            requests = [share.queued.request.part(share.rows) for share in shares]
            result = self._solver_cache.solve_together(robot, requests)
        except Exception as error:  # noqa: BLE001  # whatever it is goes to the callers, and the thread goes on
            if len(shares) > 1 and isinstance(error, InputError):
                for share in shares:
                    self._solve_batch([share])
                return
            if is_build_failure(error):
                _log.warning("Kernels for robot '%s' cannot be compiled. %s", robot.name, error)
                self._gate.fail(shares[0].queued)
                error = compile_failed_error(robot.name)
            for share in shares:
                self._fail(share.queued, error)
            return
        if result.engine == "staged" and result.device == "cpu":
            effort = staged_effort(robot, shares[0].queued.request.options)
            self._batch_sizer.bound(shares[0].queued.key, max(1, int(EFFORT_MOST / effort)))
        ended_at, row = time.monotonic(), 0
        for share in shares:
            rows, row = slice(row, row + share.count), row + share.count
            if share.queued.deadline <= ended_at:
                self._fail(share.queued, ExpiredError("The deadline passed while the request was being solved."))
                continue
            try:
                share.queued.keep(result, rows, started_at, ended_at)
            except Exception as error:  # noqa: BLE001  # too little memory for this answer; the others are there
                self._fail(share.queued, error)
        self._observer.solved(robot, shares, result, ended_at - started_at)

    def _fail(self, queued: QueuedRequest, error: BaseException) -> None:
        with self._changed:
            self._queue.discard(queued)
        queued.fail(error)

    def _require_open(self) -> None:
        if self._failure is not None:
            raise self._solver_lost_error()
        if self._closed:
            raise ClosedError("The service is shutting down.")

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
    compile_failed,
    held_up,
)
from ik_service.batching.kernels.builder_process import is_build_failure
from ik_service.batching.kernels.kernel_builder import KernelBuilder
from ik_service.batching.kernels.kernel_gate import KernelGate
from ik_service.batching.pool_limits import PoolLimits
from ik_service.batching.pool_observer import Messenger, PoolObserver
from ik_service.batching.queue.batch_size import Pace
from ik_service.batching.queue.fair_cap import STRANGER, Owner
from ik_service.batching.queue.fair_queue import FairQueue, expired
from ik_service.batching.queue.queued_request import Expected, Share, Work
from ik_service.batching.requests.solve_answer import SolveAnswer
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.solver_cache import EFFORT_MOST, SolverShelf, staged_effort
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
        self._shelf = SolverShelf(device, capacity=self.limits.solvers, threads=threads, effort_most=EFFORT_MOST)
        self._messenger, self._pace = Messenger(observer), Pace(self.limits.batch_problems)
        self._unbuilt: list[Work] | None = None  # within `together`: those whose code has to be compiled
        self._queue = FairQueue(
            request_limit=self.limits.requests,
            problem_limit=self.limits.problems,
            lane_limit=self.limits.keys,
            is_shared=self.limits.is_shared,
        )
        self._changed = threading.Condition()  # of a lock that one thread may take several times
        builder = KernelBuilder(device) if compile_apart else None
        self._gate = KernelGate(builder, self._queue, self._changed, self._messenger)
        self._closed, self._swept_at = False, 0.0
        self._failure: BaseException | None = None  # what has ended the thread
        self._at_hand: tuple[Work, ...] = ()  # taken out of the queue by the thread
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
        work = Work(robot, request, now, now + timeout_s, label=label, owner=owner)
        with self._changed:
            self._require_open()
            if self._is_solving or self._queue.requests:
                self._shared_at = now
            if work.may_be_slow:
                self._pace.may_be_slow(work.key)
            work.is_small = self._is_small(work.key, request.problem_count)
            wait_s = self._wait_s(owner, work.key, is_small=work.is_small)
            try:
                self._require_room(owner, request.problem_count, wait_s, timeout_s)
                is_known = not self._queue.has_lane(work.key) and self._gate.is_known(work, compile_here)
                self._queue.put(work, is_open=is_known)
            except QueueFullError as error:
                self._messenger.refused(error.reason)
                raise
            is_open = self._queue.is_open(work.key)
            must_compile = not is_open and self._gate.open_or_await(work, compile_here)
            if must_compile and self._unbuilt is not None:
                self._unbuilt.append(work)
                must_compile = False
            self._changed.notify()
        if must_compile:
            self._gate.compile(work)
        return work.future

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let the solver's thread begin none of what is submitted within, by this thread, before all of it is there."""
        unbuilt: list[Work] = []
        try:
            with self._changed:
                self._unbuilt = unbuilt
                try:
                    yield
                finally:
                    self._unbuilt = None
        finally:
            for work in unbuilt:  # without the lock: a process takes a while to start
                self._gate.compile(work)

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
            wait_s, count, owner = 0.0, 1, STRANGER
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
            raise held_up(self.limits.timeout_s) from None

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
        for work in left:
            work.future.cancel()
        self._thread.join()
        self._gate.close()

    # ------------------------------------------------------------------ room
    def _is_small(self, key: Hashable, problem_count: int) -> bool:
        return problem_count <= self._pace.budget(key)

    def _wait_s(self, owner: Owner, key: Hashable, *, is_small: bool) -> float:
        return self._queue.seconds_until(owner, key, self._pace.usual_seconds, is_small=is_small)

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
            self._give_up(error)

    def _give_up(self, failure: BaseException) -> None:
        """End all that waits, and take no more."""
        with self._changed:
            self._failure = failure
            left = [*self._at_hand, *self._queue.clear()]
            self._changed.notify_all()
        for work in left:
            work.fail(self._lost())

    def _lost(self) -> SolverLostError:
        error = SolverLostError("The solver has failed and solves nothing any more. Start the service again.")
        error.__cause__ = self._failure
        return error

    def _serve(self) -> None:
        while True:
            with self._changed:
                stale = self._drop_stale()
                shares = () if stale else self._queue.take(self._budget)
                self._is_solving, self._took_at = bool(shares), time.monotonic()
                self._at_hand = (*stale, *(share.work for share in shares))
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
        return self._pace.budget(key, alone=time.monotonic() > self._shared_at + QUIET_S)

    def _drop_stale(self) -> list[Work]:
        now = time.monotonic()
        if now < self._swept_at + SWEEP_S:
            return []
        self._swept_at = now
        return self._queue.drop_stale(now)

    def _end_stale(self, works: Sequence[Work]) -> None:
        for work in works:
            work.fail(expired(work, time.monotonic(), self._gate.seconds_left(work.owner)))
        self._messenger.dropped(works)

    def _solve(self, shares: tuple[Share, ...]) -> None:
        """Solve a batch, but for requests that nobody waits for any more, and charge its lane."""
        started_at = time.monotonic()
        live: list[Share] = []
        gone: list[Work] = []
        for share in shares:
            if share.work.future.cancelled() or self._is_lost(share, started_at):
                gone.append(share.work)
            else:
                live.append(share)
        if live:
            self._solve_live(live)
        seconds = time.monotonic() - started_at
        self._pace.note(shares[0].work.key, sum(share.count for share in live), seconds)
        with self._changed:
            for work in gone:
                self._queue.discard(work)
            self._queue.spend(shares, seconds)
        self._end_stale(gone)

    def _is_lost(self, share: Share, now: float) -> bool:
        """Whether a request will miss its deadline even if all that is left of it is solved at once and fast."""
        left = share.count + share.work.remaining
        return share.work.deadline <= now + left * self._pace.least_seconds(share.work.key)

    def _solve_live(self, shares: Sequence[Share]) -> None:
        """Bring the answers of a batch; a request that the solver refuses fails alone."""
        robot, started_at = shares[0].work.robot, time.monotonic()
        try:
            requests = [share.work.request.part(share.rows) for share in shares]
            result = self._shelf.solve_together(robot, requests)
        except Exception as error:  # noqa: BLE001  # whatever it is goes to the callers, and the thread goes on
            if len(shares) > 1 and isinstance(error, InputError):
                for share in shares:
                    self._solve_live([share])
                return
            if is_build_failure(error):
                _log.warning("Kernels for robot '%s' cannot be compiled. %s", robot.name, error)
                self._gate.fail(shares[0].work)
                error = compile_failed(robot.name)
            for share in shares:
                self._fail(share.work, error)
            return
        if result.engine == "staged" and result.device == "cpu":
            effort = staged_effort(robot, shares[0].work.request.options)
            self._pace.bound(shares[0].work.key, max(1, int(EFFORT_MOST / effort)))
        ended_at, row = time.monotonic(), 0
        for share in shares:
            rows, row = slice(row, row + share.count), row + share.count
            if share.work.deadline <= ended_at:
                self._fail(share.work, ExpiredError("The deadline passed while the request was being solved."))
                continue
            try:
                share.work.keep(result, rows, started_at, ended_at)
            except Exception as error:  # noqa: BLE001  # too little memory for this answer; the others are there
                self._fail(share.work, error)
        self._messenger.solved(robot, shares, result, ended_at - started_at)

    def _fail(self, work: Work, error: BaseException) -> None:
        with self._changed:
            self._queue.discard(work)
        work.fail(error)

    def _require_open(self) -> None:
        if self._failure is not None:
            raise self._lost()
        if self._closed:
            raise ClosedError("The service is shutting down.")

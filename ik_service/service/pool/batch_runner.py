"""Solution of batches in the solver thread: selection of live requests, results and errors."""

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial

from ik_service.errors import KernelCacheError
from ik_service.service.pool.builder_process import is_build_failure
from ik_service.service.pool.kernel_builder import BuildEnd
from ik_service.service.pool.kernel_gate import KernelGate
from ik_service.service.pool.solver_cache import EFFORT_MOST, SolverCache, staged_effort
from ik_service.service.queue.batch_size import BatchSizer
from ik_service.service.queue.errors import CompileFailedError, ExpiredError, SolverLostError
from ik_service.service.queue.fair_queue import FairQueue
from ik_service.service.queue.solve_request import BatchShare, PoolObserver, QueuedRequest, notify
from ik_service.solver.deadline import TIME_CHECK
from ik_service.solver.result import IKResult
from objectives.errors import InputError

_logger = logging.getLogger(__name__)


class BatchRunner:
    """Solves batches and sets the answers of their requests. Belongs to the solver thread.

    `changed` is the condition with the lock of the queue. The gate fails requests with code that cannot be compiled;
    the batch sizer records the times of batches; the observer receives solved batches and dropped requests.
    """

    def __init__(
        self,
        solver_cache: SolverCache,
        queue: FairQueue,
        changed: threading.Condition,
        gate: KernelGate,
        batch_sizer: BatchSizer,
        observer: PoolObserver,
    ) -> None:
        self.solver_cache, self._queue, self._changed = solver_cache, queue, changed
        self._gate, self._batch_sizer, self._observer = gate, batch_sizer, observer

    def run(self, shares: tuple[BatchShare, ...]) -> None:
        """Solve a batch and charge its owners; drop cancelled requests and requests that would miss their deadline."""
        key, started_at = shares[0].queued.key, time.monotonic()
        least_s = self._batch_sizer.least_seconds(key)
        kept: list[BatchShare] = []
        dropped: list[QueuedRequest] = []
        for share in shares:
            queued = share.queued
            end_s = started_at + (share.count + queued.remaining) * least_s  # of all its problems, solved at once
            if queued.future.cancelled() or queued.deadline <= end_s:
                dropped.append(queued)
            else:
                kept.append(share)
        if kept:
            self._solve(kept)
        seconds = time.monotonic() - started_at
        self._batch_sizer.record(key, sum(share.count for share in kept), seconds)
        with self._changed:
            for queued in dropped:
                self._queue.discard(queued)
            self._queue.charge(shares, seconds)
        if dropped:
            self.expire(dropped)

    def expire(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Set the errors of expired and cancelled requests."""
        for queued in queued_requests:
            queued.fail(queued.expired_error(time.monotonic(), self._gate.seconds_left(queued.owner)))
        notify(self._observer.dropped, queued_requests)

    def _solve(self, shares: Sequence[BatchShare]) -> None:
        """Solve a batch and keep the results; if the solver refuses the batch, solve its requests one by one.

        SolverLostError if the device has failed; the batch gets no answer.
        """
        robot, started_at = shares[0].queued.robot, time.monotonic()
        try:
            requests = []
            for share in shares:
                asked = share.queued.request
                requests.append(asked if share.count == share.queued.problem_count else asked.part(share.rows))
            TIME_CHECK.set(partial(shares[0].queued.require_time, time.thread_time()))
            result = self.solver_cache.solve_together(robot, requests, shares[0].queued.owner)
        except Exception as error:  # objectives, Warp, compilers: any error; callers get the error, the thread goes on
            if len(shares) > 1 and isinstance(error, InputError):
                for share in shares:
                    self._solve([share])
                return
            if (device := self.solver_cache.lost_device()) is not None:
                raise SolverLostError(f"Device {device} works no more: {error}") from error
            if is_build_failure(error):
                _logger.warning("Kernels for robot '%s' cannot be compiled. %s", robot.name, error)
                self._gate.fail(shares[0].queued)
                error = CompileFailedError(robot.name)
            elif isinstance(error, KernelCacheError):
                self._gate.fail(shares[0].queued, BuildEnd.NOT_KEPT)
            for share in shares:
                self._fail(share.queued, error)
            return
        if (
            isinstance(result, IKResult) and result.engine == "staged" and result.device == "cpu"
        ):  # a GPU tries many problems side by side
            effort = staged_effort(robot, shares[0].queued.request.options)
            self._batch_sizer.bound(shares[0].queued.key, max(1, int(EFFORT_MOST / effort)))
        ended_at, row = time.monotonic(), 0
        # before the answers: these wake the event loop, which would only wait for this thread
        notify(self._observer.solved, robot, shares, result, ended_at - started_at)
        for share in shares:
            rows, row = slice(row, row + share.count), row + share.count
            if share.queued.deadline <= ended_at:
                self._fail(share.queued, ExpiredError("The deadline passed while the request was being solved."))
                continue
            try:
                share.queued.keep(result, rows, started_at, ended_at)
            except Exception as error:  # noqa: BLE001  # for example too little memory: only this caller fails
                self._fail(share.queued, error)

    def _fail(self, queued: QueuedRequest, error: BaseException) -> None:
        with self._changed:
            self._queue.discard(queued)
        queued.fail(error)

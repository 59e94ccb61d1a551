"""A request in the queue, its problems in a batch, and observers of what becomes of both."""

import logging
import math
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, ParamSpec

from ik_service.robots import RobotModel
from ik_service.service.queue.errors import CompilingError, ExpiredError, RefusalReason
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.result import IKResult, join_results

COMPILED_DOFS = 200
"""DOFs of the longest chain that the compiled engine takes on a CPU; the staged engine is far slower."""
PATTERNS_MOST = 8
"""Patterns of active rows in a fast request: each has its own kernels, which take some 20 ms to load."""
USUAL_EFFORT = 100_000
"""DOFs times seeds times iterations of a problem that is fast in the compiled engine."""
RETRY_MOST_S = 60
"""Longest time after which a caller is asked to try again [s]."""

Arguments = ParamSpec("Arguments")

_logger = logging.getLogger(__name__)


class TimedResult(NamedTuple):
    """Result of a request, with times."""

    result: IKResult  # in the order of the problems
    queue_ms: float  # waiting time before the request's first batch [ms]
    solve_ms: float  # time from the start of the request's first batch to the end of its last batch [ms]


class Expected(NamedTuple):
    """Expected request, before its body has been read."""

    key: Hashable  # batch key: requests with the same key can share a batch; None: unknown, with an estimated wait of 0
    problem_count: int  # number of problems
    owner: Owner = None


class QueuedRequest:
    """Request from `submit` to its answer. The future can be cancelled until the answer is set.

    Args:
        robot: The robot.
        request: Problems and options.
        queued_at: Time of arrival on the monotonic clock [s].
        deadline: Time after which the answer is useless, on the same clock [s].
        label: Name of the robot in metrics; robots of equal content may have several names.
        owner: Owner of the request; owners share the solver.
    """

    def __init__(
        self,
        robot: RobotModel,
        request: SolveRequest,
        queued_at: float,
        deadline: float,
        *,
        label: str | None = None,
        owner: Owner = None,
    ) -> None:
        self.robot, self.request, self.queued_at, self.deadline = robot, request, queued_at, deadline
        self.label, self.owner = label, owner
        own = request.batch_key
        # requests with the same key can share a batch
        self.key: Hashable = (robot.content_hash, id(self) if own is None else own)
        self.future: Future[TimedResult] = Future()  # receives the answer, or the error
        self.problem_count = request.batch.problem_count
        self.remaining = self.problem_count  # problems not yet in a batch; batches take problems from the first one on
        self.is_small = True  # whether the whole request fits into a batch
        self.is_compiled = False  # whether the kernels for the request are known to be compiled
        self._started_at = queued_at
        self._parts: list[tuple[IKResult, slice]] = []

    @cached_property
    def code_key(self) -> Hashable:
        """Kernel key: requests with the same key need the same kernels; read only for the first request of a group."""
        return (self.robot.content_hash, self.request.code_key)

    @property
    def may_be_slow(self) -> bool:
        """Return whether a problem may be slow, judged by DOFs, kernels, engine, seeds, iterations and derivatives."""
        options, dofs, is_staged = self.request.options, self.robot.active_dof_count, self.request.engine == "staged"
        if self.request.pattern_count > PATTERNS_MOST or options.sensitivity is not None or is_staged:
            return True
        return dofs > COMPILED_DOFS or dofs * options.seed_count * options.max_iterations > USUAL_EFFORT

    def is_stale(self, now: float) -> bool:
        """Return whether the request is cancelled or past its deadline."""
        return self.future.cancelled() or self.deadline <= now

    def expired_error(self, now: float, compile_s: float) -> ExpiredError:
        """Return the error for an expired request.

        Args:
            now: Current time on the monotonic clock [s].
            compile_s: Estimated time until all kernels for its owner are compiled [s].
        """
        waited = now - self.queued_at
        if self.is_compiled:
            return ExpiredError(
                f"The deadline passed after {waited:.3g} s in the queue. Nothing was solved; try again later."
            )
        retry_s = max(1, min(RETRY_MOST_S, math.ceil(compile_s)))
        return CompilingError(
            f"Code for requests of this kind is being compiled, which happens once, and it was not there after "
            f"{waited:.3g} s. Ask again in some {retry_s} s, or wait longer.",
            retry_s,
        )

    def keep(self, result: IKResult, rows: slice, started_at: float, ended_at: float) -> None:
        """Keep the results of the last share; after the last problem, set the answer.

        Args:
            result: Results of a batch.
            rows: Rows of this request in the batch.
            started_at: Start of the batch on the monotonic clock [s].
            ended_at: End of the batch on the monotonic clock [s].
        """
        if not self._parts:
            self._started_at = started_at
        self._parts.append((result, rows))
        if self.remaining == 0:
            queue_ms, solve_ms = 1e3 * (self._started_at - self.queued_at), 1e3 * (ended_at - self._started_at)
            answer = TimedResult(join_results(self._parts), queue_ms, solve_ms)
            if not self.future.done() and self.future.set_running_or_notify_cancel():
                self.future.set_result(answer)
            self._parts = []

    def fail(self, error: BaseException) -> None:
        """Set an error and put no further problems into batches."""
        self.remaining = 0
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class BatchShare:
    """Problems of one request in a batch."""

    queued: QueuedRequest
    rows: slice  # problems of the request in this batch
    count: int  # number of these problems


class PoolObserver:
    """Observer of a pool, called in the pool's threads; the methods of this base class are empty."""

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: IKResult, seconds: float) -> None:
        """A batch is solved."""

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Kernels for a request are compiled, or were found in the cache."""

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Requests are dropped unsolved: cancelled, or past their deadline."""

    def refused(self, reason: RefusalReason) -> None:
        """`submit` refuses a request; called in the thread of its caller."""


def notify(method: Callable[Arguments, None], /, *arguments: Arguments.args, **options: Arguments.kwargs) -> None:
    """Call a method of an observer and log its errors, so that no error ends a thread or a request."""
    try:
        method(*arguments, **options)
    except Exception:  # any error of an observer would end the thread
        _logger.exception("An observer of the solver pool has failed.")

"""A request on its way through the queue: which of its problems have been handed out, which are answered."""

from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.requests.solve_answer import SolveAnswer
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.robots import RobotModel
from ik_service.solver import IKResult

COMPILED_DOFS = 34
"""A chain of so many DOFs is the longest that the compiled engine holds on a CPU; the staged one is slower by far."""
PATTERNS_MOST = 8
"""Each pattern of rows that are on has kernels of its own, which the solver's thread loads in some 20 ms."""
USUAL_EFFORT = 100_000
"""DOFs times seeds times iterations of a problem that take no time worth mentioning in generated code."""


@dataclass(frozen=True)
class Expected:
    """What a request will be of which only little has been read.

    Attributes:
        key: Requests of equal keys can be solved together.
        problem_count: Number of problems.
        owner: Whose it is.
    """

    key: Hashable
    problem_count: int
    owner: Owner = None

    @classmethod
    def like(cls, robot: RobotModel, request: SolveRequest, owner: Owner = None) -> Self:
        """Return what a request is that is just like another one of the same owner."""
        return cls((robot.content_hash, request.joint_key), request.problem_count, owner)


class QueuedRequest:
    """One request under way. Its future stays cancellable until the answer is there.

    Args:
        robot: The robot.
        request: What to solve.
        queued_at: When it came, on the monotonic clock [s].
        deadline: When nobody wants the answer any more, on the same clock [s].
        label: What the robot is called where it is counted; robots of equal content may have several names.
        owner: Whose it is: the owners share the solver.

    Attributes:
        key: Requests of equal keys can be solved together.
        future: Brings the answer, or the error.
        problem_count: Number of its problems.
        taken: Problems handed out so far, from the first.
        is_compiled: Whether the kernels that it needs are there, as far as is known.
        is_small: Whether it goes into a batch whole, before the large ones.
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
        own = request.joint_key
        self.key: Hashable = (robot.content_hash, id(self) if own is None else own)
        self.future: Future[SolveAnswer] = Future()
        self.problem_count = request.problem_count
        self.taken = 0
        self.is_small = True
        self.is_compiled = False
        self._started_at = queued_at
        self._parts: list[tuple[IKResult, slice]] = []

    @cached_property
    def code_key(self) -> Hashable:
        """Requests of equal ones need the same kernels; only the first of a group is asked."""
        return (self.robot.content_hash, self.request.code_key)

    @property
    def may_be_slow(self) -> bool:
        """Whether its problems may hold up others one by one: for their DOFs, kernels, or all that they may try."""
        options, dofs = self.request.options, self.robot.active_dof_count
        if self.request.pattern_count > PATTERNS_MOST:
            return True
        return dofs > COMPILED_DOFS or dofs * options.seed_count * options.max_iterations > USUAL_EFFORT

    @property
    def remaining(self) -> int:
        """Problems that have not been handed out."""
        return self.problem_count - self.taken

    def take(self, count: int) -> "BatchShare":
        """Hand out the next problems."""
        share = BatchShare(self, slice(self.taken, self.taken + count))
        self.taken += count
        return share

    def keep(self, result: IKResult, rows: slice, started_at: float, ended_at: float) -> None:
        """Keep the answers of the problems handed out last; with the last of all, bring the answer.

        Args:
            result: Answers of a batch.
            rows: Which of its rows belong to these problems.
            started_at: When the batch was started, on the monotonic clock [s].
            ended_at: When it had ended.
        """
        if not self._parts:
            self._started_at = started_at
        self._parts.append((result, rows))
        if self.remaining == 0:
            queue_ms, solve_ms = 1e3 * (self._started_at - self.queued_at), 1e3 * (ended_at - self._started_at)
            self._end(SolveAnswer.joined(self._parts, queue_ms, solve_ms))
            self._parts = []

    def fail(self, error: BaseException) -> None:
        """Bring an error; nothing of it will be handed out any more."""
        self.taken = self.problem_count
        self._end(error)

    def _end(self, outcome: SolveAnswer | BaseException) -> None:
        if self.future.done() or not self.future.set_running_or_notify_cancel():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


@dataclass(frozen=True)
class BatchShare:
    """Problems of a request that are solved together with others.

    Attributes:
        queued: The request.
        rows: Its problems.
    """

    queued: QueuedRequest
    rows: slice

    @property
    def count(self) -> int:
        """Number of problems."""
        return int(self.rows.stop - self.rows.start)

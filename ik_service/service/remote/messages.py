"""What a front and the process of the solver say to each other.

A robot goes with the first request that names it and a world likewise: both ends keep those that were used last, in the
same order, so that each knows what the other has. Answers to requests that were solved together go as one result.
"""

import logging
from collections.abc import Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ik_service.robots import RobotModel, World
from ik_service.service.queue.bounded_dict import BoundedDict
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.queue.timed_result import TimedResult
from ik_service.solver.launches.result import IKResult, join_results
from ik_service.solver.verdict.island_results import IslandResults, instance_of
from objectives.errors import IKError

ROBOTS_MOST, WORLDS_MOST = 64, 16
"""Robots and worlds that both ends of a connection keep."""

_logger = logging.getLogger(__name__)
Kept = TypeVar("Kept")


Sent = tuple[Hashable, Kept | None]
"""What tells something from others, and the thing itself; None where the other end has it."""


class KnownThings(Generic[Kept]):
    """What both ends of a connection have: each end has an object of this class, and uses it in the same order.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._kept: BoundedDict[Hashable, Kept] = BoundedDict(most)

    def sent(self, key: Hashable, value: Kept) -> Sent[Kept]:
        """Return what to send for it."""
        is_known = key in self._kept
        self._kept[key] = value
        return key, None if is_known else value

    def received(self, sent: Sent[Kept]) -> Kept:
        """Return what was meant."""
        key, given = sent
        self._kept[key] = value = self._kept[key] if given is None else given
        return value


class Terms(NamedTuple):
    """What comes with a request, as for `SolverPool.submit`.

    Attributes:
        deadline: Time after which the answer is of no use, on the monotonic clock, which all processes share [s].
        label: Name of the robot for the observer.
        owner: Its owner.
        compile_here: Whether the solver's thread compiles.
    """

    deadline: float
    label: str | None
    owner: Owner
    compile_here: bool


class Asked(NamedTuple):
    """A request.

    Attributes:
        number: Tells it from others of its front.
        robot: Its robot.
        world: Its world, which is left out of the request; None where it has none.
        request: What to solve.
        terms: What comes with it.
    """

    number: int
    robot: Sent[RobotModel]
    world: Sent[World] | None
    request: SolveRequest
    terms: Terms


class Asks(NamedTuple):
    """Requests that are submitted together."""

    requests: list[Asked]


class Cancels(NamedTuple):
    """Numbers of requests that nobody waits for any more."""

    numbers: list[int]


class Forgets(NamedTuple):
    """A robot that is no longer served, for the observer."""

    robot: str


class JointAnswers(NamedTuple):
    """Answers to requests that were solved alike.

    Attributes:
        numbers: Their numbers.
        counts: How many problems each has.
        times: Time in the queue and of the solve of each [ms].
        fields: The fields of their joint result.
        islands: Those of its islands; the robot is known to whoever asked.
    """

    numbers: list[int]
    counts: list[int]
    times: list[tuple[float, float]]
    fields: dict[str, Any]
    islands: dict[str, Any]

    @classmethod
    def of(cls, numbers: Sequence[int], answers: Sequence[TimedResult]) -> "JointAnswers":
        """Return the answers to requests of one robot and one `batch_key`."""
        parts = [(answer.result, slice(0, len(answer.result))) for answer in answers]
        joined = join_results(parts)
        fields, islands = dict(vars(joined)), dict(vars(joined.islands))
        del fields["islands"], islands["robot"]
        counts, times = [rows.stop for _, rows in parts], [(answer.queue_ms, answer.solve_ms) for answer in answers]
        return cls(list(numbers), counts, times, fields, islands)

    def result(self, robot: RobotModel) -> IKResult:
        """Return the joint result."""
        islands = instance_of(IslandResults, self.islands | {"robot": robot})
        return instance_of(IKResult, self.fields | {"islands": islands})


class Failure(NamedTuple):
    """An error in place of an answer.

    Attributes:
        number: Number of the request.
        kind: Class of the error.
        arguments: Its arguments.
        attributes: Its attributes.
    """

    number: int
    kind: type[BaseException]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, number: int, error: BaseException) -> "Failure":
        """Return the failure of a request; an error that no other process may know is logged here."""
        if isinstance(error, IKError):
            return cls(number, type(error), error.args, vars(error))
        _logger.error("A request has failed in the solver.", exc_info=error)
        return cls(number, RuntimeError, (f"{type(error).__name__}: {error}",), {})

    @property
    def error(self) -> BaseException:
        """The error; its class need not take its arguments alone."""
        error = self.kind.__new__(self.kind, *self.arguments)
        error.args = self.arguments
        vars(error).update(self.attributes)
        return error


class PoolStatus(NamedTuple):
    """What a pool says of itself.

    Attributes:
        solving_s: Time since the current batch was taken [s].
        waiting_requests: Waiting requests.
        waiting_problems: Waiting problems.
    """

    solving_s: float
    waiting_requests: int
    waiting_problems: int

"""Answer of the queue to a request: result of the solver, and times."""

import asyncio
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

from ik_service.solver.result import IKResult


class TimedResult(NamedTuple):
    """Result of a request, with times.

    Attributes:
        result: The result, in the order of the problems.
        queue_ms: Waiting time before the request's first batch [ms].
        solve_ms: Time from the start of the request's first batch to the end of its last batch [ms].
    """

    result: IKResult
    queue_ms: float
    solve_ms: float


AnyFuture: TypeAlias = "Future[TimedResult] | asyncio.Future[TimedResult]"


def pass_on(waiting: AnyFuture, done: AnyFuture) -> None:
    """Copy the outcome of a finished future to another future."""
    if done.cancelled():
        waiting.cancel()
    elif (error := done.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())

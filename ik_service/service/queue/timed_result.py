"""The queue's answer to a request: the result of the solver, and times."""

import asyncio
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

from ik_service.solver.result import IKResult


class TimedResult(NamedTuple):
    """The result of a request.

    Attributes:
        result: The result, in the order of its problems.
        queue_ms: Time that the request waited before its first batch [ms].
        solve_ms: Time from the first batch that held a problem of it to the end of the last [ms].
    """

    result: IKResult
    queue_ms: float
    solve_ms: float


AnyFuture: TypeAlias = "Future[TimedResult] | asyncio.Future[TimedResult]"


def pass_on(waiting: AnyFuture, done: AnyFuture) -> None:
    """End a future as another one has ended."""
    if done.cancelled():
        waiting.cancel()
    elif (error := done.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())

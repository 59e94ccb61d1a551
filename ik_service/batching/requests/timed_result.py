"""What the queue answers a request with: the result of the solver, and where the time went."""

from typing import NamedTuple

from ik_service.solver import IKResult


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

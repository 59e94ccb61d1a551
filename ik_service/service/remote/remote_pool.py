"""A front's end: the pools that are in other processes, and the bridge to them, as if all were one in this process.

    request -> of the processes that solve and speak, the one with the fewest problems under way -> its connection
    a process ends -> its requests fail -> the others take what comes until it is back

A request is solved by one process. They solve on devices of one kind, so that answers do not depend on which it is.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ik_service.robots import RobotModel
from ik_service.service.pool.loop_bridge import LoopBridge
from ik_service.service.pool.pool_limits import PoolLimits
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.queued_request import Expected
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.queue.timed_result import TimedResult
from ik_service.service.remote.solver_connection import SolverConnection


class RemotePool:
    """What `SolverPool` and `LoopBridge` are, for one event loop.

    Args:
        paths: Sockets of the processes with the pools.
        limits: The bounds of each.
    """

    def __init__(self, paths: Sequence[str], limits: PoolLimits) -> None:
        self.limits, self._connections = limits, [SolverConnection(path, limits) for path in paths]

    def start(self, connected: Callable[[SolverConnection], None], lost: Callable[[], None]) -> None:
        """Connect in the running event loop, and again whenever a connection is lost.

        Args:
            connected: Called with every new connection.
            lost: Called when one is lost.
        """
        for one in self._connections:
            one.start(connected, lost)

    async def wait_until_connected(self, timeout_s: float) -> None:
        """Wait for the first connections after `start`, or for as long as is given [s]."""
        await asyncio.wait([one.connecting for one in self._connections], timeout=timeout_s)

    def close(self) -> None:
        """End the connections; from any thread."""
        for one in self._connections:
            one.close()

    @property
    def is_connected(self) -> bool:
        """Whether there is a pool."""
        return any(one.is_connected for one in self._connections)

    @property
    def waiting_requests(self) -> int:
        """Number of waiting requests, those of other fronts included, a moment ago."""
        return sum(one.waiting_requests for one in self._connections)

    @property
    def waiting_problems(self) -> int:
        """Number of waiting problems, alike."""
        return sum(one.waiting_problems for one in self._connections)

    @property
    def solving_s(self) -> float:
        """Longest time since a current batch was taken or a process has said anything [s]; 0 while there is none."""
        return max(one.solving_s for one in self._connections)

    def _chosen(self) -> SolverConnection:
        """The connection of the next request; one that is lost or silent where all are."""
        return min(self._connections, key=lambda one: (not one.is_connected, one.is_silent, not one.is_warm, one.load))

    def require_room(
        self, expected: Expected | None = None, *, timeout_s: float | None = None, lag_s: float = 0.0
    ) -> None:
        """Check what can be known here of whether a request would be accepted, as `SolverConnection` does."""
        self._chosen().require_room(expected, timeout_s=timeout_s, lag_s=lag_s)

    def solve(self, robot: RobotModel, request: SolveRequest, **options: Any) -> "asyncio.Future[TimedResult]":
        """Send a request to the process with the fewest problems under way, as `SolverConnection.solve` does."""
        return self._chosen().solve(robot, request, **options)

    def submit(self, robot: RobotModel, request: SolveRequest, **options: Any) -> "Future[TimedResult]":
        """Do the same for whoever has no event loop; from the thread of the loop."""
        return self._chosen().submit(robot, request, **options)

    def forget(self, robot: str) -> None:
        """Tell all processes that a robot is no longer served."""
        for one in self._connections:
            one.forget(robot)


AnyPool = SolverPool | RemotePool
AnyBridge = LoopBridge | RemotePool
"""A pool of this process or of others, and what leads to it from an event loop."""

"""One thread that owns the solvers of a device, behind a bounded queue.

A solver is not thread-safe and a solve blocks, so all of them run in this thread and the event loop above goes on
answering. First come, first served; the number of waiting requests is bounded, so that memory is too.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from ik_service.batching.errors import ClosedError, QueueFullError
from ik_service.batching.request import SolveAnswer, SolveRequest
from ik_service.batching.solver_shelf import SolverShelf
from ik_service.robots import RobotModel


class SolverPool:
    """Takes requests from any thread and answers them through futures."""

    def __init__(self, device: str = "auto", *, solver_capacity: int = 8, waiting_limit: int = 256) -> None:
        """Make the thread; nothing is loaded before the first request.

        Args:
            device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
            solver_capacity: Solvers kept for later requests.
            waiting_limit: Requests that may be under way, the one being solved included.
        """
        self._shelf = SolverShelf(device, capacity=solver_capacity)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ik-solver")
        self._waiting_limit = waiting_limit
        self._waiting = 0
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, robot: RobotModel, request: SolveRequest) -> Future[SolveAnswer]:
        """Queue a request; a future that is cancelled before its turn is never solved.

        Raises:
            QueueFullError: Too many requests are under way.
            ClosedError: The pool is closing.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("The service is shutting down.")
            if self._waiting >= self._waiting_limit:
                raise QueueFullError(
                    f"{self._waiting} requests are waiting, which is the most allowed. Try again later."
                )
            self._waiting += 1
            future = self._executor.submit(self._solve, robot, request, time.perf_counter())
        future.add_done_callback(self._leave)
        return future

    def solve(self, robot: RobotModel, request: SolveRequest) -> SolveAnswer:
        """Queue a request and wait for its answer.

        Raises:
            QueueFullError: Too many requests are under way.
            ClosedError: The pool is closing.
            InputError: The solver refuses a value.
            EngineError: No engine can run this problem.
        """
        return self.submit(robot, request).result()

    def close(self) -> None:
        """Finish the request being solved, drop the others and end the thread."""
        with self._lock:
            self._closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _solve(self, robot: RobotModel, request: SolveRequest, queued: float) -> SolveAnswer:
        queue_ms = 1e3 * (time.perf_counter() - queued)
        return replace(self._shelf.solve(robot, request), queue_ms=queue_ms)

    def _leave(self, _: "Future[SolveAnswer]") -> None:
        with self._lock:
            self._waiting -= 1

"""Requests of an event loop on a pool, and their answers back: both in bunches.

    requests of one turn of the loop -> submitted together at its end -> the pool -> answers of a batch -> one call

Were each request submitted by itself, the solver's thread would wake up for the first of a bunch that is about to come,
and solve it alone while the others queue up.
"""

import asyncio
import threading
from concurrent.futures import Future
from functools import partial

from ik_service.batching.answer import SolveAnswer
from ik_service.batching.request import SolveRequest
from ik_service.batching.solver_pool import SolverPool
from ik_service.robots import RobotModel


class LoopBridge:
    """Takes requests in one event loop and brings their answers there.

    Args:
        pool: Where they are solved.
    """

    def __init__(self, pool: SolverPool) -> None:
        self._pool = pool
        self._collected: list[tuple[asyncio.Future[SolveAnswer], RobotModel, SolveRequest, float | None]] = []
        self._ended: list[tuple[asyncio.Future[SolveAnswer], Future[SolveAnswer]]] = []
        self._lock = threading.Lock()  # of `_ended`

    def solve(
        self, robot: RobotModel, request: SolveRequest, *, timeout_s: float | None = None
    ) -> "asyncio.Future[SolveAnswer]":
        """Queue a request at the end of this turn of the loop; arguments and errors are those of `SolverPool.submit`.

        A request whose future is cancelled is dropped, as far as it has not been solved.
        """
        loop = asyncio.get_running_loop()
        if not self._collected:
            loop.call_soon(self._submit, loop)
        answer: asyncio.Future[SolveAnswer] = loop.create_future()
        self._collected.append((answer, robot, request, timeout_s))
        return answer

    def _submit(self, loop: asyncio.AbstractEventLoop) -> None:
        collected, self._collected = self._collected, []
        with self._pool.together():
            for answer, robot, request, timeout_s in collected:
                if answer.cancelled():
                    continue
                try:
                    submitted = self._pool.submit(robot, request, timeout_s=timeout_s)
                except Exception as error:  # noqa: BLE001  # it belongs to the caller, whatever it is
                    answer.set_exception(error)
                    continue
                answer.add_done_callback(partial(_pass_on_cancellation, submitted))
                submitted.add_done_callback(partial(self._note, loop, answer))

    def _note(
        self, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[SolveAnswer]", ended: Future[SolveAnswer]
    ) -> None:
        """Keep an answer, in a thread of the pool, and wake the loop for the first of several."""
        with self._lock:
            self._ended.append((answer, ended))
            if len(self._ended) > 1:
                return
        try:
            loop.call_soon_threadsafe(self._bring)
        except RuntimeError:  # the loop has ended, and with it everybody who waits
            self._ended.clear()

    def _bring(self) -> None:
        with self._lock:
            arrived, self._ended = self._ended, []
        for answer, ended in arrived:
            if answer.done():
                continue
            if ended.cancelled():
                answer.cancel()
            elif (error := ended.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(ended.result())


def _pass_on_cancellation(submitted: Future[SolveAnswer], answer: "asyncio.Future[SolveAnswer]") -> None:
    if answer.cancelled():
        submitted.cancel()

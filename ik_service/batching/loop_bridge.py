"""Requests of an event loop on a pool, and their answers back: both in bunches.

    requests of one turn of the loop -> submitted together at its end -> the pool -> answers of a batch -> one call

Were each request submitted by itself, the solver's thread would wake up for the first of a bunch that is about to come,
and solve it alone while the others queue up.

The solver's thread keeps deadlines, but not while it hangs, or compiles. So the loop keeps them too, a little later,
with one timer for all.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from ik_service.batching.errors import solver_stuck_error
from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.requests.solve_answer import SolveAnswer
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.solver_pool import GRACE_S, SWEEP_S, SolverPool
from ik_service.robots import RobotModel


class LoopBridge:
    """Takes requests in one event loop and brings their answers there.

    Args:
        pool: Where they are solved.
    """

    def __init__(self, pool: SolverPool) -> None:
        self._pool = pool
        self._collected: list[tuple[asyncio.Future[SolveAnswer], Callable[[], Future[SolveAnswer]], float]] = []
        self._ended: list[tuple[asyncio.Future[SolveAnswer], Future[SolveAnswer]]] = []
        self._lock = threading.Lock()  # of `_ended`
        # Answers under way, each with what the pool knows it by, when it is given up [s], and how long it had [s].
        self._open: dict[asyncio.Future[SolveAnswer], tuple[Future[SolveAnswer], float, float]] = {}
        self._sweeping_loop: asyncio.AbstractEventLoop | None = None  # the loop whose timer looks after them

    def solve(
        self,
        robot: RobotModel,
        request: SolveRequest,
        *,
        timeout_s: float | None = None,
        label: str | None = None,
        owner: Owner = None,
    ) -> "asyncio.Future[SolveAnswer]":
        """Queue a request at the end of this turn of the loop; arguments and errors are those of `SolverPool.submit`.

        A request whose future is cancelled is dropped, as far as it has not been solved. The future brings an
        ExpiredError soon after the deadline even where the solver does not come back.
        """
        loop = asyncio.get_running_loop()
        if not self._collected:
            loop.call_soon(self._submit, loop)
        answer: asyncio.Future[SolveAnswer] = loop.create_future()
        submit = partial(self._pool.submit, robot, request, timeout_s=timeout_s, label=label, owner=owner)
        self._collected.append((answer, submit, self._pool.limits.timeout_s if timeout_s is None else timeout_s))
        return answer

    def _submit(self, loop: asyncio.AbstractEventLoop) -> None:
        collected, self._collected = self._collected, []
        with self._pool.submit_together():
            for answer, submit, had_s in collected:
                if answer.cancelled():
                    continue
                try:
                    submitted = submit()
                except Exception as error:  # noqa: BLE001  # it belongs to the caller, whatever it is
                    answer.set_exception(error)
                    continue
                self._open[answer] = (submitted, loop.time() + had_s + GRACE_S, had_s)
                answer.add_done_callback(self._close)
                submitted.add_done_callback(partial(self._on_done, loop, answer))
        if self._open and self._sweeping_loop is not loop:
            self._sweeping_loop = loop
            loop.call_later(SWEEP_S, self._sweep, loop)

    def _close(self, answer: "asyncio.Future[SolveAnswer]") -> None:
        submitted, _, _ = self._open.pop(answer)
        if answer.cancelled():
            submitted.cancel()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up what is long past its deadline; look again as long as anything is under way."""
        now = loop.time()
        for answer, (submitted, until, had_s) in self._open.items():
            if until <= now and not answer.done():
                submitted.cancel()
                answer.set_exception(solver_stuck_error(had_s))
        self._sweeping_loop = loop if self._open else None
        if self._open:
            loop.call_later(SWEEP_S, self._sweep, loop)

    def _on_done(
        self, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[SolveAnswer]", ended: Future[SolveAnswer]
    ) -> None:
        """Keep an answer, in a thread of the pool, and wake the loop for the first of several."""
        with self._lock:
            self._ended.append((answer, ended))
            if len(self._ended) > 1:
                return
        try:
            loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop has ended, and with it everybody who waits
            self._ended.clear()

    def _deliver(self) -> None:
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

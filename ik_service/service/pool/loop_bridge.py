"""Bridge between an event loop and a pool: requests and answers cross in groups.

    requests of two turns of the loop -> submitted together -> the pool -> answers of a batch -> one call

If each request were submitted alone, the solver thread would wake up for the first of several requests and solve this
request alone while the others wait. The loop reads bytes in one turn and makes requests of them in the next turn, while
it reads the bytes of other callers; so two turns give larger batches.

The solver thread enforces deadlines, except while stuck or compiling. So the loop enforces all deadlines, too, a little
later, with one timer for all requests.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from ik_service.robots import RobotModel
from ik_service.service.pool.solver_pool import SWEEP_S, SolverPool
from ik_service.service.queue.errors import ExpiredError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import SolveRequest, TimedResult

GRACE_S = 0.25
"""Time after its deadline after which a caller stops waiting; until then the solver's own error may come [s]."""


class LoopBridge:
    """Takes requests for a pool in one event loop and delivers their answers there."""

    def __init__(self, pool: SolverPool) -> None:
        self._pool = pool
        self._collected: list[tuple[asyncio.Future[TimedResult], Callable[[], Future[TimedResult]], float]] = []
        self._ended: list[tuple[asyncio.Future[TimedResult], Future[TimedResult]]] = []
        self._lock = threading.Lock()  # of `_ended`
        # By future of the loop: future of the pool, time of failure by the loop's clock [s], timeout [s].
        self._open: dict[asyncio.Future[TimedResult], tuple[Future[TimedResult], float, float]] = {}
        self._sweeping_loop: asyncio.AbstractEventLoop | None = None  # the loop with a running timer

    def solve(
        self,
        robot: RobotModel,
        request: SolveRequest,
        *,
        timeout_s: float | None = None,
        label: str | None = None,
        owner: Owner = None,
    ) -> "asyncio.Future[TimedResult]":
        """Queue a request at the end of the loop's next turn; arguments and errors as in `SolverPool.submit`.

        A cancelled future drops a request before its solve starts. The future gets an ExpiredError soon after the
        deadline even if the solver is stuck.
        """
        loop = asyncio.get_running_loop()
        if not self._collected:
            loop.call_soon(loop.call_soon, self._submit, loop)
        answer: asyncio.Future[TimedResult] = loop.create_future()
        had_s = self._pool.limits.timeout_s if timeout_s is None else timeout_s
        submit = partial(self._pool.submit, robot, request, timeout_s=had_s, label=label, owner=owner)
        self._collected.append((answer, submit, had_s))
        return answer

    def _submit(self, loop: asyncio.AbstractEventLoop) -> None:
        collected, self._collected = self._collected, []
        with self._pool.submit_together():
            for answer, submit, had_s in collected:
                if answer.cancelled():
                    continue
                try:
                    submitted = submit()
                except Exception as error:  # noqa: BLE001  # the error of this caller; if raised here, other callers would never get answers
                    answer.set_exception(error)
                    continue
                self._open[answer] = (submitted, loop.time() + had_s + GRACE_S, had_s)
                answer.add_done_callback(self._close)
                submitted.add_done_callback(partial(self._on_done, loop, answer))
        if self._open and self._sweeping_loop is not loop:
            self._sweeping_loop = loop
            loop.call_later(SWEEP_S, self._sweep, loop)

    def _close(self, answer: "asyncio.Future[TimedResult]") -> None:
        submitted, _, _ = self._open.pop(answer)
        if answer.cancelled():
            submitted.cancel()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail requests past their deadline plus `GRACE_S`; repeat while requests are open."""
        now = loop.time()
        for answer, (submitted, until, had_s) in self._open.items():
            if until <= now and not answer.done():
                submitted.cancel()
                message = f"No answer came within {had_s:.3g} s; the solver is held up. Try again later."
                answer.set_exception(ExpiredError(message))
        self._sweeping_loop = loop if self._open else None
        if self._open:
            loop.call_later(SWEEP_S, self._sweep, loop)

    def _on_done(
        self, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[TimedResult]", ended: Future[TimedResult]
    ) -> None:
        """Keep an answer (called in a thread of the pool); wake the loop for the first of several answers."""
        with self._lock:
            self._ended.append((answer, ended))
            if len(self._ended) > 1:
                return
        try:
            loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop has ended, and with it all callers
            self._ended.clear()

    def _deliver(self) -> None:
        with self._lock:
            delivered, self._ended = self._ended, []
        for answer, ended in delivered:
            if answer.done():
                continue
            if ended.cancelled():
                answer.cancel()
            elif (error := ended.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(ended.result())

"""The bridge between an event loop and a pool: requests and answers cross it in groups.

    requests of two turns of the loop -> submitted together -> the pool -> answers of a batch -> one call

If each request were submitted alone, the solver's thread would wake up for the first of several requests and solve it
alone while the others wait. Bytes are read in one turn and become requests in the next, while those of other callers
are read: two turns make larger batches.

The solver's thread enforces deadlines, but not while it is stuck or compiles. So the loop enforces them too, a little
later, with one timer for all.
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
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.queue.timed_result import TimedResult, pass_on

GRACE_S = 0.25
"""Time after its deadline after which a caller stops waiting; until then the solver's own error may come [s]."""


class LoopBridge:
    """Takes requests in one event loop and delivers their answers there.

    Args:
        pool: Solves them.
    """

    def __init__(self, pool: SolverPool) -> None:
        self._pool = pool
        self._collected: list[tuple[asyncio.Future[TimedResult], Callable[[], Future[TimedResult]], float]] = []
        self._ended: list[tuple[asyncio.Future[TimedResult], Future[TimedResult]]] = []
        self._lock = threading.Lock()  # of `_ended`
        # Futures of the loop, each with the future of the pool, the time when it fails [s], and its timeout [s].
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
        compile_here: bool = False,
    ) -> "asyncio.Future[TimedResult]":
        """Queue a request at the end of the loop's next turn; arguments and errors are those of `SolverPool.submit`.

        Work that has not started is dropped when the future is cancelled. The future gets an ExpiredError soon after
        the deadline even if the solver is stuck.
        """
        loop = asyncio.get_running_loop()
        if not self._collected:
            loop.call_soon(loop.call_soon, self._submit, loop)
        answer: asyncio.Future[TimedResult] = loop.create_future()
        submit = partial(
            self._pool.submit,
            robot,
            request,
            timeout_s=timeout_s,
            label=label,
            owner=owner,
            compile_here=compile_here,
        )
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
                except Exception as error:  # noqa: BLE001  # belongs to this caller; raised here, the other callers would never get answers
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
        """Fail the requests that are long past their deadline; go on while there are requests."""
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
        """Keep an answer, in a thread of the pool; wake the loop for the first of several."""
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
            if not answer.done():
                pass_on(answer, ended)

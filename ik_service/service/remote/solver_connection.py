"""A front's connection to one process that solves.

The other process may end and come again. Meanwhile requests fail at once, and those under way with it; the connection
is made anew as soon as there is somebody to connect to.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ik_service.robots import RobotModel, World
from ik_service.service.pool.loop_bridge import GRACE_S
from ik_service.service.pool.pool_limits import PoolLimits
from ik_service.service.pool.solver_pool import SWEEP_S
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, SolverRestartingError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.queued_request import Expected
from ik_service.service.queue.room import WAIT_SHARE
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.queue.timed_result import TimedResult, pass_on
from ik_service.service.remote.channel import Channel
from ik_service.service.remote.messages import (
    ROBOTS_MOST,
    WORLDS_MOST,
    Asked,
    Asks,
    Cancels,
    Failure,
    Forgets,
    JointAnswers,
    KnownThings,
    PoolStatus,
    Terms,
)
from ik_service.solver.launches.result import join_results
from ik_service.solver.verdict.island_results import instance_of

CONNECT_AGAIN_S = 0.05
"""From one attempt to connect to the next [s]."""
SILENT_S = 1.0
"""Silence of a process after which requests go to others [s]; it speaks every quarter of that."""


class OpenRequest(NamedTuple):
    """A request under way.

    Attributes:
        answer: Receives the answer.
        robot: Its robot.
        until: When its caller stops waiting [s].
        problems: How many it has.
    """

    answer: "asyncio.Future[TimedResult]"
    robot: RobotModel
    until: float
    problems: int


class SolverConnection:
    """What `SolverPool` and `LoopBridge` are, for one event loop and one process that solves.

    Args:
        path: Socket of the process with the pool.
        limits: The pool's bounds.

    Attributes:
        is_warm: Whether the process has solved the first problems, so that it has nothing to load any more.
        connecting: Ends with the next connection, once `start` has been called.
    """

    def __init__(self, path: str, limits: PoolLimits) -> None:
        self._path, self.limits = path, limits
        self._channel: Channel | None = None  # while there is a connection
        self._status, self._status_at = PoolStatus(0.0, 0, 0), 0.0
        self._open: dict[int, OpenRequest] = {}
        self._open_problems, self._number, self.is_warm = 0, 0, False
        self._collected: list[tuple[int, SolveRequest, Terms]] = []
        self._is_closed, self._is_sweeping = False, False
        self._known()

    def _known(self) -> None:
        """Forget what the other end has: it is a new one."""
        self._robots: KnownThings[RobotModel] = KnownThings(ROBOTS_MOST)
        self._worlds: KnownThings[World] = KnownThings(WORLDS_MOST)

    # ------------------------------------------------------------------ the connection
    def start(self, connected: Callable[["SolverConnection"], None], lost: Callable[[], None]) -> None:
        """Connect in the running event loop, and again whenever the connection is lost.

        Args:
            connected: Called with every new connection.
            lost: Called when one is lost.
        """
        self._loop, self._connected, self._lost_observer = asyncio.get_running_loop(), connected, lost
        self.connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        while not self._is_closed:
            with suppress(OSError):
                make = partial(Channel, self._received, self._lost)
                _, self._channel = await self._loop.create_unix_connection(make, self._path)
                break
            await asyncio.sleep(CONNECT_AGAIN_S)
        if self._is_closed:
            self._end_channel()
        elif self._channel is not None:
            self._status, self._status_at = PoolStatus(0.0, 0, 0), time.monotonic()
            self._connected(self)

    def _lost(self) -> None:
        """Fail what is under way; connect again."""
        self._channel, self._collected, self.is_warm = None, [], False
        self._known()
        left, self._open, self._open_problems = self._open, {}, 0
        self._lost_observer()
        for request in left.values():
            if not request.answer.done():
                request.answer.set_exception(self._lost_error())
        if not self._is_closed:
            self.connecting = self._loop.create_task(self._connect())

    def _lost_error(self) -> ClosedError:
        if self._is_closed:
            return ClosedError("The service is shutting down.")
        return SolverRestartingError("The solver has ended and is being started again. Try again in a few seconds.")

    def close(self) -> None:
        """End the connection; from any thread."""
        self._is_closed = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._end_channel)

    def _end_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()

    # ------------------------------------------------------------------ what a pool says
    @property
    def is_connected(self) -> bool:
        """Whether there is a pool at the other end."""
        return self._channel is not None

    @property
    def is_silent(self) -> bool:
        """Whether the other process has said nothing for a while: it is held up, or its machine is."""
        return time.monotonic() - self._status_at > SILENT_S

    @property
    def load(self) -> int:
        """Problems under way: of this front those that wait or are solved, of others those that wait."""
        return self._open_problems + self.waiting_problems

    @property
    def waiting_requests(self) -> int:
        """Number of waiting requests, those of other fronts included, a moment ago."""
        return self._status.waiting_requests if self.is_connected else 0

    @property
    def waiting_problems(self) -> int:
        """Number of waiting problems, alike."""
        return self._status.waiting_problems if self.is_connected else 0

    @property
    def solving_s(self) -> float:
        """Time since the current batch was taken or the other process has said anything [s]; 0 while there is none."""
        if not self.is_connected:
            return 0.0
        return max(self._status.solving_s, time.monotonic() - self._status_at)

    def require_room(
        self, expected: Expected | None = None, *, timeout_s: float | None = None, lag_s: float = 0.0
    ) -> None:
        """Check what can be known here of whether a request would be accepted; its place in the queue cannot.

        Args:
            expected: Is not used.
            timeout_s: Time until the deadline of the answer [s]; None takes the pool's.
            lag_s: Time that the request and its answer wait outside of the queue [s].

        Raises:
            QueueFullError: The event loop has too much to do.
            ExpiredError: The deadline has passed.
            ClosedError: The pool is closing; a SolverRestartingError where there is none at the moment.
        """
        timeout_s = self.limits.timeout_s if timeout_s is None else timeout_s
        if not self.is_connected:
            raise self._lost_error()
        if timeout_s <= 0.0:
            raise ExpiredError("The deadline passed before the request was read. Nothing was solved.")
        if lag_s > WAIT_SHARE * timeout_s:
            raise QueueFullError(
                f"About {lag_s:.3g} s would pass before the request is read, and its deadline is in {timeout_s:.3g} s. "
                "Try again later.",
                "lag",
            )

    # ------------------------------------------------------------------ requests
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
        """Send a request with others of this turn of the loop; arguments are those of `SolverPool.submit`.

        Work that has not started is dropped when the future is cancelled. Errors come through the future: those of the
        pool, a SolverRestartingError where there is none, and an ExpiredError soon after the deadline in any case.
        """
        answer: asyncio.Future[TimedResult] = self._loop.create_future()
        if not self.is_connected:
            answer.set_exception(self._lost_error())
            return answer
        deadline = time.monotonic() + (self.limits.timeout_s if timeout_s is None else timeout_s)
        if not self._collected:
            self._loop.call_soon(self._loop.call_soon, self._send_collected)
        self._number += 1
        self._collected.append((self._number, request, Terms(deadline, label, owner, compile_here)))
        self._open[self._number] = OpenRequest(answer, robot, deadline + GRACE_S, request.problem_count)
        self._open_problems += request.problem_count
        answer.add_done_callback(partial(self._ended, self._number))
        return answer

    def submit(self, robot: RobotModel, request: SolveRequest, **options: Any) -> "Future[TimedResult]":
        """Do the same for whoever has no event loop; from the thread of the loop."""
        future: Future[TimedResult] = Future()
        self.solve(robot, request, **options).add_done_callback(partial(pass_on, future))
        return future

    def forget(self, robot: str) -> None:
        """Tell the other end's observer that a robot is no longer served."""
        if self._channel is not None:
            self._channel.send(Forgets(robot))

    def _send_collected(self) -> None:
        collected, self._collected = self._collected, []
        asked = [self._asked(*one) for one in collected if one[0] in self._open]
        if asked and self._channel is not None:
            self._channel.send(Asks(asked))
            if not self._is_sweeping:
                self._is_sweeping = True
                self._loop.call_later(SWEEP_S, self._sweep)

    def _asked(self, number: int, request: SolveRequest, terms: Terms) -> Asked:
        robot = self._open[number].robot
        sent, world = self._robots.sent(robot.content_hash, robot), request.world
        if world is None:
            return Asked(number, sent, None, request, terms)
        bare = instance_of(SolveRequest, vars(request) | {"world": None})
        return Asked(number, sent, self._worlds.sent(id(world), world), bare, terms)

    def _closed(self, number: int) -> OpenRequest | None:
        """Take a request from those under way, if it is one."""
        request = self._open.pop(number, None)
        if request is not None:
            self._open_problems -= request.problems
        return request

    def _ended(self, number: int, answer: "asyncio.Future[TimedResult]") -> None:
        """Tell that nobody waits for a request any more."""
        if self._closed(number) is not None and self._channel is not None:
            self._channel.send(Cancels([number]))

    def _sweep(self) -> None:
        """Fail the requests that are long past their deadline; go on while there are requests."""
        now = time.monotonic()
        for request in list(self._open.values()):
            if request.until <= now and not request.answer.done():
                request.answer.set_exception(ExpiredError("No answer came in time; the solver is held up. Try again."))
        self._is_sweeping = bool(self._open)
        if self._is_sweeping:
            self._loop.call_later(SWEEP_S, self._sweep)

    # ------------------------------------------------------------------ answers
    def _received(self, message: JointAnswers | Failure | PoolStatus) -> None:
        if isinstance(message, JointAnswers):
            self._answer(message)
        elif isinstance(message, Failure):
            request = self._closed(message.number)
            if request is not None and not request.answer.done():
                request.answer.set_exception(message.error)
        else:
            self._status, self._status_at = message, time.monotonic()

    def _answer(self, answers: JointAnswers) -> None:
        """Set answers; requests that nobody waits for any more are skipped."""
        result, row = None, 0
        for number, count, times in zip(answers.numbers, answers.counts, answers.times, strict=True):
            rows, row = slice(row, row + count), row + count
            request = self._closed(number)
            if request is not None and not request.answer.done():
                result = result or answers.result(request.robot)
                request.answer.set_result(TimedResult(join_results([(result, rows)]), *times))

"""The solver's end: takes the requests of all fronts into one pool, and sends their answers back.

Requests of all fronts share the queue, and so batches, shares of API keys and limits of what waits.
"""

import asyncio
import math
import time
from collections.abc import Callable, Hashable
from functools import partial

from ik_service.robots import RobotModel, World
from ik_service.service.pool.loop_bridge import LoopBridge
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.errors import ClosedError
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.queue.timed_result import TimedResult
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
)
from ik_service.solver.verdict.island_results import instance_of

STATUS_S = 0.25
"""From one status of the pool to the next [s]."""
_ENDS = "The service is shutting down."  # for a request that the pool has dropped; its caller may have


class PoolServer:
    """Serves a pool to fronts, in one event loop.

    Args:
        pool: The pool.
        forget: Called with the names of robots that are no longer served.

    Attributes:
        bridge: Leads to the pool.
        ends: Its ends of the connections of fronts.
        served: Names of robots that have been asked for and are still served.
        has_answered: Whether there has been an answer.
    """

    def __init__(self, pool: SolverPool, forget: Callable[[str], None]) -> None:
        self._pool, self._forget, self.bridge = pool, forget, LoopBridge(pool)
        self.ends: set[FrontEnd] = set()
        self.served: set[str] = set()
        self.has_answered = False

    async def serve(self, path: str) -> None:
        """Serve until the pool has failed.

        Args:
            path: The socket, in a folder that no other user may enter.
        """
        server = await asyncio.get_running_loop().create_unix_server(lambda: FrontEnd(self).channel, path)
        try:
            while (solving_s := self._pool.solving_s) < math.inf:
                status = PoolStatus(solving_s, self._pool.waiting_requests, self._pool.waiting_problems)
                for end in self.ends:
                    end.channel.send(status)
                await asyncio.sleep(STATUS_S)
        finally:
            server.close()

    def forget(self, robot: str) -> None:
        """Note that a robot is no longer served."""
        self.served.discard(robot)
        self._forget(robot)


class FrontEnd:
    """Takes the requests of one front.

    Args:
        server: The server.

    Attributes:
        channel: To the front.
    """

    def __init__(self, server: PoolServer) -> None:
        self._server = server
        self.channel = Channel(self._received, self._lost)
        self._robots: KnownThings[RobotModel] = KnownThings(ROBOTS_MOST)
        self._worlds: KnownThings[World] = KnownThings(WORLDS_MOST)
        self._open: dict[int, asyncio.Future[TimedResult]] = {}
        self._ended: dict[Hashable, list[int]] = {}  # numbers of answered requests by what they were solved for
        server.ends.add(self)

    def _lost(self) -> None:
        """Drop what the front has asked."""
        self._server.ends.discard(self)
        for solving in list(self._open.values()):
            solving.cancel()

    def _received(self, message: Asks | Cancels | Forgets) -> None:
        if isinstance(message, Asks):
            for asked in message.requests:
                self._ask(asked)
        elif isinstance(message, Cancels):
            for number in message.numbers:
                if number in self._open:
                    self._open[number].cancel()
        else:
            self._server.forget(message.robot)

    def _ask(self, asked: Asked) -> None:
        robot, request, terms = self._robots.received(asked.robot), asked.request, asked.terms
        if terms.label is not None:
            self._server.served.add(terms.label)
        if asked.world is not None:
            world = self._worlds.received(asked.world)
            request = instance_of(SolveRequest, vars(request) | {"world": world})
        solving = self._server.bridge.solve(
            robot,
            request,
            timeout_s=max(0.0, terms.deadline - time.monotonic()),
            label=terms.label,
            owner=terms.owner,
            compile_here=terms.compile_here,
        )
        own = request.batch_key
        key = (robot.content_hash, asked.number if own is None else own)
        self._open[asked.number] = solving
        solving.add_done_callback(partial(self._end, asked.number, key))

    def _end(self, number: int, key: Hashable, solving: "asyncio.Future[TimedResult]") -> None:
        """Keep an answer until all that come in this turn of the loop are there; send an error at once."""
        error = ClosedError(_ENDS) if solving.cancelled() else solving.exception()
        if error is not None:
            del self._open[number]
            self.channel.send(Failure.of(number, error))
            return
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._send_ended)
        self._ended.setdefault(key, []).append(number)

    def _send_ended(self) -> None:
        ended, self._ended, self._server.has_answered = self._ended, {}, True
        for numbers in ended.values():
            self.channel.send(JointAnswers.of(numbers, [self._open.pop(number).result() for number in numbers]))

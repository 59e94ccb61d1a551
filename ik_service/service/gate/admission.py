"""Admission: requests that would be answered too late are refused before they are read.

    headers -> arrival (since when, from whom, until when) -> the expected request -> its estimated wait -> in, or 503

Under overload, reading and refusing a request would cost about as much as answering it. So the headers alone decide: a
request is expected to be like the last one of its sender that was read, and its wait is estimated for that one's place
in the queue: many large requests do not shut out small ones, nor one caller another. Admitted requests are served in
the order in which they came; as in CoDel the time in the queue is limited, not its length.

Sources: B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015; K. Nichols and V. Jacobson, "Controlling Queue Delay", ACM
Queue 10(5), 2012; B. Beyer et al., "Site Reliability Engineering", 2016, chapter 22.
"""

import asyncio
import logging
import re
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from ik_service.robots import RobotModel
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.bounded_dict import BoundedDict
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.queued_request import Expected
from ik_service.service.queue.solve_request import SolveRequest

LOOP_ROUNDS = 4
"""Rounds of the event loop from the first byte to the answer: read, decode, submit, return."""
LOOP_ROUNDS_BACK = 2
"""Rounds after the solve."""
SENDERS_MOST = 1024
"""Number of senders that are remembered."""
LOG_S = 10.0
"""Shortest time between two log lines about refusals [s]; a line costs more than a refusal."""
TICK_S = 0.02
NOISE_S = 0.003
"""Delays of the event loop up to this are the resolution of its timers."""
_WAIT = re.compile(rb"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,9}(?:\.\d{1,9})?)\"?(?=[,;\s]|$)", re.IGNORECASE)
_SENDER_HEADERS = frozenset((b"x-api-key", b"authorization", b"content-type"))

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Arrival:
    """A request as known by its headers.

    Attributes:
        at: Earliest time of its first byte, on the monotonic clock [s].
        timeout_s: How long its caller waits from then on [s].
        sender: Its path, API key, media type and size; requests of one sender are expected to be alike.
    """

    at: float
    timeout_s: float
    sender: Hashable

    @property
    def time_left_s(self) -> float:
        """Time until the deadline [s]; negative after it."""
        return self.at + self.timeout_s - time.monotonic()


class LoopLag:
    """Lag of one event loop: how long bytes may have waited in the socket before they are read; 0 unless started.

    Bytes cannot have waited for longer than the last round of the loop took and this one has taken so far, which a
    timer shows by its delay. Where other programs keep the machine busy, an idle loop is delayed too. Refusals would
    not shorten that delay; so for refusals no more counts than the CPU time that the loop itself has used.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._last, self._due = 0.0, 0.0
        self._last_own, self._used = 0.0, 0.0  # CPU time: of the last round, and used until the last tick [s]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to measure a loop, or wait for its next tick."""
        self._due, self._used = time.monotonic() + TICK_S, time.thread_time()
        self._timer = loop.call_later(TICK_S, self._tick, loop)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._last = None, 0.0

    @property
    def seconds(self) -> float:
        """Upper bound of the time that bytes read now have waited [s]."""
        if self._timer is None:
            return 0.0
        lag = max(self._last, time.monotonic() - self._due)
        return lag if lag > NOISE_S else 0.0

    @property
    def own_seconds(self) -> float:
        """The part of that time in which the loop itself was at work [s]; to be read in the loop's thread."""
        return min(self.seconds, max(self._last_own, time.thread_time() - self._used))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last, self._last_own = time.monotonic() - self._due, time.thread_time() - self._used
        self.start(loop)


class Admission:
    """Admits requests or refuses them.

    Args:
        timeout_s: Longest time that a caller may wait [s].

    Attributes:
        lag: Lag of the event loop.
        pool: The solver pool; None before the start.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self.lag = timeout_s, LoopLag()
        self.pool: SolverPool | None = None
        self._last: BoundedDict[Hashable, Expected] = BoundedDict(SENDERS_MOST)  # by sender
        self._refused, self._log_at = 0, 0.0

    def arrives(self, path: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Arrival:
        """Return the arrival of a request whose headers have just been read.

        Args:
            path: Its path, not decoded.
            headers: Its headers, names in lower case.
        """
        timeout_s, sender = self._timeout_s, [path]
        for name, value in headers:
            if name in _SENDER_HEADERS:
                sender.append(value)
            elif name == b"content-length":
                sender.append(b"%d" % len(value.lstrip(b"0")))
            elif name == b"prefer" and (preferred := preferred_wait_s(value)) is not None:
                timeout_s = min(timeout_s, preferred)
        return Arrival(time.monotonic() - self.lag.seconds, timeout_s, tuple(sender))

    def require_room(self, arrival: Arrival) -> None:
        """Refuse a request that would be answered too late.

        Raises:
            QueueFullError: Its estimated wait is too long.
            ExpiredError: Its deadline has passed.
            ClosedError: The service is about to end.
        """
        if self.pool is None:
            return
        expected, lag_s = self._last.get(arrival.sender), LOOP_ROUNDS * self.lag.own_seconds
        try:
            self.pool.require_room(expected, timeout_s=arrival.time_left_s, lag_s=lag_s)
        except QueueFullError as error:
            self._refused += 1
            if (now := time.monotonic()) >= self._log_at:
                _logger.warning("Too much is asked: %d requests were refused unread lately. %s", self._refused, error)
                self._refused, self._log_at = 0, now + LOG_S
            raise

    def solver_timeout_s(self, arrival: Arrival) -> float:
        """Return how long the solver may take, so that the answer is sent before the deadline [s]."""
        return max(0.0, arrival.time_left_s - LOOP_ROUNDS_BACK * self.lag.seconds)

    def remember(self, arrival: Arrival, robot: RobotModel, request: SolveRequest, owner: Owner) -> None:
        """Remember a request as what its sender is expected to send next."""
        self._last[arrival.sender] = Expected.like(robot, request, owner)


def preferred_wait_s(value: bytes) -> float | None:
    """Return how long a caller waits by `Prefer: wait=SECONDS` (RFC 7240, section 4.3) [s]; None where it does not say.

    Decimals are accepted too, for control loops. A preference that cannot be read is ignored (section 2 there).
    """
    found = _WAIT.search(value)
    return None if found is None else float(found[1])

"""Admission (backpressure): requests with a late answer are refused before their body is read.

    headers -> arrival (time, sender, deadline) -> expected request -> estimated wait -> admitted, or 503

Under overload, reading and refusing a request would cost about as much as answering. So the headers alone decide. The
gate expects a request equal to the last read request of the same sender and estimates the wait for this place in the
queue. So many large requests do not shut out small requests, and no caller shuts out another caller. Admitted requests
are served in order of arrival. As in CoDel, the time in the queue is limited, not the length of the queue.

Sources: B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015; K. Nichols and V. Jacobson, "Controlling Queue Delay", ACM
Queue 10(5), 2012; B. Beyer et al., "Site Reliability Engineering", 2016, chapter 22.
"""

import asyncio
import logging
import re
import time
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from ik_service.robots import RobotModel
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.batch_size import BoundedDict
from ik_service.service.queue.errors import ClosedError, QueueFullError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import Expected, SolveRequest

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


class Arrival(NamedTuple):
    """Arrival of a request, from its headers."""

    at: float  # earliest time of the first byte, on the monotonic clock [s]
    deadline: float  # time until which the caller waits, on the same clock [s]
    sender: Hashable  # path, API key, media type and size; requests of one sender are expected to be equal


class LoopLag:
    """Lag of one event loop: longest possible wait of bytes in the socket before the loop reads them; 0 unless started.

    Upper bound: duration of the last round of the loop plus the current round so far, measured by the delay of a timer.
    On a busy machine an idle loop is delayed, too, and refusals would not shorten this delay. So refusals count only
    the CPU time used by the loop itself.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._last, self._due = 0.0, 0.0
        self._last_own, self._used = 0.0, 0.0  # CPU time of the last round, and total CPU time at the last tick [s]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to measure a loop; at a tick, measure the last round and wait for the next tick."""
        now, used = time.monotonic(), time.thread_time()
        if self._timer is not None:
            self._last, self._last_own = now - self._due, used - self._used
        self._due, self._used = now + TICK_S, used
        self._timer = loop.call_later(TICK_S, self.start, loop)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._last = None, 0.0

    @property
    def seconds(self) -> float:
        """Return an upper bound of the wait of bytes read now [s]."""
        if self._timer is None:
            return 0.0
        lag = max(self._last, time.monotonic() - self._due)
        return lag if lag > NOISE_S else 0.0

    @property
    def own_seconds(self) -> float:
        """Return the part of `seconds()` used by the loop itself [s]; call only in the loop's thread."""
        return min(self.seconds, max(self._last_own, time.thread_time() - self._used))


class Admission:
    """Admits requests or refuses them.

    Args:
        timeout_s: Longest allowed wait of a caller [s].
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self.lag = timeout_s, LoopLag()
        self.pool: SolverPool | None = None  # None before the start
        self.draining = False  # whether the service is about to end; connections are then closed
        self._last: BoundedDict[Hashable, Expected] = BoundedDict(SENDERS_MOST)  # by sender
        self._refused, self._log_at = 0, 0.0

    def admit(self, path: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Arrival:
        """Return the arrival of a request, just after its headers, or refuse a request with a late answer.

        Args:
            path: Path of the request, not decoded.
            headers: Headers of the request, names in lower case.

        Raises:
            QueueFullError: The estimated wait is too long.
            ExpiredError: The deadline has passed.
        """
        timeout_s, sender, lag_s = self._timeout_s, [path], self.lag.seconds
        for name, value in headers:
            if name in _SENDER_HEADERS:
                sender.append(value)
            elif name == b"content-length":
                sender.append(b"%d" % len(value.lstrip(b"0")))
            elif name == b"prefer" and (preferred := preferred_wait_s(value)) is not None:
                timeout_s = min(timeout_s, preferred)
        at = time.monotonic() - lag_s
        arrival = Arrival(at, at + timeout_s, tuple(sender))
        try:
            if self.pool is not None:
                way_s = LOOP_ROUNDS * self.lag.own_seconds if lag_s else 0.0
                self.pool.require_room(self._last.get(arrival.sender), timeout_s=timeout_s - lag_s, lag_s=way_s)
        except ClosedError:
            pass  # the application answers with this error
        except QueueFullError as error:
            self._refused += 1
            if (now := time.monotonic()) >= self._log_at:
                _logger.warning("Too much is asked: %d requests were refused unread lately. %s", self._refused, error)
                self._refused, self._log_at = 0, now + LOG_S
            raise
        return arrival

    def note(self, arrival: Arrival, robot: RobotModel, request: SolveRequest, owner: Owner) -> float:
        """Note a request that has been read, since the next one of its sender is expected to be equal.

        Returns:
            Time for the solver, so that the answer is sent before the deadline [s].
        """
        key = (robot.content_hash, request.batch_key)
        self._last[arrival.sender] = Expected(key, request.batch.problem_count, owner)
        return max(0.0, arrival.deadline - time.monotonic() - LOOP_ROUNDS_BACK * self.lag.seconds)


def preferred_wait_s(value: bytes) -> float | None:
    """Return the caller's wait from `Prefer: wait=SECONDS` (RFC 7240, section 4.3) [s]; None without this preference.

    Decimals are accepted, too, for control loops. An invalid preference is ignored (RFC 7240, section 2).
    """
    found = _WAIT.search(value)
    return None if found is None else float(found[1])

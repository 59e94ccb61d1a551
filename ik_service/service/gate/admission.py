"""Admission: requests that would be answered too late are refused before they are read.

    headers -> arrival (since when, from whom, until when) -> the expected request -> its estimated wait -> in, or 503

Under overload, reading and refusing a request would cost about as much as answering it, and a late answer is wasted
work. So the decision is made by the headers alone. A request is expected to be like the last one of its sender (path,
API key, media type, size) that was read, and its wait is estimated for that one's place in the queue: many large
requests do not shut out small ones, nor one caller another. The refusal comes before any other fault of the request.

Admitted requests are served in the order in which they came. Newest first (adaptive LIFO) is better for queues that
hold requests that nobody waits for any more; here such requests are not admitted. As in CoDel the time in the queue is
limited and not its length, here by the deadline of each request.

Sources: B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015 (adaptive LIFO, CoDel for requests); K. Nichols and
V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012; A. Ulrich, "Addressing Cascading Failures", in B. Beyer
et al., "Site Reliability Engineering", 2016, chapter 22 (load shedding, deadlines, requests that are dropped must cost
less than those that are served).
"""

import logging
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Scope

from ik_service.robots import RobotModel
from ik_service.service.gate import deadline
from ik_service.service.gate.loop_lag import LoopLag
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.bounded_dict import BoundedDict
from ik_service.service.queue.errors import ExpiredError, QueueFullError, RefusalReason
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.queued_request import Expected
from ik_service.service.queue.solve_request import SolveRequest

ARRIVAL = "ik_service.arrival"
"""Key of the arrival of a request in its scope."""
LOOP_ROUNDS = 4
"""Rounds of the event loop from the first byte to the answer: read, decode, submit, return."""
LOOP_ROUNDS_BACK = 2
"""Rounds after the solve."""
SENDERS_MOST = 1024
"""Number of senders that are remembered."""
LOG_S = 10.0
"""Shortest time between two log lines about refusals [s]; a line costs more than a refusal."""
_SENDER_HEADERS = frozenset((b"x-api-key", b"authorization", b"content-type"))

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Arrival:
    """A request as known by its headers.

    Attributes:
        at: Earliest time of its first byte, on the monotonic clock [s].
        timeout_s: How long its caller waits from then on [s].
        sender: Requests of equal senders are expected to be alike.
        is_of_page: Whether a web page sent it.
    """

    at: float
    timeout_s: float
    sender: Hashable
    is_of_page: bool = False

    @property
    def time_left_s(self) -> float:
        """Time until the deadline [s]; negative after it."""
        return self.at + self.timeout_s - time.monotonic()


class AdmissionObserver(Protocol):
    """Observes refusals."""

    def refused(self, reason: RefusalReason) -> None:
        """Called where a request is refused before it is read."""

    def answered_unread(self, status: int, seconds: float) -> None:
        """Called where a request was answered without the application."""


class Admission:
    """Admits requests or refuses them.

    Args:
        timeout_s: Longest time that a caller may wait [s].
        observer: Observes refusals.

    Attributes:
        observer: The observer.
        lag: Lag of the event loop.
        pool: The solver pool; None before the start.
    """

    def __init__(self, timeout_s: float, observer: AdmissionObserver) -> None:
        self._timeout_s, self.observer = timeout_s, observer
        self.lag = LoopLag()
        self.pool: SolverPool | None = None
        self._last: BoundedDict[Hashable, Expected] = BoundedDict(SENDERS_MOST)  # by sender
        self._refused, self._log_at = 0, 0.0

    def arrival(self, scope: Scope) -> Arrival:
        """Return the arrival of a request; computed once."""
        found = scope.get(ARRIVAL)
        if found is None:
            path = scope.get("raw_path") or scope["path"].encode()
            found = scope[ARRIVAL] = self.arrives(path, scope["headers"])
        assert isinstance(found, Arrival)  # put there here
        return found

    def arrives(self, path: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Arrival:
        """Return the arrival of a request whose headers have just been read.

        Args:
            path: Its path, not decoded.
            headers: Its headers, names in lower case.
        """
        timeout_s, sender, is_of_page = self._timeout_s, [path], False
        for name, value in headers:
            if name in _SENDER_HEADERS:
                sender.append(value)
            elif name == b"content-length":
                sender.append(b"%d" % len(value.lstrip(b"0")))
            elif name == deadline.PREFER_HEADER:
                preferred = deadline.preferred_wait_s(value)
                timeout_s = timeout_s if preferred is None else min(timeout_s, preferred)
            elif name == b"origin":
                is_of_page = True
        return Arrival(time.monotonic() - self.lag.seconds, timeout_s, tuple(sender), is_of_page)

    def require_room(self, arrival: Arrival) -> None:
        """Refuse a request that would be answered too late.

        Raises:
            QueueFullError: Its estimated wait is too long.
            ExpiredError: Its deadline has passed.
            ClosedError: The service is about to end.
        """
        if self.pool is None:
            return
        expected, left_s = self._last.get(arrival.sender), arrival.time_left_s
        try:
            self.pool.require_room(expected, timeout_s=left_s, lag_s=LOOP_ROUNDS * self.lag.own_seconds)
        except QueueFullError as error:
            self.observer.refused(error.reason)
            self._log_refusal(error)
            raise
        except ExpiredError:
            self.observer.refused("deadline")
            raise

    def solver_timeout_s(self, arrival: Arrival) -> float:
        """Return how long the solver may take, so that the answer is sent before the deadline [s]."""
        return max(0.0, arrival.time_left_s - LOOP_ROUNDS_BACK * self.lag.seconds)

    def remember(self, arrival: Arrival, robot: RobotModel, request: SolveRequest, owner: Owner) -> None:
        """Remember a request as what its sender is expected to send next."""
        self._last[arrival.sender] = Expected.like(robot, request, owner)

    def answered_unread(self, status: int) -> None:
        """Count an answer that was sent without the application."""
        self.observer.answered_unread(status, self.lag.seconds)

    def _log_refusal(self, error: QueueFullError) -> None:
        self._refused += 1
        if (now := time.monotonic()) >= self._log_at:
            _logger.warning("Too much is asked: %d requests were refused unread lately. %s", self._refused, error)
            self._refused, self._log_at = 0, now + LOG_S

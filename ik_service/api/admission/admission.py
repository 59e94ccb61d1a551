"""Who is let in: requests that would be answered too late are refused before they are read.

    headers -> arrival: since when, from whom, until when -> what it will be -> its wait by estimate -> in, or 503

Under overload the core that solves is the core that reads. To decode a request and to refuse it then costs about as
much as to answer it, and what is answered late has cost everything; so a service that does either answers hardly
anybody when most is asked of it. What decides is told by the headers alone. Requests of one sender (path, key, media
type, size) are taken to be like its last one that was read, and have then the wait of that one's place in the queue,
so that a flood of large requests does not shut out small ones, nor one caller another. Whatever else may be wrong with
a request, too much is asked is the first that is said.

What has been let in is served in the order in which it came, oldest first. Newest first (adaptive LIFO) is better where
queues hold what nobody waits for any more, and there at the price of those who waited longest; here what would wait in
vain is not let in, so nobody in the queue has to be passed over. As in CoDel it is the time in the queue that is
bounded, never its length, but with the deadline of each request for the bound, since those are known here.

Sources: B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015 (adaptive LIFO, CoDel for requests); K. Nichols and
V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012; A. Ulrich, "Addressing Cascading Failures", in B. Beyer
et al., "Site Reliability Engineering", 2016, chapter 22 (load shedding, deadlines, requests that are dropped must cost
less than those that are served).
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Scope

from ik_service.api.admission import deadline
from ik_service.api.admission.loop_lag import LoopLag
from ik_service.batching.errors import ExpiredError, QueueFullError, RefusalReason
from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.queue.queued_request import Expected
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.solver_pool import SolverPool
from ik_service.robots import RobotModel

ARRIVAL = "ik_service.arrival"
"""Where the arrival of a request stands in its scope, once it is known."""
LOOP_ROUNDS = 4
"""Rounds of the event loop from the first byte to the answer: to read, to decode, to submit, and to come back."""
LOOP_ROUNDS_BACK = 2
"""Those of them that come after the solve."""
SENDERS_MOST = 1024
"""Senders that are remembered."""
LOG_S = 10.0
"""How often refusals are logged; each would cost more than the refusal."""
_SENDER_HEADERS = frozenset((b"x-api-key", b"authorization", b"content-type"))

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Arrival:
    """What is known of a request before it is read.

    Attributes:
        at: When its first byte can have been there, on the monotonic clock [s].
        timeout_s: How long its caller waits from then on [s].
        sender: Requests of equal ones are taken to be alike.
        is_of_page: Whether a web page asks.
    """

    at: float
    timeout_s: float
    sender: Hashable
    is_of_page: bool = False

    @property
    def time_left_s(self) -> float:
        """Time until nobody wants the answer any more [s]; negative from then on."""
        return self.at + self.timeout_s - time.monotonic()


class AdmissionObserver(Protocol):
    """Is told what is refused."""

    def refused(self, reason: RefusalReason) -> None:
        """A request was refused before it was read."""

    def answered_unread(self, status: int, seconds: float) -> None:
        """A request has been answered of which the application knows nothing."""


class Admission:
    """Lets requests in, or refuses them.

    Args:
        timeout_s: Longest time that anybody waits [s].
        observer: Is told what is refused here.

    Attributes:
        lag: Of the event loop.
        pool: Solves; None before the start.
    """

    def __init__(self, timeout_s: float, observer: AdmissionObserver) -> None:
        self._timeout_s, self._observer = timeout_s, observer
        self.lag = LoopLag()
        self.pool: SolverPool | None = None
        self._last: OrderedDict[Hashable, Expected] = OrderedDict()  # by sender
        self._refused, self._log_at = 0, 0.0

    def arrival(self, scope: Scope) -> Arrival:
        """Return what is known of a request."""
        found = scope.get(ARRIVAL)
        if found is None:
            path = scope.get("raw_path") or scope["path"].encode()
            found = scope[ARRIVAL] = self.arrives(path, scope["headers"])
        assert isinstance(found, Arrival)  # put there here, or by the connection
        return found

    def arrives(self, path: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Arrival:
        """Return what is known of a request that has just been read from its socket.

        Args:
            path: Its path as it came.
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
            QueueFullError: It would.
            ExpiredError: Its deadline has passed.
            ClosedError: The service is about to end.
        """
        if self.pool is None:
            return
        expected, left_s = self._last.get(arrival.sender), arrival.time_left_s
        try:
            self.pool.require_room(expected, timeout_s=left_s, lag_s=LOOP_ROUNDS * self.lag.seconds)
        except QueueFullError as error:
            self._observer.refused(error.reason)
            self._log_refusal(error)
            raise
        except ExpiredError:
            self._observer.refused("deadline")
            raise

    def solver_timeout_s(self, arrival: Arrival) -> float:
        """Return how long the solver has for a request, so that its answer can still be sent in time [s]."""
        return max(0.0, arrival.time_left_s - LOOP_ROUNDS_BACK * self.lag.seconds)

    def learn(self, arrival: Arrival, robot: RobotModel, request: SolveRequest, owner: Owner) -> None:
        """Remember what a sender's requests are like, and whose they are."""
        self._last[arrival.sender] = Expected.like(robot, request, owner)
        self._last.move_to_end(arrival.sender)
        if len(self._last) > SENDERS_MOST:
            self._last.popitem(last=False)

    def count_refused(self, reason: RefusalReason) -> None:
        """Count a request that was refused elsewhere, because of what its caller holds."""
        self._observer.refused(reason)

    def answered_unread(self, status: int) -> None:
        """Count an answer of which the application knows nothing."""
        self._observer.answered_unread(status, self.lag.seconds)

    def _log_refusal(self, error: QueueFullError) -> None:
        self._refused += 1
        if (now := time.monotonic()) >= self._log_at:
            _log.warning("Too much is asked: %d requests were refused unread lately. %s", self._refused, error)
            self._refused, self._log_at = 0, now + LOG_S

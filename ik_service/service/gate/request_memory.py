"""Memory of requests, reserved before it is allocated: bodies, what they are decoded to, and answers.

    body: as its bytes come -> decoded: by its shape -> answer: by its shape, before the solve -> released at the end

The buffers of connections are not counted: the number of connections bounds them.
"""

import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from ik_service.service.errors.exceptions import AnswerTooLargeError
from ik_service.service.gate.access import owner_of
from ik_service.service.queue.errors import QueueFullError, RefusalReason
from ik_service.service.queue.fair_cap import FairCap, Owner

Refused = Callable[[RefusalReason], None]

RESERVATION = "ik_service.memory_reservation"
"""Key of the reservation of a request in its scope."""
UNCOUNTED_BYTES = 64 * 1024
"""Bodies and answers up to this size are not counted."""
BODY_RATE, AHEAD_S = 2**26, 0.5
"""Bytes per second of long bodies of one API key, and how far ahead of that they may be [s]: 1 MB takes up to 1 ms."""


class MemoryBudget:
    """Bytes that all requests may reserve together, shared by API keys.

    Args:
        most_bytes: The most that all requests may reserve.
        answer_bytes: The most that one answer may have.
        is_shared: Whether there are several API keys.
        refused: Called for every refusal.

    Attributes:
        cap: Counts the bytes; used by one event loop.
        answer_bytes: The most that one answer may have.
        refused: Called for every refusal.
        is_shared: Whether there are several API keys.
        read_until: For each API key the time at which `BODY_RATE` would have brought its bytes so far [s].
    """

    def __init__(self, most_bytes: int, answer_bytes: int, *, is_shared: bool, refused: Refused) -> None:
        self.cap = FairCap(most_bytes, "bytes of bodies and answers", "bytes", is_shared=is_shared)
        self.answer_bytes, self.refused, self.is_shared = answer_bytes, refused, is_shared
        self.read_until = dict[Owner, float]()


def reservation_of(scope: MutableMapping[str, Any]) -> "MemoryReservation":
    """Return the reservation of a request."""
    reservation = scope[RESERVATION]
    assert isinstance(reservation, MemoryReservation)  # put there by BodyLimitMiddleware
    return reservation


class MemoryReservation:
    """Bytes reserved for one request.

    Args:
        budget: The budget of all requests.
        scope: The request's scope; holds the name of its API key before anything is reserved.
    """

    __slots__ = ("_amount", "_budget", "_owner", "_scope")

    def __init__(self, budget: MemoryBudget, scope: MutableMapping[str, Any]) -> None:
        self._budget, self._scope = budget, scope
        self._amount, self._owner = 0, owner_of(scope)

    def reserve(self, amount: int) -> None:
        """Reserve more bytes until the request ends.

        Raises:
            ShareExhaustedError: Requests of this API key would exceed its share.
            QueueFullError: All requests together would exceed the budget.
        """
        if not self._amount:  # the API key may have been read since
            self._owner = owner_of(self._scope)
        try:
            self._budget.cap.acquire(self._owner, amount)
        except QueueFullError as error:
            self._budget.refused(error.reason)
            raise
        self._amount += amount

    def rest_s(self, amount: int, *, is_discarded: bool = False) -> float:
        """Count bytes of a body; return how long the service waits before it reads more bytes of the same API key [s].

        Refused bodies always wait. Other bodies wait only where several keys share the service.
        """
        if not (is_discarded or self._budget.is_shared):
            return 0.0
        until, owner, now = self._budget.read_until, owner_of(self._scope), time.monotonic()
        until[owner] = max(until.get(owner, now), now) + amount / BODY_RATE
        return until[owner] - now if until[owner] - now > AHEAD_S else 0.0

    def reserve_answer(self, amount: int) -> None:
        """Reserve the bytes of an answer until it has been sent.

        Args:
            amount: The most bytes that it may have.

        Raises:
            AnswerTooLargeError: One answer may not have so many.
            ShareExhaustedError: Requests of this API key would exceed its share.
            QueueFullError: All requests together would exceed the budget.
        """
        most = self._budget.answer_bytes
        if amount > most:
            raise AnswerTooLargeError(
                f"The answer may have {amount} bytes, and at most {most} are sent. Ask for fewer problems, "
                "configurations, solutions or links at once, include less, or accept application/msgpack."
            )
        if amount > UNCOUNTED_BYTES:
            self.reserve(amount)

    @contextmanager
    def reserved(self, amount: int) -> Iterator[None]:
        """Reserve bytes within a block; errors are those of `reserve`."""
        self.reserve(amount)
        try:
            yield
        finally:
            self._budget.cap.release(self._owner, amount)
            self._amount -= amount

    def end(self) -> None:
        """Release what is reserved."""
        if self._amount:
            self._budget.cap.release(self._owner, self._amount)
            self._amount = 0

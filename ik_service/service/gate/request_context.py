"""The context of a request at the gate, and the memory of the request, reserved before any is allocated.

    body: as its bytes come -> decoded: by its shape -> answer: by its shape, before the solve -> released at the end

There is one rule for bodies, archives, documents, results and answers: a request holds `UNCOUNTED_BYTES` in all without
being counted; a request that holds more takes all of it from the budget, of which each API key has its share. Error
documents have fewer bytes than that. The buffers of connections are not counted: the number of connections bounds them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ik_service.service.errors.exceptions import AnswerTooLargeError
from ik_service.service.gate.admission import Arrival
from ik_service.service.queue.errors import QueueFullError, RefusalReason
from ik_service.service.queue.fair_cap import FairCap, Owner

CONTEXT = "ik_service"
"""Key of the context of a request in its ASGI scope."""
UNCOUNTED_BYTES = 64 * 1024
"""Most bytes that a request holds without being counted."""
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
        read_until: For each API key the time at which `BODY_RATE` would have brought its bytes so far [s].
    """

    def __init__(
        self, most_bytes: int, answer_bytes: int, *, is_shared: bool, refused: Callable[[RefusalReason], None]
    ) -> None:
        self.cap = FairCap(most_bytes, "bytes of bodies and answers", "bytes", is_shared=is_shared)
        self.answer_bytes, self.refused, self.is_shared = answer_bytes, refused, is_shared
        self.read_until = dict[Owner, float]()


class RequestContext:
    """One request.

    Args:
        budget: The budget of all requests.

    Attributes:
        owner: Name of its API key; None without, or before the key is read.
        arrival: When and from whom it came; only of requests to solve.
        held: Bytes that it holds.
    """

    __slots__ = ("_budget", "_counted", "arrival", "held", "owner")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.owner: Owner = None
        self.arrival: Arrival | None = None
        self.held = self._counted = 0

    def reserve(self, amount: int) -> None:
        """Hold more bytes until the request ends.

        Raises:
            ShareExhaustedError: Requests of this API key would exceed its share.
            QueueFullError: All requests together would exceed the budget.
        """
        held = self.held + amount
        if held > UNCOUNTED_BYTES:
            try:
                self._budget.cap.acquire(self.owner, held - self._counted)
            except QueueFullError as error:
                self._budget.refused(error.reason)
                raise
            self._counted = held
        self.held = held

    def release(self, amount: int) -> None:
        """Hold fewer bytes."""
        self.held -= amount
        counted = self.held if self.held > UNCOUNTED_BYTES else 0
        if counted < self._counted:
            self._budget.cap.release(self.owner, self._counted - counted)
            self._counted = counted

    @contextmanager
    def reserved(self, amount: int) -> Iterator[None]:
        """Hold more bytes within a block; errors are those of `reserve`."""
        self.reserve(amount)
        try:
            yield
        finally:
            self.release(amount)

    def reserve_answer(self, amount: int) -> None:
        """Hold the bytes of an answer until it has been sent.

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
        self.reserve(amount)

    def rest_s(self, amount: int, *, is_discarded: bool = False) -> float:
        """Count bytes of a body; return how long the service waits before it reads more bytes of the same API key [s].

        Refused bodies always wait. Other bodies wait only where several keys share the service.
        """
        if not (is_discarded or self._budget.is_shared):
            return 0.0
        until, now = self._budget.read_until, time.monotonic()
        until[self.owner] = end = max(until.get(self.owner, now), now) + amount / BODY_RATE
        return end - now if end - now > AHEAD_S else 0.0


def context_of(scope: Mapping[str, Any]) -> RequestContext:
    """Return the context of a request that has passed the gate."""
    context = scope[CONTEXT]
    assert isinstance(context, RequestContext)  # put there by the gate
    return context


def owner_of(scope: Mapping[str, Any]) -> Owner:
    """Return the owner of a request for shares: the name of its API key, None without."""
    return context_of(scope).owner if CONTEXT in scope else None

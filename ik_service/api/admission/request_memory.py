"""Memory that requests hold, admitted before it is made: bodies that are read, what they unpack to, and answers.

    body: as its bytes come -> unpacked: by its shape, before -> answer: by its shape, before the solve -> given back

What fits into the buffers of a connection is not counted: the number of connections bounds it.
"""

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from ik_service.api.admission.access import owner_of
from ik_service.api.errors.exceptions import AnswerTooLargeError
from ik_service.batching.errors import QueueFullError, Refusal
from ik_service.batching.queue.fair_cap import FairCap

Refused = Callable[[Refusal], None]

BOOKING = "ik_service.booking"
"""Where the booking of a request stands in its scope."""
UNCOUNTED_BYTES = 64 * 1024
"""Bodies and answers of no more than this are not counted."""


class RequestMemory:
    """Bytes that all requests may hold together, shared by API keys.

    Args:
        most_bytes: The most that all requests may hold.
        answer_bytes: The most that one answer may have.
        is_shared: Whether there are several API keys.
        refused: Is told of every refusal.

    Attributes:
        cap: Counts the bytes; used by one event loop.
        answer_bytes: The most that one answer may have.
        refused: Is told of every refusal.
    """

    def __init__(self, most_bytes: int, answer_bytes: int, *, is_shared: bool, refused: Refused) -> None:
        self.cap = FairCap(most_bytes, "bytes of bodies and answers", "bytes", is_shared=is_shared)
        self.answer_bytes, self.refused = answer_bytes, refused


def booking_of(scope: MutableMapping[str, Any]) -> "Booking":
    """Return what a request holds."""
    booking = scope[BOOKING]
    assert isinstance(booking, Booking)  # put there by the layer that bounds bodies
    return booking


class Booking:
    """What one request holds.

    Args:
        memory: What it is part of.
        scope: The request's; the name of its API key comes to stand there before anything is booked.
    """

    __slots__ = ("_amount", "_memory", "_owner", "_scope")

    def __init__(self, memory: RequestMemory, scope: MutableMapping[str, Any]) -> None:
        self._memory, self._scope = memory, scope
        self._amount, self._owner = 0, owner_of(scope)

    def take(self, amount: int) -> None:
        """Hold more, until the request ends.

        Raises:
            ShareExhaustedError: Requests of this API key would hold more than its share.
            QueueFullError: All requests hold too much.
        """
        if not self._amount:  # the key is known once somebody asks for more
            self._owner = owner_of(self._scope)
        try:
            self._memory.cap.acquire(self._owner, amount)
        except QueueFullError as error:
            self._memory.refused(error.reason)
            raise
        self._amount += amount

    def take_answer(self, amount: int) -> None:
        """Hold an answer, until it has been sent.

        Args:
            amount: Bytes that it will have at most.

        Raises:
            AnswerTooLargeError: It alone would be too large.
            ShareExhaustedError: Requests of this API key would hold more than its share.
            QueueFullError: All requests hold too much.
        """
        most = self._memory.answer_bytes
        if amount > most:
            raise AnswerTooLargeError(
                f"The answer may have {amount} bytes, and at most {most} are sent. Ask for fewer problems, "
                "configurations, solutions or links at once, include less, or accept application/msgpack."
            )
        if amount > UNCOUNTED_BYTES:
            self.take(amount)

    @contextmanager
    def holding(self, amount: int) -> Iterator[None]:
        """Hold more for a while; errors are those of `take`."""
        self.take(amount)
        try:
            yield
        finally:
            self._memory.cap.release(self._owner, amount)
            self._amount -= amount

    def end(self) -> None:
        """Give back what is held."""
        if self._amount:
            self._memory.cap.release(self._owner, self._amount)
            self._amount = 0

"""A cap that several owners share, so that none can use it up alone.

An owner may hold no more than what is free once it has taken: one busy owner gets at most half of the cap, of two each
a third, of three each a quarter. So there is always room for one who comes new, and nobody has to say beforehand how
many owners there will be. Whoever holds more than the others leave it waits until others have given back, or it has.

Source: A. K. Choudhury, E. L. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM
Transactions on Networking 6(2), 1998, with alpha 1.

It holds no lock and does no input or output; its owner does.
"""

from ik_service.batching.errors import QueueFullError, RefusalReason, ShareExhaustedError

Owner = str | None
"""Name of the API key of a caller; None is the service itself, or everybody where there are no keys."""

UNKNOWN_OWNER: Owner = ""
"""One of whom nothing is known yet, so that it is taken to hold nothing; no API key has this name."""


class FairCap:
    """Counts what owners hold, and refuses what is too much.

    Args:
        most: What all owners may hold together.
        what: What is counted, in the plural, as it stands in messages: "requests waiting".
        reason: Why somebody is refused where the whole cap is full.
        is_shared: Whether there can be several owners. Where there is only one, it has the whole cap.

    Attributes:
        used: What all owners hold together.
        limit_alone: What an owner may hold while nobody else holds anything.
    """

    def __init__(self, most: int, what: str, reason: RefusalReason, *, is_shared: bool) -> None:
        self._most, self._what, self._reason, self._is_shared = most, what, reason, is_shared
        self._used: dict[Owner, int] = {}
        self.used = 0
        self.limit_alone = max(1, most // 2) if is_shared else most

    def used_by(self, owner: Owner) -> int:
        """Return what an owner holds."""
        return self._used.get(owner, 0)

    def require(self, owner: Owner, amount: int = 1) -> None:
        """Refuse what an owner could not acquire now.

        Raises:
            ShareExhaustedError: The owner would hold more than its share.
            QueueFullError: The whole cap is full, through no fault of this owner.
        """
        own, free = self._used.get(owner, 0), self._most - self.used - amount
        if free < 0 or (self._is_shared and own + amount > free):
            self._refuse(own, amount, free)

    def _refuse(self, own: int, amount: int, free: int) -> None:
        """Raise the error of an owner that would leave less free than it holds, unless it asks for its first unit."""
        if self._is_shared and (own > 0 or (amount > 1 and free >= 0)):
            share = max(0, (self._most - self.used + own) // 2)
            raise ShareExhaustedError(
                f"Your API key has {own} {self._what}, and {amount} more would exceed its share, which is {share} of "
                f"{self._most} now. Wait until some have ended, and have fewer at once."
            )
        if free < 0:
            raise QueueFullError(
                f"There are {self.used} {self._what}, and {amount} more would exceed {self._most}. Try again later.",
                self._reason,
            )

    def acquire(self, owner: Owner, amount: int = 1) -> None:
        """Let an owner hold more.

        Raises:
            ShareExhaustedError: The owner would hold more than its share.
            QueueFullError: The whole cap is full, through no fault of this owner.
        """
        self.require(owner, amount)
        self.add(owner, amount)

    def add(self, owner: Owner, amount: int = 1) -> None:
        """Let an owner hold more, after `require` with the same numbers."""
        self._used[owner] = self._used.get(owner, 0) + amount
        self.used += amount

    def release(self, owner: Owner, amount: int = 1) -> None:
        """Take back from an owner what it has used.

        Raises:
            ValueError: It has not used so much.
        """
        left = self.used_by(owner) - amount
        if left < 0:
            raise ValueError(f"{amount} {self._what} are given back, but only {self.used_by(owner)} were held.")
        self.used -= amount
        if left:
            self._used[owner] = left
        else:
            self._used.pop(owner, None)

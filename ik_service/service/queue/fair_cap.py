"""Cap shared fairly by several owners: no owner can use up the cap alone.

Rule: after each acquisition, an owner holds at most as many units as are still free. A single busy owner gets at most
half of the cap, two owners a third each, three owners a quarter each. So a new owner always finds room, and the number
of owners need not be known. An owner above its share acquires nothing until some owner releases units.

Source: A. K. Choudhury, E. L. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM
Transactions on Networking 6(2), 1998, with alpha 1.
"""

from ik_service.service.queue.errors import QueueFullError, RefusalReason, ShareExhaustedError

Owner = str | None
"""Name of the API key of a caller; None is the service itself, or everybody where there are no keys."""

UNKNOWN_OWNER: Owner = ""
"""A caller that is not known yet, and is taken to hold nothing; no API key has this name."""


class FairCap:
    """Counts the units held by each owner and refuses units beyond the owner's share, or beyond `most` in all.

    `what` is the name of the units in messages, in the plural: "requests waiting". `reason` is the reason of the error
    if the whole cap is full. Unless `is_shared`, a single owner has the whole cap.
    """

    def __init__(self, most: int, what: str, reason: RefusalReason, *, is_shared: bool) -> None:
        self._most, self._what, self._reason, self._is_shared = most, what, reason, is_shared
        self.held: dict[Owner, int] = {}  # units by owner; an owner without units has no entry
        self.used = 0  # units held by all owners together
        self.limit_alone = max(1, most // 2) if is_shared else most  # for an owner while other owners hold no units

    def require(self, owner: Owner, amount: int = 1) -> None:
        """Check that an owner could acquire some units now; the first unit of an owner fails only if the cap is full.

        ShareExhaustedError if the owner would hold more than its share; QueueFullError if the whole cap is full.
        """
        own, free = self.held.get(owner, 0), self._most - self.used - amount
        if free >= 0 and not (self._is_shared and own + amount > free):
            return
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
        """Give some units to an owner; errors as in `require`."""
        self.require(owner, amount)
        self.held[owner] = self.held.get(owner, 0) + amount
        self.used += amount

    def release(self, owner: Owner, amount: int = 1) -> None:
        """Take some units back from an owner; ValueError if the owner holds fewer units."""
        held = self.held.get(owner, 0)
        if amount > held:
            raise ValueError(f"{amount} {self._what} are given back, but only {held} were held.")
        self.used -= amount
        if amount < held:
            self.held[owner] = held - amount
        else:
            self.held.pop(owner, None)

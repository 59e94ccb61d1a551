"""Which connections of a server may be closed when there are too many, and who is let in all the same.

Where no further connection is allowed, one without a request gives way: first those that have shown no API key, but for
a part of them, since supervisors have none; then those of the key that keeps most, the one idle for longest before
others. Where all have requests under way, a newcomer
is a guest: it may ask for health, at once, and for nothing else. So supervisors get their answers whatever callers do.
"""

from typing import Protocol

from ik_service.batching.queue.fair_cap import Owner

SPARED_PART = 8
"""So much of all connections, an eighth, may be without an API key before those of keys give way."""
GUESTS_MOST = 64
"""Guests at once; the one that has been there for longest gives way to the next."""
GUEST_S = 1.0
"""How long a guest has to say what it wants."""


class Closable(Protocol):
    """A connection."""

    def give_way(self) -> None:
        """Close at once."""


class ConnectionBook:
    """Connections of one server that have no request under way, and guests.

    Args:
        most: Connections that the server may have.
    """

    def __init__(self, most: int) -> None:
        self._spared = max(1, most // SPARED_PART)
        self._idle: dict[Owner, dict[Closable, None]] = {}  # by the key that they have shown, longest idle first
        self._owners: dict[Closable, Owner] = {}
        self._guests: dict[Closable, None] = {}

    def rests(self, connection: Closable, owner: Owner) -> None:
        """Note that a connection has no request under way.

        Args:
            connection: The connection.
            owner: The API key of its last request, None without.
        """
        self.works(connection)
        self._owners[connection] = owner
        self._idle.setdefault(owner, {})[connection] = None

    def works(self, connection: Closable) -> None:
        """Note that a connection has a request under way, or is there no more."""
        if connection in self._owners:
            owner = self._owners.pop(connection)
            del self._idle[owner][connection]
            if not self._idle[owner]:
                del self._idle[owner]

    def forget(self, connection: Closable) -> None:
        """Note that a connection is there no more."""
        self.works(connection)
        self._guests.pop(connection, None)

    def make_room(self) -> bool:
        """Close the connection that is missed least; return whether there was one."""
        if not self._idle:
            return False
        keys = [owner for owner in self._idle if owner is not None]
        owner = max(keys, key=lambda key: len(self._idle[key]), default=None)
        if len(self._idle.get(None, ())) > self._spared:
            owner = None
        connection = next(iter(self._idle[owner]))
        self.works(connection)
        connection.give_way()
        return True

    def let_in(self, guest: Closable) -> None:
        """Let a guest in, in the place of the first one where there are many."""
        self._guests[guest] = None
        if len(self._guests) > GUESTS_MOST:
            first = next(iter(self._guests))
            del self._guests[first]
            first.give_way()

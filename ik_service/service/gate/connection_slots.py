"""Slots of a server's connections: which idle ones are closed where there are too many, and which extra ones are open.

Where no further connection is allowed, an idle one is closed: first one that has shown no API key, but for a part of
those, since supervisors have none; then one of the key that has most, the one that was idle for longest first. Where
all have requests under way, a new connection is an extra one: it may ask for health, at once, and for nothing else. So
supervisors get their answers whatever callers do.
"""

from typing import Protocol

from ik_service.service.queue.fair_cap import Owner

SPARED_PART = 8
"""This part of all connections, an eighth, may be idle without an API key before those of keys are closed."""
EXTRA_MOST = 64
"""Extra connections at once; the oldest is closed for the next."""
EXTRA_S = 1.0
"""How long an extra connection may take to send its request."""


class CloseableConnection(Protocol):
    """A connection."""

    def close_now(self) -> None:
        """Close at once."""


class ConnectionSlots:
    """Idle and extra connections of one server.

    Args:
        most: Connections that the server may have.
    """

    def __init__(self, most: int) -> None:
        self._spared = max(1, most // SPARED_PART)
        self._idle: dict[Owner, dict[CloseableConnection, None]] = {}  # by API key, longest idle first
        self._owners: dict[CloseableConnection, Owner] = {}
        self._extra: dict[CloseableConnection, None] = {}

    def add_idle(self, connection: CloseableConnection, owner: Owner) -> None:
        """Note that a connection has no request under way.

        Args:
            connection: The connection.
            owner: The API key of its last request, None without.
        """
        self.set_busy(connection)
        self._owners[connection] = owner
        self._idle.setdefault(owner, {})[connection] = None

    def set_busy(self, connection: CloseableConnection) -> None:
        """Note that a connection is not idle."""
        if connection in self._owners:
            owner = self._owners.pop(connection)
            del self._idle[owner][connection]
            if not self._idle[owner]:
                del self._idle[owner]

    def remove(self, connection: CloseableConnection) -> None:
        """Note that a connection is closed."""
        self.set_busy(connection)
        self._extra.pop(connection, None)

    def make_room(self) -> bool:
        """Close an idle connection; return whether there was one."""
        if not self._idle:
            return False
        keys = [owner for owner in self._idle if owner is not None]
        owner = max(keys, key=lambda key: len(self._idle[key]), default=None)
        if len(self._idle.get(None, ())) > self._spared:
            owner = None
        connection = next(iter(self._idle[owner]))
        self.set_busy(connection)
        connection.close_now()
        return True

    def admit_extra(self, connection: CloseableConnection) -> None:
        """Admit an extra connection; close the oldest one where there are too many."""
        self._extra[connection] = None
        if len(self._extra) > EXTRA_MOST:
            first = next(iter(self._extra))
            del self._extra[first]
            first.close_now()

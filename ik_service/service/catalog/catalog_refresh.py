"""Refresh of a catalog for an event loop, which never waits for the disk or the parser.

Each request compares the folder's time of change. If the time differs, a thread reads the folder, once for all requests
received before the read begins.
"""

import asyncio
from typing import Any, Generic, TypeVar

from ik_service.service.catalog.catalog import Catalog
from ik_service.service.pool.side_threads import SideThreads

REFRESH_WAIT_S = 0.1
"""How long a request waits for a refresh; longer ones read what other processes put."""
MISSING_WAIT_S = 5.0
"""How much longer one waits whose entry is missing: another process may have put it."""
AnyCatalog = TypeVar("AnyCatalog", bound=Catalog[Any])


class CatalogRefresh(Generic[AnyCatalog]):
    """Refreshes a catalog for one event loop.

    Args:
        catalog: The catalog.
    """

    def __init__(self, catalog: AnyCatalog) -> None:
        self._catalog, self._thread = catalog, SideThreads(1, "ik-look")
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # has not begun yet
        self._until = 0.0  # when requests stop waiting for the running one

    async def current(self, name: str | None = None) -> AnyCatalog:
        """Return the catalog with the current files of the folder, or an earlier state if the refresh takes long.

        Args:
            name: Name of the entry in the request; None if the request names no entry.
        """
        if not self._catalog.is_current():
            if self._next is None:
                self._next = asyncio.create_task(self._refresh(self._running))
            loop, reading = asyncio.get_running_loop(), self._next
            until = self._until if self._running is not None else loop.time() + REFRESH_WAIT_S
            await asyncio.wait([reading], timeout=max(0.0, until - loop.time()))
            if name is not None and not self._catalog.serves(name):
                await asyncio.wait([reading], timeout=MISSING_WAIT_S)
        return self._catalog

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    async def _refresh(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        self._until = asyncio.get_running_loop().time() + REFRESH_WAIT_S
        try:
            await self._thread.run(None, self._catalog.refresh)
        finally:
            self._running = None

"""Keeps an event loop's view of the catalog up to date, without waiting for the disk or a parser on the loop.

request -> has the folder changed? one look at its time -> if so: a look in a thread, which all who came before share
"""

import asyncio

from ik_service.api.catalog.robot_catalog import RobotCatalog
from ik_service.batching.side_threads import SideWork

PATIENCE_S = 0.1
"""How long a request waits for a look; longer ones have to read robots that other processes put."""


class CatalogWatch:
    """Looks at a catalog for one event loop.

    Args:
        catalog: The catalog.
    """

    def __init__(self, catalog: RobotCatalog) -> None:
        self._catalog, self._work = catalog, SideWork(1, "ik-look")
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # one that has not begun yet
        self._until = 0.0  # when nobody waits any more for the one that runs

    async def now(self) -> RobotCatalog:
        """Return the catalog as it is now; as it was a moment ago where it takes long to read what is new."""
        if not self._catalog.is_current():
            if self._next is None:
                self._next = asyncio.create_task(self._look(self._running))
            loop = asyncio.get_running_loop()
            until = self._until if self._running is not None else loop.time() + PATIENCE_S
            await asyncio.wait([self._next], timeout=max(0.0, until - loop.time()))
        return self._catalog

    def close(self) -> None:
        """End the thread."""
        self._work.close()

    async def _look(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        self._until = asyncio.get_running_loop().time() + PATIENCE_S
        try:
            await self._work.run(None, self._catalog.look)
        finally:
            self._running = None

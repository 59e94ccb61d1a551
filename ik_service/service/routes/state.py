"""The state that the routes of one application share, from its start to its end."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Path, Request
from starlette.types import Scope

from ik_service.robots import RobotModel
from ik_service.service.catalog.catalog import Catalog, CatalogRefresh
from ik_service.service.catalog.entries import Precondition
from ik_service.service.catalog.robot_catalog import RobotCatalog
from ik_service.service.catalog.world_catalog import WorldCatalog
from ik_service.service.codecs.codec import Codec
from ik_service.service.errors.exceptions import KeyRightsError, MissingKeyError
from ik_service.service.gate.admission import Admission
from ik_service.service.gate.answers import wait_for
from ik_service.service.gate.gate import CONTEXT
from ik_service.service.gate.metrics import ServiceMetrics
from ik_service.service.pool.loop_bridge import LoopBridge
from ik_service.service.pool.side_threads import SideThreads
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.fair_cap import FairCap
from ik_service.service.queue.solve_request import TimedResult
from ik_service.service.routes.speed import SpeedMeter
from ik_service.service.schema.examples import EXAMPLE_ROBOTS
from ik_service.settings import ServiceSettings

SIDE_THREADS = 2
"""Threads that decode and encode large documents; Python runs one at a time, so more would delay the event loop."""
STREAMS_END_S = 2.0
"""Longest time for streams to end with the service."""
POOL_END_S = 5.0
"""How long the end of the service waits for the solver's thread."""

_logger = logging.getLogger(__name__)

Asked = TypeVar("Asked")


class ServiceState:
    """Shared by the routes, from the start of an application on."""

    def __init__(
        self,
        settings: ServiceSettings,
        catalog: RobotCatalog,
        world_catalog: WorldCatalog,
        pool: SolverPool,
        metrics: ServiceMetrics,
        admission: Admission,
    ) -> None:
        is_shared, self.settings = len(settings.keys) > 1, settings
        self.catalog, self.pool, self.metrics, self.admission = catalog, pool, metrics, admission
        self.max_body_bytes = settings.max_body_bytes
        self.uploaders = settings.uploaders  # API keys that may put and delete robots and worlds; None: every key
        self.warm_up: Future[TimedResult] = Future()  # first solves; the service is ready once they are done
        # for work that would hold up the event loop
        self.side_threads = SideThreads(SIDE_THREADS, "ik-side", is_shared=is_shared)
        # puts and deletes robots and worlds, one at a time
        self.catalog_thread = SideThreads(1, "ik-catalog", is_shared=is_shared)
        self.stream_cap = FairCap(settings.max_streams, "streams", "streams", is_shared=is_shared)
        self.world_catalog, self.world_refresh = world_catalog, CatalogRefresh(world_catalog)
        self.catalog_refresh = CatalogRefresh(catalog)
        self.bridge, self.speed_meter = LoopBridge(pool), SpeedMeter(pool)
        self.streams: set[Callable[[], None]] = set()  # functions that end the open streams

    @property
    def is_ready(self) -> bool:
        """Return whether the service is ready: the first solves succeeded, and the service is not about to end."""
        done = self.warm_up.done() and not self.warm_up.cancelled() and self.warm_up.exception() is None
        return done and not self.admission.draining

    async def robot(self, name: str, if_match: str | None = None) -> RobotModel:
        """Return the model of a robot that is served; `if_match` has the allowed entity tags, None allows any.

        UnknownRobotError, with all names, if no robot has this name; StaleEntryError if the robot has another entity
        tag.
        """
        served = (await self.catalog_refresh.current(name)).entry(name)
        if if_match is not None:
            Precondition(if_match).check("robot", name, served)
        return served.model

    async def read(self, request: Request, codec: Codec, check: Callable[[Any], Asked]) -> Asked:
        """Return what the body of a request asks for.

        Reading and checking are beside the event loop where the document may be large; checking alone is where there is
        a world, since a short body may name one of 4096 objects, or have 256 of its own. ClientDisconnect if the caller
        has disconnected; QueueFullError if there is no memory for the document.
        """
        body, context = await request.body(), request.scope[CONTEXT]
        limit, side, owner = self.max_body_bytes, self.side_threads, context.owner
        query = request.scope["query_string"].decode("latin-1")
        if len(body) <= codec.blocking_bytes:
            decoded_bytes = codec.decoded_bytes(body, limit)
        else:  # counting takes 1 ms for each megabyte
            with context.reserved(len(body)):
                decoded_bytes = await wait_for(request, side.run(owner, codec.decoded_bytes, body, limit))
        if decoded_bytes > codec.blocking_bytes:
            with context.reserved(decoded_bytes):
                return await wait_for(request, side.run(owner, lambda: check(codec.decode(body, query, limit))))
        document = codec.decode(body, query, limit)
        if isinstance(document, dict) and document.get("world") is not None:
            return await wait_for(request, side.run(owner, check, document))
        return check(document)

    def require_uploader(self, scope: Scope, catalog: Catalog[Any], name: str) -> None:
        """Refuse a caller who may not put or delete an entry of this name.

        Errors as in `Catalog.require_changeable`; MissingKeyError without an API key; KeyRightsError if the key lacks
        the right.
        """
        catalog.require_changeable(name)
        owner = scope[CONTEXT].owner
        if owner is None:
            raise MissingKeyError(f"{catalog.noun.capitalize()}s are put and deleted by API key only.")
        if self.uploaders is not None and owner not in self.uploaders:
            raise KeyRightsError(f"API key '{owner}' may not put or delete {catalog.noun}s.")

    async def delete(self, scope: Scope, catalog: Catalog[Any], name: str, if_match: str | None) -> None:
        """Delete an entry of a catalog; errors as in `require_uploader` and `Catalog.delete`."""
        self.require_uploader(scope, catalog, name)
        owner = scope[CONTEXT].owner
        await asyncio.shield(self.catalog_thread.run(owner, catalog.delete, name, Precondition(if_match, owner=owner)))

    async def end_streams(self) -> None:
        """End all streams, each with the close code of a server that goes away."""
        for end_stream in list(self.streams):
            end_stream()
        loop = asyncio.get_running_loop()
        end = loop.time() + STREAMS_END_S
        while self.streams and loop.time() < end:
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        """End streams, solver and threads."""
        self.admission.draining = True
        self.admission.lag.stop()
        await self.end_streams()
        await _close_pool(self.pool)
        self.side_threads.close()
        self.catalog_thread.close()
        self.catalog_refresh.close()
        self.world_refresh.close()


async def _close_pool(pool: SolverPool) -> None:
    """End a pool; stop waiting after a while, since a kernel that is being compiled cannot be interrupted."""
    ended = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def close() -> None:
        pool.close()
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=close, name="ik-close", daemon=True).start()  # must not keep the process alive
    await asyncio.wait([ended], timeout=POOL_END_S)
    if not ended.done():
        _logger.warning("The solver is still compiling %.0f s after the end; it is left behind.", POOL_END_S)


async def service_state(request: Request) -> ServiceState:
    """Return the state of the application that got a request."""
    state = request.app.state.service
    assert isinstance(state, ServiceState)  # put there by create_app
    return state


State = Annotated[ServiceState, Depends(service_state)]
"""Parameter of a route that gets the shared state."""
RobotName = Annotated[
    str,
    Path(
        description="Name of a robot, see `GET /v1/robots`.",
        openapi_examples={name: {"value": name} for name in sorted(set(EXAMPLE_ROBOTS.values()), reverse=True)},
    ),
]
"""Parameter of a route: the robot in its path."""
IfMatch = Annotated[str | None, Header(description="Only if its ETag is one of these; `*`: if it is there.")]
IfNoneMatch = Annotated[str | None, Header(description="Only if its ETag is none of these; `*`: if it is not there.")]


def _condition(if_match: IfMatch = None, if_none_match: IfNoneMatch = None) -> Precondition:
    return Precondition(if_match, if_none_match)


Condition = Annotated[Precondition, Depends(_condition)]
"""Parameter of routes that show and put: what the headers of a request expect of an entry."""

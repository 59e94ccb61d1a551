"""What the routes of one application share, and the state of its warm-up."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Path, Request

from ik_service.api.admission.admission import Admission
from ik_service.api.catalog.catalog_refresh import CatalogWatch
from ik_service.api.catalog.robot_catalog import RobotCatalog
from ik_service.api.observability.metrics import ServiceMetrics
from ik_service.api.schema.examples import EXAMPLE_ROBOTS
from ik_service.api.server.stream_session import StreamSession
from ik_service.batching.loop_bridge import LoopBridge
from ik_service.batching.queue.fair_cap import FairCap
from ik_service.batching.requests.solve_answer import SolveAnswer
from ik_service.batching.requests.solve_request import Robots
from ik_service.batching.side_threads import SideWork
from ik_service.batching.solver_pool import SolverPool
from ik_service.robots import RobotModel


@dataclass(eq=False)
class ServiceState:
    """Shared by the routes.

    Attributes:
        catalog: Robots that are served.
        pool: The solver thread.
        metrics: What is counted.
        admission: Refuses requests that would be answered too late.
        max_body_bytes: Most bytes of a request body.
        uploaders: Names of the API keys that may put and delete robots; None: every key.
        warm_up: First solves after the start; the service is ready once they are done.
        side_work: Threads for what would hold up the event loop.
        catalog_work: The thread that puts and deletes robots, one at a time.
        stream_cap: Streams that are open, by API key.
        catalog_watch: The catalog as it is now.
        streams: Streams that are open.
        draining: Whether the service is about to end and is no longer ready.
        bridge: Between the application's event loop and the solver thread.
    """

    catalog: RobotCatalog
    pool: SolverPool
    metrics: ServiceMetrics
    admission: Admission
    max_body_bytes: int
    side_work: SideWork
    catalog_work: SideWork
    stream_cap: FairCap
    uploaders: tuple[str, ...] | None = None
    warm_up: Future[SolveAnswer] = field(default_factory=Future)
    streams: set[StreamSession] = field(default_factory=set)
    draining: bool = False

    def __post_init__(self) -> None:
        """Bridge the pool and the catalog to the application's event loop."""
        self.catalog_watch = CatalogWatch(self.catalog)
        self.bridge = LoopBridge(self.pool)

    @property
    def robots(self) -> Robots:
        """Models of the robots that are served, by name."""
        return self.catalog.models

    @property
    def is_ready(self) -> bool:
        """Whether callers are welcome: the first solves went well, and the end has not come."""
        done = self.warm_up.done() and not self.warm_up.cancelled() and self.warm_up.exception() is None
        return done and not self.draining

    async def robot(self, name: str) -> RobotModel:
        """Return the model of a robot that is served.

        Raises:
            UnknownRobotError: None of that name; the message lists those there are.
        """
        return (await self.catalog_watch.now()).robot(name).model


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

"""Health routes for supervisors, and metrics for Prometheus.

A service is alive as long as the process answers and its solver works, and ready once it has solved.
"""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from ik_service.service.errors.exceptions import NotReadyError
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.queue.errors import ClosedError, SolverLostError
from ik_service.service.routes.state import ServiceState, State

router = APIRouter(tags=["health"])

STUCK_S = 300.0
"""No batch takes so long, with compilation: a solver that takes longer is considered lost."""


class Health(BaseModel):
    """Answer of a health route when all is well."""

    status: Literal["live", "ready"]


@router.head("/health/live", include_in_schema=False)
@router.get("/health/live", summary="Is the process up?", responses=problem_answers(503))
async def live(state: State) -> Health:
    """Answer 200 as long as the process does and its solver has not been lost; restart it when this fails."""
    require_solver(state)
    return Health(status="live")


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready", summary="Can it solve now?", responses=problem_answers(503))
async def ready(state: State) -> Health:
    """Answer 200 once kernels are loaded and first problems are solved, until the service ends; send no work else."""
    if state.admission.draining:
        raise ClosedError("The service is shutting down.")
    if not state.warm_up.done():
        raise NotReadyError("The service is starting: kernels are being loaded.")
    if state.warm_up.cancelled() or state.warm_up.exception() is not None:
        raise NotReadyError("The first solve failed; the log of the service says why.")
    require_solver(state)
    return Health(status="ready")


@router.head("/metrics", include_in_schema=False)
@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "Prometheus text or OpenMetrics.", "content": {"text/plain": {}}},
        **problem_answers(401, 403),
    },
)
def get_metrics(request: Request, state: State) -> Response:
    """Tell about requests, queue and solves; open on loopback addresses, elsewhere by API key."""
    content, media_type = state.metrics.render(request.headers.get("accept", ""))
    return Response(content, headers={"Content-Type": media_type})


def require_solver(state: ServiceState) -> None:
    """Raise SolverLostError if the solver's thread has ended or hangs in a batch, unless the service ends."""
    if not state.admission.draining and state.pool.solving_s > STUCK_S:
        raise SolverLostError("The solver has ended, or does not come back from a batch. Restart the service.")

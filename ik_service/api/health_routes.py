"""Health routes for supervisors: alive as long as the process answers, ready once the first solve has run."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from ik_service.api.problem_schema import problem_answers
from ik_service.api.problems import NotReadyError
from ik_service.api.state import State
from ik_service.batching.errors import ClosedError

router = APIRouter(prefix="/health", tags=["health"])


class Health(BaseModel):
    """What a health route says when all is well."""

    status: Literal["live", "ready"]


@router.get("/live", summary="Is the process up?")
async def live() -> Health:
    """Answer as long as the process does; restart it when this fails."""
    return Health(status="live")


@router.get("/ready", summary="Can it solve now?", responses=problem_answers(503))
async def ready(state: State) -> Health:
    """Answer 200 once kernels are loaded and first problems are solved, until the service ends; send no work else."""
    if state.draining:
        raise ClosedError("The service is shutting down.")
    if not state.warm_up.done():
        raise NotReadyError("The service is starting: kernels are being loaded.")
    if state.warm_up.cancelled() or state.warm_up.exception() is not None:
        raise NotReadyError("The first solve failed; the log of the service says why.")
    return Health(status="ready")

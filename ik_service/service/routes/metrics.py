"""`GET /metrics`: what Prometheus reads."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.routes.state import State

router = APIRouter(tags=["health"])


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

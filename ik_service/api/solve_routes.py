"""`POST /v1/robots/{robot}/solve`: targets in, joint configurations out."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ik_service.api.body import read_json_body
from ik_service.api.examples import EXAMPLE_ROBOTS
from ik_service.api.openapi import solve_request_body
from ik_service.api.problem_schema import problem_answers
from ik_service.api.solve_answer import answer_document, encode_json
from ik_service.api.solve_body import DecodedSolve, decode_solve
from ik_service.api.solve_schema import SolveAnswerBody
from ik_service.api.state import State
from ik_service.batching.answer import SolveAnswer
from ik_service.robots import RobotModel

BLOCKING_BODY_BYTES = 256 * 1024
"""Bodies larger than this are decoded beside the event loop, so that health routes go on answering."""
BLOCKING_PROBLEM_COUNT = 2048
"""Answers with more problems than this are encoded beside the event loop."""

RobotName = Annotated[
    str,
    Path(
        description="Name of a robot, see `GET /v1/robots`.",
        openapi_examples={name: {"value": name} for name in sorted(set(EXAMPLE_ROBOTS.values()), reverse=True)},
    ),
]

router = APIRouter(prefix="/v1", tags=["solve"])


@router.post(
    "/robots/{robot}/solve",
    summary="Solve inverse kinematics for a batch of targets",
    response_model=None,
    responses={
        200: {"model": SolveAnswerBody, "description": "One result per problem, solved or not; see `status`."},
        **problem_answers(400, 404, 413, 415, 422, 500, 503, 504),
    },
    openapi_extra=solve_request_body(),
)
async def solve(robot: RobotName, request: Request, state: State) -> Response:
    """Find joint configurations that bring links to target poses.

    Failing to converge is an answer: 200 with a `status` for each problem and its best configuration.
    """
    started = time.perf_counter()
    model = state.robot(robot)
    body = await read_json_body(request, state.max_body_bytes)
    if len(body) > BLOCKING_BODY_BYTES:
        decoded = await run_in_threadpool(decode_solve, body, model)
    else:
        decoded = decode_solve(body, model)
    answer = await asyncio.wrap_future(state.pool.submit(model, decoded.request))
    if decoded.request.problem_count > BLOCKING_PROBLEM_COUNT:
        content = await run_in_threadpool(_encode, robot, model, decoded, answer, started)
    else:
        content = _encode(robot, model, decoded, answer, started)
    return Response(content, media_type="application/json")


def _encode(name: str, robot: RobotModel, decoded: DecodedSolve, answer: SolveAnswer, started: float) -> bytes:
    total_ms = 1e3 * (time.perf_counter() - started)
    return encode_json(answer_document(robot, name, decoded.request, answer, decoded.include, total_ms))

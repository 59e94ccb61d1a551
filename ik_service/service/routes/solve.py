"""`POST /v1/robots/{robot}/solve`: targets in, joint configurations out."""

import time
from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from ik_service.robots import RobotModel, World
from ik_service.service.codecs.codec import Document
from ik_service.service.codecs.media_types import answer_codec, request_codec
from ik_service.service.documents.answer_size import BLOCKING_ANSWER_BYTES, solve_bytes
from ik_service.service.documents.solve_answer import answer_document
from ik_service.service.documents.solve_request import DecodedSolve, read_solve
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.gate.answers import PacedResponse, wait_for
from ik_service.service.gate.gate import context_of
from ik_service.service.queue.errors import ExpiredError
from ik_service.service.routes.body_reading import read_asked
from ik_service.service.routes.direct_route import DirectRoute
from ik_service.service.routes.openapi import solve_answer_content, solve_parameters, solve_request_body
from ik_service.service.routes.state import RobotName, State
from ik_service.service.schema.solve import SolveAnswerBody

router = APIRouter(prefix="/v1", tags=["solve"], route_class=DirectRoute)


@router.post(
    "/robots/{robot}/solve",
    summary="Solve inverse kinematics for a batch of targets",
    response_model=None,
    responses={
        200: {
            "model": SolveAnswerBody,
            "description": "One result per problem, solved or not; see `status`.",
            "content": solve_answer_content(),
        },
        **problem_answers(400, 404, 406, 412, 413, 415, 422, 429, 500, 503, 504),
    },
    openapi_extra={**solve_request_body(), **solve_parameters()},
)
async def solve(robot: RobotName, request: Request, state: State) -> Response:
    """Find joint configurations that bring links to target poses.

    Failing to converge is an answer: 200 with a `status` for each problem and its best configuration.
    """
    context = context_of(request.scope)
    arrival, owner = context.arrival, context.owner
    assert arrival is not None  # the gate notes it for all requests to solve
    model, kept = await state.robot(robot, request.headers.get("if-match")), await state.worlds()
    codec = request_codec(request.headers)
    output_codec = answer_codec(request.headers, codec)
    body = await request.body()
    decoded = await read_asked(request, state, codec, body, lambda document: _read(document, model, kept))
    if output_codec.is_flat and "islands" in decoded.include:
        raise faulty_field("/include", "unknown_option", f"{output_codec.media_type} cannot hold islands.")
    asked, (size, array_bytes) = decoded.request, solve_bytes(model, decoded, output_codec)
    context.reserve_answer(size)
    context.reserve(array_bytes)
    state.admission.remember(arrival, model, asked, owner)
    timeout_s = state.admission.solver_timeout_s(arrival)
    solving = state.bridge.solve(model, asked, timeout_s=timeout_s, label=robot, owner=owner)
    answer = await wait_for(request, solving)
    if arrival.time_left_s < 0.0:
        raise ExpiredError("The deadline passed before the answer could be sent.")

    def document() -> Document:
        total_ms = 1e3 * (time.monotonic() - arrival.at)
        return answer_document(model, robot, decoded, answer, total_ms, is_binary=output_codec.is_binary)

    if size <= BLOCKING_ANSWER_BYTES:
        return Response(output_codec.encode(document()), media_type=output_codec.media_type)
    making = state.side_threads.run(owner, lambda: output_codec.encode_in_pieces(document()))
    return PacedResponse(await wait_for(request, making), media_type=output_codec.media_type)


def _read(document: object, robot: RobotModel, kept: Mapping[str, World]) -> DecodedSolve:
    decoded = read_solve(document, robot, kept)
    _ = decoded.request.batch_key  # looks at all rows: found here, large ones do not hold up the event loop
    return decoded

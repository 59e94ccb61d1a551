"""`POST /v1/robots/{robot}/forward`: configurations in, poses of links out, in float64 and without the solver."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ik_service.api.body import read_body
from ik_service.api.codecs.codec import Codec
from ik_service.api.codecs.media_types import answer_codec, request_codec
from ik_service.api.columns import read_rows
from ik_service.api.forward_schema import FORWARD_REQUEST, MAX_POSE_COUNT, ForwardAnswerBody, ForwardRequestBody
from ik_service.api.frame_body import check_link
from ik_service.api.openapi import REF_TEMPLATE
from ik_service.api.problem_schema import problem_answers
from ik_service.api.problems import Fault, FaultyFieldsError, MediaTypeError, NotAcceptableError
from ik_service.api.solve_body import envelope_faults
from ik_service.api.solve_routes import RobotName
from ik_service.api.state import State
from ik_service.robots import RobotModel

router = APIRouter(prefix="/v1", tags=["robots"])


def _request_body() -> dict[str, Any]:
    example = {"summary": "one link (panda)", "value": FORWARD_REQUEST}
    schema = {"$ref": REF_TEMPLATE.format(model=ForwardRequestBody.__name__)}
    content = {"application/json": {"schema": schema, "examples": {"one_link": example}}}
    return {"requestBody": {"required": True, "content": {**content, "application/msgpack": {"schema": schema}}}}


@router.post(
    "/robots/{robot}/forward",
    summary="Compute where links are",
    response_model=None,
    responses={
        200: {"model": ForwardAnswerBody, "description": "Poses in the world frame."},
        **problem_answers(400, 404, 406, 408, 413, 415, 422, 500),
    },
    openapi_extra=_request_body(),
)
async def forward(robot: RobotName, request: Request, state: State) -> Response:
    """Compute forward kinematics; the answer's `poses` can be sent as the `targets` of a solve."""
    model = state.robot(robot)
    codec = request_codec(request.headers)
    replier = answer_codec(request.headers, codec)
    if codec.is_flat:
        raise MediaTypeError(f"Forward kinematics takes no {codec.media_type}. Send application/json.")
    if replier.is_flat:
        raise NotAcceptableError(f"Forward kinematics is not answered as {replier.media_type}.")
    body = await read_body(request, state.max_body_bytes)
    content = await run_in_threadpool(_answer, robot, model, codec, body, replier)
    return Response(content, media_type=replier.media_type)


def _answer(name: str, robot: RobotModel, codec: Codec, body: bytes, replier: Codec) -> bytes:
    try:
        asked = ForwardRequestBody.model_validate(codec.decode(body, "", len(body)))
    except ValidationError as error:
        raise FaultyFieldsError(envelope_faults(error)) from error
    joint_q = read_rows(asked.joint_q, robot.joint_coord_count, "/joint_q")
    links = robot.link_names if asked.links is None else asked.links
    for index, link in enumerate(links):
        check_link(link, robot, f"/links/{index}")
    if len(joint_q) * len(links) > MAX_POSE_COUNT:
        detail = f"{len(joint_q)} configurations of {len(links)} links are too many. Allowed: {MAX_POSE_COUNT} poses."
        raise FaultyFieldsError([Fault("/joint_q", "out_of_range", detail)])
    found = robot.forward_kinematics(joint_q, links)
    poses = [
        {
            "link": link,
            "positions": found.positions[:, k].copy(),
            "orientations_xyzw": found.orientations_xyzw[:, k].copy(),
        }
        for k, link in enumerate(links)
    ]
    return replier.encode({"robot": name, "poses": poses})

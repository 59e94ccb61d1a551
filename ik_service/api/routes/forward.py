"""`POST /v1/robots/{robot}/forward`: configurations in, poses of links out, in float64 and without the solver."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from ik_service.api.admission.access import owner_of
from ik_service.api.admission.request_memory import reservation_of
from ik_service.api.codecs.codec import Codec
from ik_service.api.codecs.media_types import document_codecs
from ik_service.api.documents.answer_size import forward_answer_bytes
from ik_service.api.documents.columns import read_rows
from ik_service.api.documents.envelope import read_envelope
from ik_service.api.documents.frames import check_link
from ik_service.api.errors.exceptions import faulty_field
from ik_service.api.errors.problem_schema import problem_answers
from ik_service.api.routes.openapi import forward_request_body
from ik_service.api.schema.forward import MAX_POSE_COUNT, ForwardAnswerBody, ForwardRequestBody
from ik_service.api.server.body_limits import read_body
from ik_service.api.server.client_disconnect import wait_for
from ik_service.api.server.paced_response import PacedResponse
from ik_service.api.state import RobotName, State
from ik_service.batching.requests.target_keys import FloatArray
from ik_service.robots import RobotModel

POSE_BYTES = 2 * 7 * 8
"""Memory of a pose while an answer is made: as computed, and as copied by links."""
UNCOUNTED_POSES = 1024

router = APIRouter(prefix="/v1", tags=["robots"])


@router.post(
    "/robots/{robot}/forward",
    summary="Compute where links are",
    response_model=None,
    responses={
        200: {"model": ForwardAnswerBody, "description": "Poses in the world frame."},
        **problem_answers(400, 404, 406, 408, 413, 415, 422, 500),
    },
    openapi_extra=forward_request_body(),
)
async def forward(robot: RobotName, request: Request, state: State) -> Response:
    """Compute forward kinematics; the answer's `poses` can be sent as the `targets` of a solve."""
    model = await state.robot(robot)
    codec, output_codec = document_codecs(request.headers, "Forward kinematics")
    body = await read_body(request, state.max_body_bytes)
    owner, reservation = owner_of(request.scope), reservation_of(request.scope)
    decoded_bytes = codec.decoded_bytes(body, state.max_body_bytes)
    if decoded_bytes > codec.blocking_bytes:
        with reservation.reserved(decoded_bytes):
            joint_q, links = await wait_for(request, state.side_threads.run(owner, _read, model, codec, body))
    else:
        joint_q, links = _read(model, codec, body)
    poses = len(joint_q) * len(links)
    reservation.reserve_answer(forward_answer_bytes(links, len(joint_q), is_binary=output_codec.is_binary))
    if poses > UNCOUNTED_POSES:
        reservation.reserve(POSE_BYTES * poses)
    pieces = await wait_for(request, state.side_threads.run(owner, _answer, robot, model, joint_q, links, output_codec))
    return PacedResponse(pieces, media_type=output_codec.media_type)


def _read(robot: RobotModel, codec: Codec, body: bytes) -> tuple[FloatArray, Sequence[str]]:
    """Return the configurations and the names of links in a body."""
    asked = read_envelope(ForwardRequestBody, codec.decode(body, "", len(body)))
    joint_q = read_rows(asked.joint_q, robot.joint_coord_count, "/joint_q")
    links = robot.link_names if asked.links is None else asked.links
    seen: set[str] = set()
    for index, link in enumerate(links):
        check_link(link, robot, f"/links/{index}")
        if link in seen:
            detail = f"Link {link!r} is named twice. Name each link once."
            raise faulty_field(f"/links/{index}", "invalid_value", detail)
        seen.add(link)
    if len(joint_q) * len(links) > MAX_POSE_COUNT:
        detail = f"{len(joint_q)} configurations of {len(links)} links are too many. Allowed: {MAX_POSE_COUNT} poses."
        raise faulty_field("/joint_q", "out_of_range", detail)
    return joint_q, links


def _answer(
    name: str, robot: RobotModel, joint_q: FloatArray, links: Sequence[str], output_codec: Codec
) -> Sequence[bytes | memoryview]:
    found = robot.forward_kinematics(joint_q, links)
    poses = [
        {
            "link": link,
            "positions": found.positions[:, k].copy(),
            "orientations_xyzw": found.orientations_xyzw[:, k].copy(),
        }
        for k, link in enumerate(links)
    ]
    return output_codec.encode_in_pieces({"robot": name, "poses": poses})

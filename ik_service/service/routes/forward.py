"""`POST /v1/robots/{robot}/forward`: configurations in, poses of links out, in float64 and without the solver."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from ik_service.robots import RobotModel, World
from ik_service.service.codecs.codec import Codec
from ik_service.service.documents.columns import read_rows
from ik_service.service.documents.envelope import check_link, read_envelope
from ik_service.service.documents.solve_answer import column_answer_bytes
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.routes.host_calculation import HostCalculation
from ik_service.service.routes.openapi import document_body
from ik_service.service.routes.state import RobotName, State
from ik_service.service.schema.forward import FORWARD_REQUEST, MAX_POSE_COUNT, ForwardAnswerBody, ForwardRequestBody

POSE_BYTES = 2 * 7 * 8
"""Memory of a pose while an answer is made: as computed, and as copied by links."""

router = APIRouter(prefix="/v1", tags=["robots"])


@router.post(
    "/robots/{robot}/forward",
    summary="Compute where links are",
    response_model=None,
    responses={
        200: {"model": ForwardAnswerBody, "description": "Poses in the world frame."},
        **problem_answers(400, 404, 406, 408, 413, 415, 422, 500),
    },
    openapi_extra=document_body(ForwardRequestBody, "one link (panda)", FORWARD_REQUEST),
)
async def forward(robot: RobotName, request: Request, state: State) -> Response:
    """Compute forward kinematics; the answer's `poses` can be sent as the `targets` of a solve."""
    return await _FORWARD.respond(robot, request, state)


class _AskedPoses(NamedTuple):
    joint_q: FloatArray
    links: Sequence[str]


def _read(robot: RobotModel, document: object, _kept: Mapping[str, World]) -> _AskedPoses:
    asked = read_envelope(ForwardRequestBody, document)
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
    return _AskedPoses(joint_q, links)


def _answer_bytes(_robot: RobotModel, asked: _AskedPoses, is_binary: bool) -> int:
    """Return the most bytes of an answer: for each link a column of positions and a column of quaternions."""
    poses, arrays = len(asked.joint_q) * len(asked.links), 2 * len(asked.links)
    return column_answer_bytes(asked.links, 7 * poses, rows=2 * poses, arrays=arrays, is_binary=is_binary)


def _answer(name: str, robot: RobotModel, asked: _AskedPoses, output_codec: Codec) -> Sequence[bytes | memoryview]:
    found = robot.forward_kinematics(asked.joint_q, asked.links)
    poses = [
        {
            "link": link,
            "positions": found.positions[:, k].copy(),
            "orientations_xyzw": found.orientations_xyzw[:, k].copy(),
        }
        for k, link in enumerate(asked.links)
    ]
    return output_codec.encode_in_pieces({"robot": name, "poses": poses})


_FORWARD = HostCalculation[_AskedPoses](
    "Forward kinematics",
    _read,
    _answer_bytes,
    lambda _, asked: POSE_BYTES * len(asked.joint_q) * len(asked.links),
    _answer,
)

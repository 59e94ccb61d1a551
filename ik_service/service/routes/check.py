"""`POST /v1/robots/{robot}/check`: configurations in, their distances from contact out, in float64 on the host."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from ik_service.collision.body_spheres import BodySpheres, with_attached
from ik_service.collision.check import CHECKED_PER_BLOCK, DISTANCES_AT_ONCE
from ik_service.robots import RobotModel, World
from ik_service.service.codecs.codec import Codec
from ik_service.service.documents.columns import read_rows
from ik_service.service.documents.envelope import read_envelope
from ik_service.service.documents.solve_answer import column_answer_bytes
from ik_service.service.documents.surroundings import Surroundings, counted_objects, read_surroundings
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.routes.host_calculation import HostCalculation
from ik_service.service.routes.openapi import document_body
from ik_service.service.routes.state import RobotName, State
from ik_service.service.schema.collision import CHECK_REQUEST, MAX_CHECK_EFFORT, CheckAnswerBody, CheckRequestBody
from ik_service.solver.given.options import SolverOptions
from objectives.errors import InputError

CENTER_BYTES, DISTANCE_BYTES = 8 * 8, 16 * 8
"""Memory of the place of a sphere, and of a distance of one, while it is computed: differences, lengths, radii."""
_NUMBERS = 3  # of a configuration in an answer

router = APIRouter(prefix="/v1", tags=["robots"])


class _AskedCheck(NamedTuple):
    joint_q: FloatArray
    around: Surroundings
    spheres: BodySpheres


@router.post(
    "/robots/{robot}/check",
    summary="Check configurations for collision",
    response_model=None,
    responses={
        200: {"model": CheckAnswerBody, "description": "Distances from contact."},
        **problem_answers(400, 404, 406, 408, 413, 415, 422, 500, 503),
    },
    openapi_extra=document_body(CheckRequestBody, "with a table (panda)", CHECK_REQUEST),
)
async def check(robot: RobotName, request: Request, state: State) -> Response:
    """Tell how far configurations are from contact, with themselves and with a world; needs a collision model."""
    return await _CHECK.respond(robot, request, state)


def _read(robot: RobotModel, document: object, kept: Mapping[str, World]) -> _AskedCheck:
    spheres = robot.body_spheres
    if spheres is None:
        detail = f"Robot '{robot.name}' has no collision model: no spheres that cover its links."
        raise faulty_field("", "no_collision_check", detail)
    asked = read_envelope(CheckRequestBody, document)
    joint_q = read_rows(asked.joint_q, robot.joint_coord_count, "/joint_q")
    options = SolverOptions(collision="self" if asked.world is None else "world")
    around = read_surroundings(asked.world, robot, options, len(joint_q), kept)
    if around.attached:
        spheres = with_attached(robot, spheres, around.attached)
    most = _effort(spheres, around.world)
    if len(joint_q) * most > MAX_CHECK_EFFORT:
        detail = f"{len(joint_q)} configurations are too many here. Allowed: {max(1, MAX_CHECK_EFFORT // most)}."
        raise faulty_field("/joint_q", "out_of_range", detail)
    return _AskedCheck(joint_q, around, spheres)


def _effort(spheres: BodySpheres, world: World | None) -> int:
    """Return how many distances of a configuration are computed."""
    counts = np.diff(spheres.link_start)
    pairs = counts[spheres.pairs].prod(axis=1)
    return int(pairs.sum()) + len(spheres.radii) * (1 if world is None else 1 + counted_objects(world))


def _working_bytes(_robot: RobotModel, asked: _AskedCheck) -> int:
    places = min(len(asked.joint_q), CHECKED_PER_BLOCK) * len(asked.spheres.radii)
    switches = 0 if asked.around.object_enabled is None else asked.around.object_enabled.nbytes
    return places * CENTER_BYTES + DISTANCES_AT_ONCE * DISTANCE_BYTES + switches


def _answer_bytes(_robot: RobotModel, asked: _AskedCheck, is_binary: bool) -> int:
    world = asked.around.world
    names = (*asked.spheres.links, *(() if world is None else world.names))
    return column_answer_bytes(names, _NUMBERS * len(asked.joint_q), is_binary=is_binary)


def _answer(name: str, robot: RobotModel, asked: _AskedCheck, output_codec: Codec) -> Sequence[bytes | memoryview]:
    try:
        found = robot.collision(asked.joint_q, *asked.around)
    except InputError as error:  # such as a quaternion that is none
        raise faulty_field("/joint_q", "invalid_value", str(error)) from None
    clearance = found.clearance
    if not output_codec.is_binary:
        clearance = np.where(np.isinf(clearance), np.nan, clearance)
    columns = {"clearance_m": clearance, "closest": found.closest, "collision_names": found.names}
    return output_codec.encode_in_pieces({"robot": name, **columns})


_CHECK = HostCalculation[_AskedCheck]("Collision", _read, _answer_bytes, _working_bytes, _answer)

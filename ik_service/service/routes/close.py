"""`POST /v1/robots/{robot}/close`: configurations in, those near to them with closed loops out, without targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import Response

from ik_service.constraints.closing import ATTEMPTS
from ik_service.robots import RobotModel, World
from ik_service.service.codecs.codec import Codec
from ik_service.service.documents.columns import read_rows
from ik_service.service.documents.envelope import read_envelope
from ik_service.service.documents.frames import read_disabled
from ik_service.service.documents.solve_answer import column_answer_bytes
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.routes.host_calculation import HostCalculation
from ik_service.service.routes.openapi import document_body
from ik_service.service.routes.state import RobotName, State
from ik_service.service.schema.close import CLOSE_REQUEST, EFFORT_OF_ONE, MAX_EFFORT, CloseAnswerBody, CloseRequestBody
from objectives.errors import InputError

STATUS_NUMBERS = 4
"""Numbers of a configuration in an answer beside coordinates and errors; its status is no longer than one."""
ARRAYS_OF_AN_ATTEMPT = 8
"""Matrices of the size of the rows' derivatives that an attempt needs at once."""

router = APIRouter(prefix="/v1", tags=["robots"])


@dataclass(frozen=True)
class _AskedClosing:
    joint_q: FloatArray
    enabled: NDArray[np.bool_] | None
    body: CloseRequestBody


@router.post(
    "/robots/{robot}/close",
    summary="Close the loops of a robot",
    response_model=None,
    responses={
        200: {"model": CloseAnswerBody, "description": "Closed configurations, or not; see `status`."},
        **problem_answers(400, 404, 406, 408, 413, 415, 422, 500, 503),
    },
    openapi_extra=document_body(CloseRequestBody, "both modes (four_bar)", CLOSE_REQUEST),
)
async def close(robot: RobotName, request: Request, state: State) -> Response:
    """Find configurations near to given ones in which all loops are closed, in float64 and without the solver."""
    return await _CLOSE.respond(robot, request, state)


def _read(robot: RobotModel, document: object, _kept: Mapping[str, World]) -> _AskedClosing:
    asked = read_envelope(CloseRequestBody, document)
    joint_q = read_rows(asked.joint_q, robot.joint_coord_count, "/joint_q")
    known = {*robot.joint_names, *robot.dof_names}
    for index, name in enumerate(asked.frozen):
        if name not in known:
            raise faulty_field(f"/frozen/{index}", "unknown_joint", "The robot has no joint or DOF of this name.")
    rows = robot.constraints.closing_row_count
    effort = len(joint_q) * asked.solutions * (rows * rows * robot.joint_dof_count + EFFORT_OF_ONE)
    if effort > MAX_EFFORT:
        most = MAX_EFFORT * len(joint_q) // effort
        detail = f"{len(joint_q)} configurations are too many for this robot. Allowed with as many solutions: {most}."
        raise faulty_field("/joint_q", "out_of_range", detail)
    return _AskedClosing(joint_q, _enabled(robot, asked, len(joint_q)), asked)


def _enabled(robot: RobotModel, asked: CloseRequestBody, count: int) -> NDArray[np.bool_] | None:
    """Return which constraints are enabled, in the order of `robot.constraints`: those on velocities too."""
    given, names = read_disabled(asked.constraints.disable, robot, count), robot.constraints.names()
    if given is None:
        return None
    lines = np.ones((len(np.atleast_2d(given)), len(names)), dtype=bool)
    lines[:, [names.index(name) for name in robot.constraint_names]] = given
    return lines


def _working_bytes(robot: RobotModel, asked: _AskedClosing) -> int:
    """Return the memory of all attempts, which are made side by side."""
    matrix = 8 * robot.constraints.closing_row_count * robot.joint_dof_count
    return len(asked.joint_q) * ATTEMPTS * asked.body.solutions * ARRAYS_OF_AN_ATTEMPT * matrix


def _answer_bytes(robot: RobotModel, asked: _AskedClosing, is_binary: bool) -> int:
    """Return the most bytes of an answer: numbers of configurations and of modes, errors, names."""
    names = (*robot.coordinate_names, *robot.constraints.names(), *robot.constraints.coordinate_names)
    modes = 1 + (asked.body.solutions if asked.body.solutions > 1 else 0)
    numbers = len(names) + STATUS_NUMBERS + modes * robot.joint_coord_count
    return column_answer_bytes(names, len(asked.joint_q) * numbers, is_binary=is_binary)


def _answer(name: str, robot: RobotModel, asked: _AskedClosing, output_codec: Codec) -> Sequence[bytes | memoryview]:
    body = asked.body
    try:
        found = robot.constraints.close(
            asked.joint_q,
            body.frozen,
            enabled=asked.enabled,
            solutions=body.solutions,
            seed=body.random_seed,
        )
    except InputError as error:  # such as a quaternion that is none
        raise faulty_field("/joint_q", "invalid_value", str(error)) from None
    columns: dict[str, NDArray[Any] | None] = {
        "joint_q": found.joint_q,
        "success": found.closed,
        "iterations": found.iterations,
        "constraint_error": found.constraint_error,
        "closing_joint_q": found.closing_joint_q,
        "solutions": found.solutions,
        "solution_count": found.solution_count,
    }
    document: dict[str, Any] = {
        "robot": name,
        "coordinate_names": robot.coordinate_names,
        "constraint_names": robot.constraints.names(),
        "closing_coordinate_names": robot.constraints.coordinate_names,
        "status": found.status_names,
    }
    document |= {key: np.ascontiguousarray(values) for key, values in columns.items() if values is not None}
    return output_codec.encode_in_pieces(document)


_CLOSE = HostCalculation[_AskedClosing]("Closing of loops", _read, _answer_bytes, _working_bytes, _answer)

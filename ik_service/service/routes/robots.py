"""Robots: `GET /v1/robots`, `/v1/robots/{robot}` and `.../urdf`, and `PUT` and `DELETE` of a robot at run time.

Robots are put and deleted where the operator allows it, by API key only.
"""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from ik_service.robots import builtin_urdf
from ik_service.robots.readers.xml_reader import MAX_BYTES
from ik_service.service.catalog.entries import ServedRobot
from ik_service.service.catalog.robot_catalog import with_choices
from ik_service.service.codecs.media_types import require_uncompressed
from ik_service.service.documents.robot import robot_body, robot_summary
from ik_service.service.errors.exceptions import MediaTypeError, NoUrdfError
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.gate.gate import CONTEXT
from ik_service.service.routes.state import Condition, IfMatch, RobotName, State
from ik_service.service.schema.robot import RobotBody, RobotList

URDF_MEDIA_TYPE = "application/xml"
URDF_MEDIA_TYPES = (URDF_MEDIA_TYPE, "text/xml", "application/urdf+xml")
# The text is a caller's: a browser must not take it for a page of this service.
_AS_A_FILE = {"Content-Security-Policy": "default-src 'none'; sandbox"}

NewName = Annotated[str, Path(description="Name of the robot: a-z, then a-z, 0-9, _ and -.", examples=["my_arm"])]
Constraints = Annotated[
    Literal["read", "ignore"] | None,
    Query(description="Whether the loops that the URDF names are read; `ignore` is kept as its last line."),
]
CollisionShapes = Annotated[
    Literal["shapes", "ignore"] | None,
    Query(
        description="`shapes`: links keep off each other by the spheres that are their collision shapes; `warnings` "
        "say where they have others, which `ik-service spheres` can cover. It is kept in the last line, too."
    ),
]

router = APIRouter(prefix="/v1", tags=["robots"])


def _urdf_body() -> dict[str, Any]:
    example = {"summary": "ur5e", "value": builtin_urdf("ur5e").decode()}
    # Bytes: of an XML type generators would make a model, or leave the route out.
    content = {"schema": {"type": "string", "format": "binary", "maxLength": MAX_BYTES}, "examples": {"ur5e": example}}
    return {"requestBody": {"required": True, "content": {URDF_MEDIA_TYPE: content}}}


@router.head("/robots", include_in_schema=False)
@router.get("/robots", summary="List the robots")
async def list_robots(state: State) -> RobotList:
    """Name every robot that is served, with its size and the ends of its branches."""
    catalog = await state.catalog_refresh.current()
    return RobotList(robots=[robot_summary(name, it.model, it.source) for name, it in catalog.entries.items()])


@router.head("/robots/{robot}", include_in_schema=False)
@router.get(
    "/robots/{robot}",
    summary="Describe a robot",
    response_model=RobotBody,
    responses=problem_answers(304, 404, 412, 422),
)
async def get_robot(robot: RobotName, request: Request, state: State, condition: Condition) -> Response:
    """Tell a robot's tree, joints with their limits, links with their frames, and names of coordinates and DOFs."""
    served = (await state.catalog_refresh.current(robot)).entry(robot)
    if condition.is_known("robot", robot, served):
        return Response(status_code=304, headers={"ETag": served.etag})
    content = await state.side_threads.run(request.scope[CONTEXT].owner, _robot_content, robot, served)
    return Response(content, headers={"ETag": served.etag}, media_type="application/json")


def _robot_content(name: str, served: ServedRobot) -> bytes:
    return robot_body(name, served.model, served.source).model_dump_json().encode()


@router.head("/robots/{robot}/urdf", include_in_schema=False)
@router.get(
    "/robots/{robot}/urdf",
    summary="Get the URDF of a robot",
    response_class=Response,
    responses={
        200: {"description": "The text as it was put.", "content": {URDF_MEDIA_TYPE: {"schema": {"type": "string"}}}},
        **problem_answers(304, 404, 412, 422),
    },
)
async def get_urdf(robot: RobotName, state: State, condition: Condition) -> Response:
    """Give the file that the robot was read from; `package://` addresses in it are left as they are."""
    served = (await state.catalog_refresh.current(robot)).entry(robot)  # one robot, whatever is put meanwhile
    if served.text is None:
        raise NoUrdfError(f"Robot '{robot}' was not read from a URDF.")
    if condition.is_known("robot", robot, served):
        return Response(status_code=304, headers={"ETag": served.etag})
    headers = {**_AS_A_FILE, "ETag": served.etag, "Content-Disposition": f'attachment; filename="{robot}.urdf"'}
    return Response(served.text, media_type=URDF_MEDIA_TYPE, headers=headers)


@router.put(
    "/robots/{robot}",
    summary="Put a robot",
    responses={
        200: {"model": RobotBody, "description": "The robot took the place of the one of that name."},
        201: {"model": RobotBody, "description": "The robot is new."},
        **problem_answers(401, 403, 408, 409, 412, 413, 415, 422, 429, 500, 507),
    },
    openapi_extra=_urdf_body(),
)
async def put_robot(
    robot: NewName,
    request: Request,
    state: State,
    condition: Condition,
    constraints: Constraints = None,
    collision: CollisionShapes = None,
) -> Response:
    """Serve a robot from now on, and after a restart. Requests under way go on with the one they began with."""
    state.require_uploader(request.scope, state.catalog, robot)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in URDF_MEDIA_TYPES:
        raise MediaTypeError(f"The body's Content-Type is {media_type[:100]!r}. Send a URDF as '{URDF_MEDIA_TYPE}'.")
    require_uncompressed(request.headers)
    request.scope[CONTEXT].limit_body(min(MAX_BYTES, state.max_body_bytes), "That is the most for a URDF.")
    text = with_choices(await request.body(), constraints=constraints, collision=collision)
    owner = request.scope[CONTEXT].owner
    putting = state.catalog_thread.run(owner, state.catalog.put, robot, text, replace(condition, owner=owner))
    served, is_new = await asyncio.shield(putting)  # also for a caller who has gone
    content = await state.side_threads.run(owner, _robot_content, robot, served)
    headers = {"ETag": served.etag, "Location": f"/v1/robots/{robot}"}
    return Response(content, status_code=201 if is_new else 200, headers=headers, media_type="application/json")


@router.delete(
    "/robots/{robot}",
    summary="Delete a robot",
    status_code=204,
    responses={204: {"description": "It is gone."}, **problem_answers(401, 403, 404, 409, 412, 422, 500)},
)
async def delete_robot(robot: NewName, request: Request, state: State, if_match: IfMatch = None) -> None:
    """Stop serving a robot that was put; requests under way go on."""
    await state.delete(request.scope, state.catalog, robot, if_match)
    state.metrics.forget(robot)

"""`GET /v1/robots`, `GET /v1/robots/{robot}` and `.../urdf`: what is served."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from ik_service.api.admission.access import owner_of
from ik_service.api.catalog.robot_catalog import ServedRobot
from ik_service.api.errors.exceptions import NoUrdfError
from ik_service.api.errors.problem_schema import problem_answers
from ik_service.api.routes.solve import RobotName
from ik_service.api.schema.robot import RobotBody, RobotList, robot_body, robot_summary
from ik_service.api.state import State

URDF_MEDIA_TYPE = "application/xml"
# The text is a caller's: a browser must not take it for a page of this service.
_AS_A_FILE = {"Content-Security-Policy": "default-src 'none'; sandbox"}

router = APIRouter(prefix="/v1", tags=["robots"])


@router.head("/robots", include_in_schema=False)
@router.get("/robots", summary="List the robots")
async def list_robots(state: State) -> RobotList:
    """Name every robot that is served, with its size and the ends of its branches."""
    catalog = await state.catalog_watch.now()
    return RobotList(robots=[robot_summary(name, it.model, it.source) for name, it in catalog.robots.items()])


@router.head("/robots/{robot}", include_in_schema=False)
@router.get(
    "/robots/{robot}", summary="Describe a robot", response_model=RobotBody, responses=problem_answers(404, 422)
)
async def get_robot(robot: RobotName, request: Request, state: State) -> Response:
    """Tell a robot's tree, joints with their limits, links with their frames, and names of coordinates and DOFs."""
    served = (await state.catalog_watch.now()).robot(robot)
    content = await state.side_work.run(owner_of(request.scope), robot_content, robot, served)
    return Response(content, headers={"ETag": served.etag}, media_type="application/json")


def robot_content(name: str, served: ServedRobot) -> bytes:
    """Return all that is told about a robot as JSON."""
    return robot_body(name, served.model, served.source).model_dump_json().encode()


@router.head("/robots/{robot}/urdf", include_in_schema=False)
@router.get(
    "/robots/{robot}/urdf",
    summary="Get the URDF of a robot",
    response_class=Response,
    responses={
        200: {"description": "The text as it was put.", "content": {URDF_MEDIA_TYPE: {"schema": {"type": "string"}}}},
        **problem_answers(404, 422),
    },
)
async def get_urdf(robot: RobotName, state: State) -> Response:
    """Give the file that the robot was read from; `package://` addresses in it are left as they are."""
    served = (await state.catalog_watch.now()).robot(robot)  # one robot, whatever is put meanwhile
    if served.urdf is None:
        raise NoUrdfError(f"Robot '{robot}' was not read from a URDF.")
    headers = {**_AS_A_FILE, "ETag": served.etag, "Content-Disposition": f'attachment; filename="{robot}.urdf"'}
    return Response(served.urdf, media_type=URDF_MEDIA_TYPE, headers=headers)

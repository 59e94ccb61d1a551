"""`GET /v1/robots` and `GET /v1/robots/{robot}`: what is served."""

from fastapi import APIRouter

from ik_service.api.problem_schema import problem_answers
from ik_service.api.robot_schema import RobotBody, RobotList, robot_body, robot_summary
from ik_service.api.solve_routes import RobotName
from ik_service.api.state import State

router = APIRouter(prefix="/v1", tags=["robots"])


@router.get("/robots", summary="List the robots")
async def list_robots(state: State) -> RobotList:
    """Name every robot that is served, with its size and the ends of its branches."""
    return RobotList(robots=[robot_summary(name, robot) for name, robot in state.robots.items()])


@router.get("/robots/{robot}", summary="Describe a robot", responses=problem_answers(404, 422))
async def get_robot(robot: RobotName, state: State) -> RobotBody:
    """Tell a robot's tree, joints with their limits, links with their frames, and names of coordinates and DOFs."""
    return robot_body(robot, state.robot(robot))

"""`POST /v1/robots/{robot}/solve`, `solve_any`: targets in, configurations out; `clip`, `follow`: motions out."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ik_service.service.codecs.media_types import codecs_of
from ik_service.service.documents.motion import read_clip, read_follow
from ik_service.service.documents.solve_answer import BLOCKING_ANSWER_BYTES, answer_document, solve_bytes
from ik_service.service.documents.solve_any import read_solve_any
from ik_service.service.documents.solve_request import DecodedSolve, read_solve
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.errors.problem_documents import answer_ours
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.gate.answers import PacedResponse, wait_for
from ik_service.service.gate.gate import CONTEXT, RequestContext
from ik_service.service.queue.errors import ExpiredError
from ik_service.service.routes.openapi import binary_content, solve_parameters, solve_request_body
from ik_service.service.routes.state import RobotName, State, service_state
from ik_service.service.schema.examples import CLIP_REQUESTS, FOLLOW_REQUESTS, SOLVE_ANY_REQUESTS
from ik_service.service.schema.motion import ClipAnswerBody, ClipRequestBody, FollowRequestBody, PathAnswerBody
from ik_service.service.schema.solve import SolveAnswerBody
from ik_service.service.schema.solve_any import SolveAnyAnswerBody, SolveAnyRequestBody
from objectives.errors import IKError


class DirectRoute(APIRoute):
    """Route without the dependency injection of FastAPI, for the busiest routes.

    It calls its endpoint with the request, the shared state and the parameters of the path, which are strings.
    The OpenAPI document comes from the signature of the endpoint, which may have no other parameters. Dependencies of a
    router or of the application do not run; keys and limits are checked by the ASGI layers.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        needs = self.dependant
        others = [*needs.query_params, *needs.header_params, *needs.cookie_params, *needs.body_params]
        others += [field for field in needs.path_params if field.field_info.annotation is not str]
        if others or [dependency.call for dependency in needs.dependencies] != [service_state]:
            raise TypeError(f"{self.path} needs more than a DirectRoute gives: the request, the state and strings.")

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] not in (self.methods or ()):
            return await super().handle(scope, receive, send)
        request = Request(scope, receive, send)
        state = scope["app"].state.service  # as of `service_state`
        try:
            response = await self.endpoint(request=request, state=state, **scope["path_params"])
        except IKError as error:
            response = await answer_ours(request, error)
        await response(scope, receive, send)
        return None


class DirectRoutes:
    """ASGI layer in front of FastAPI: calls a `DirectRoute` without FastAPI's layers and its search for a route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._routes = app, [route for route in router.routes if isinstance(route, DirectRoute)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # Not where the application is mounted, under other paths, nor where FastAPI's layers write traces
        if scope["type"] == "http" and not scope.get("root_path") and "fastapi.telemetry" not in scope:
            for route in self._routes:
                if scope["method"] in (route.methods or ()) and (found := route.path_regex.match(scope["path"])):
                    scope["route"], scope["path_params"] = route, found.groupdict()
                    return await route.handle(scope, receive, send)
        return await self._app(scope, receive, send)


router = APIRouter(prefix="/v1", tags=["solve"], route_class=DirectRoute)


def _responses(model: type[BaseModel], description: str) -> dict[int | str, Any]:
    answered = {"model": model, "description": description, "content": binary_content(model)}
    return {200: answered, **problem_answers(400, 404, 406, 412, 413, 415, 422, 429, 500, 503, 504)}


@router.post(
    "/robots/{robot}/solve",
    summary="Solve inverse kinematics for a batch of targets",
    response_model=None,
    responses=_responses(SolveAnswerBody, "One result per problem, solved or not; see `status`."),
    openapi_extra={**solve_request_body(), **solve_parameters()},
)
async def solve(robot: RobotName, request: Request, state: State) -> Response:
    """Find joint configurations that bring links to target poses.

    Failing to converge is an answer: 200 with a `status` for each problem and its best configuration.
    """
    return await _answered(robot, request, state, read_solve)


@router.post(
    "/robots/{robot}/solve_any",
    summary="Choose the best of many candidates, one for each group",
    response_model=None,
    responses=_responses(SolveAnyAnswerBody, "One answer per group, with a candidate or not; see `status`."),
    openapi_extra=solve_request_body(SolveAnyRequestBody, SOLVE_ANY_REQUESTS) | solve_parameters(),
)
async def solve_any(robot: RobotName, request: Request, state: State) -> Response:
    """Find the best candidate of each group, such as one grasp among thousands, by a search: a better one may exist."""
    return await _answered(robot, request, state, read_solve_any)


@router.post(
    "/robots/{robot}/clip",
    summary="Fit a recorded motion",
    response_model=None,
    responses=_responses(ClipAnswerBody, "A row per frame; see `status`."),
    openapi_extra=solve_request_body(ClipRequestBody, CLIP_REQUESTS) | solve_parameters(),
)
async def clip(robot: RobotName, request: Request, state: State) -> Response:
    """Fit a clip: the least error of targets over all frames, within limits of speed and acceleration."""
    return await _answered(robot, request, state, read_clip)


@router.post(
    "/robots/{robot}/follow",
    summary="Follow a path of poses",
    response_model=None,
    responses=_responses(PathAnswerBody, "A row per waypoint, met or not; see `status`."),
    openapi_extra=solve_request_body(FollowRequestBody, FOLLOW_REQUESTS) | solve_parameters(),
)
async def follow(robot: RobotName, request: Request, state: State) -> Response:
    """Follow a path: solutions of all waypoints, each close to the one before."""
    return await _answered(robot, request, state, read_follow)


async def _answered(robot: str, request: Request, state: State, read: Callable[..., DecodedSolve]) -> Response:
    context: RequestContext = request.scope[CONTEXT]
    arrival, owner = context.arrival, context.owner
    assert arrival is not None  # the gate notes it for all requests to solve
    model = await state.robot(robot, request.headers.get("if-match"))
    kept = (await state.world_refresh.current()).worlds
    codec, output_codec = codecs_of(request.headers)
    decoded = await state.read(request, codec, lambda document: read(document, model, kept))
    if output_codec.is_flat and (nested := {"islands", "trace"} & decoded.include):
        detail = f"{output_codec.media_type} cannot hold {' or '.join(sorted(nested))}."
        raise faulty_field("/include", "unknown_option", detail)
    asked, (size, array_bytes) = decoded.request, solve_bytes(model, decoded, output_codec)
    context.reserve_answer(size)
    context.reserve(array_bytes)
    timeout_s = state.admission.note(arrival, model, asked, owner)
    solving = state.bridge.solve(model, asked, timeout_s=timeout_s, label=robot, owner=owner)
    answer = await wait_for(request, solving)
    if arrival.deadline < time.monotonic():
        raise ExpiredError("The deadline passed before the answer could be sent.")
    is_binary, media_type = output_codec.is_binary, output_codec.media_type
    make = partial(answer_document, model, robot, decoded, answer, arrived_at=arrival.at, is_binary=is_binary)
    if size <= BLOCKING_ANSWER_BYTES:
        return Response(output_codec.encode(make()), media_type=media_type)
    making = state.side_threads.run(owner, lambda: output_codec.encode_in_pieces(make()))
    return PacedResponse(await wait_for(request, making), media_type=media_type)

"""The short way to an endpoint gives what FastAPI's own would, and refuses what it cannot give."""

import asyncio

import pytest
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ik_service.service import create_app
from ik_service.service.routes import solve as solve_routes
from ik_service.service.routes.solve import DirectRoute, DirectRoutes
from ik_service.service.routes.state import State
from ik_service.settings import ServiceSettings


def test_the_solve_routes_are_direct_ones():
    routes = [route for route in solve_routes.router.routes if isinstance(route, APIRoute)]
    assert len(routes) == 4
    assert all(isinstance(route, DirectRoute) for route in routes)


def key_of(request: Request) -> None: ...


async def with_query(request: Request, state: State, page: str) -> None: ...


async def with_number(request: Request, state: State, number: int) -> None: ...


async def with_dependency(request: Request, state: State, key: None = Depends(key_of)) -> None: ...


async def without_state(request: Request) -> None: ...


@pytest.mark.parametrize("endpoint", [with_query, with_number, with_dependency, without_state])
def test_an_endpoint_that_needs_more_is_refused(endpoint):
    router = APIRouter(route_class=DirectRoute)
    with pytest.raises(TypeError, match="DirectRoute"):
        router.get("/{number}")(endpoint)


def test_only_posts_to_the_solve_routes_pass_fastapi_by(monkeypatch):
    handled, passed_on = [], []

    async def handle(route, scope, receive, send):
        handled.append((route.path, scope["route"].path, scope["path_params"]))

    async def fastapi(scope, receive, send):
        passed_on.append(scope)

    monkeypatch.setattr(DirectRoute, "handle", handle)
    post = {"type": "http", "method": "POST", "path": "/v1/robots/panda/solve"}
    others = [{"method": "GET"}, {"path": "/v1/robots/panda/close"}, {"root_path": "/ik"}, {"type": "websocket"}]
    others.append({"fastapi.telemetry": object()})
    scopes = [post | other for other in others]
    layer = DirectRoutes(fastapi)
    for scope in [*scopes, post, post | {"path": "/v1/robots/a b/solve_any"}]:
        asyncio.run(layer(scope, None, None))
    assert passed_on == scopes
    name = "/v1/robots/{robot}/solve"
    assert handled == [(name, name, {"robot": "panda"}), (f"{name}_any", f"{name}_any", {"robot": "a b"})]


@pytest.mark.parametrize("has_layer", [False, True])
def test_a_layer_that_somebody_adds_sees_solves_too(has_layer):
    seen = []
    app = create_app(ServiceSettings(device="cpu", robots="panda", warm_up_robots=""), bound_to="127.0.0.1")
    if has_layer:

        @app.middleware("http")
        async def layer(request: Request, call_next) -> Response:
            seen.append(request.url.path)
            return await call_next(request)

    paths = [f"/v1/robots/{name}/{route}" for name in ("panda", "nobody") for route in ("solve", "solve_any")]
    with TestClient(app, base_url="http://localhost") as client:
        answers = [client.post(path, content=b"[", headers={"content-type": "application/json"}) for path in paths]
    assert [answer.json()["code"] for answer in answers] == ["malformed_json"] * 2 + ["unknown_robot"] * 2
    assert seen == (paths if has_layer else [])

"""The short way to an endpoint gives what FastAPI's own would, and refuses what it cannot give."""

import pytest
from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute

from ik_service.service.routes import solve as solve_routes
from ik_service.service.routes.solve import DirectRoute
from ik_service.service.routes.state import State


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

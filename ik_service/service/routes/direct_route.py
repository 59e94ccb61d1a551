"""A route that calls its endpoint without the dependency injection of FastAPI, for the busiest routes."""

from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from ik_service.service.routes.state import service_state


class DirectRoute(APIRoute):
    """Calls its endpoint with the request, the shared state and the parameters of the path, which are strings.

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
        state = await service_state(request)
        response = await self.endpoint(request=request, state=state, **scope["path_params"])
        await response(scope, receive, send)
        return None

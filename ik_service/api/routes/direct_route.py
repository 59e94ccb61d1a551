"""A route without the machinery of FastAPI between the request and its endpoint, for the routes that are asked most."""

from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from ik_service.api.state import service_state


class DirectRoute(APIRoute):
    """Calls its endpoint with the request, the shared state and the path's parameters, which are plain strings.

    The OpenAPI document comes from the endpoint's signature as ever, but nothing else may stand there, and dependencies
    of a router or of the application do not run: keys and bounds are checked by the layers in front.
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

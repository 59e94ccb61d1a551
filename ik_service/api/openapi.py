"""The OpenAPI document: what FastAPI gathers from the routes, plus the models of bodies that we read ourselves."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ik_service.api.examples import EXAMPLE_ROBOTS, SOLVE_REQUESTS
from ik_service.api.problem_schema import ProblemBody
from ik_service.api.solve_schema import SolveRequestBody

_REF_TEMPLATE = "#/components/schemas/{model}"
_BODIES: Sequence[type[BaseModel]] = (SolveRequestBody, ProblemBody)


def solve_request_body() -> dict[str, Any]:
    """Return the declaration of a solve request's body."""
    examples = {
        name: {"summary": f"{name.replace('_', ' ')} ({EXAMPLE_ROBOTS[name]})", "value": value}
        for name, value in SOLVE_REQUESTS.items()
    }
    schema = {"$ref": _REF_TEMPLATE.format(model=SolveRequestBody.__name__)}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema, "examples": examples}}}
    }


def install_openapi(app: FastAPI) -> None:
    """Make an application serve our OpenAPI document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build_openapi(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI documents this as the way to extend it


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    built = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    schemas = built.setdefault("components", {}).setdefault("schemas", {})
    _, ours = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_REF_TEMPLATE)
    schemas.update(ours["$defs"])
    return built

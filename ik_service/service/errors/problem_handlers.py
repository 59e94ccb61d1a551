"""Handlers that answer every error of an application with a problem document, the framework's own included."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ik_service.service.errors.exceptions import FaultBody
from ik_service.service.errors.problem_documents import (
    FRAMEWORK_PROBLEMS,
    error_response,
    framework_kind,
    kind_of,
    problem_response,
)
from objectives.errors import IKError

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
"""Methods that routes have."""

_logger = logging.getLogger(__name__)


def install_problem_handlers(app: FastAPI) -> None:
    """Register the handlers with an application."""
    app.add_exception_handler(IKError, _answer_ours)
    app.add_exception_handler(HTTPException, _answer_framework)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(Exception, _answer_unexpected)


async def _answer_ours(request: Request, error: Exception) -> Response:
    if kind_of(error).status == 500:
        _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(error)


async def _answer_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # what this handler is registered for
    kind, headers = framework_kind(error.status_code), dict(error.headers or {})
    if error.status_code == 404:
        detail = f"There is nothing at {request.url.path[:200]!r}. GET /openapi.json lists what there is."
    elif error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed_methods(request))  # the framework knows those of one route only
        detail = f"{request.method} is not allowed here. Allowed: {headers['Allow']}."
    else:
        detail = str(error.detail)
    return problem_response(kind, detail, headers=headers)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods that some route has at the address of a request."""
    routes = request.app.routes

    def is_allowed(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)

    return [method for method in METHODS if is_allowed(method)]


async def _answer_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # what this handler is registered for
    faults = [FaultBody(pointer="", code="invalid_value", detail=str(entry["msg"])) for entry in error.errors()]
    return problem_response(FRAMEWORK_PROBLEMS[422], "The request is not as the schema says.", faults)


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    # The framework raises what it did not expect once more after this answer, and the server logs it then.
    return error_response(error)

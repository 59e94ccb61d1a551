"""RFC 9457 problem documents of all errors over HTTP, and the table from errors to status and code.

A client branches on `code`, which is stable; `title` and `detail` are for people. An unexpected error is logged and
answered without its text. Handlers answer every error of an application, the framework's own included.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http.client import responses
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from ik_service.errors import EngineError, KernelBuildError, KernelCacheError, RobotFileError
from ik_service.robots.readers.xml_reader import shortened
from ik_service.service.errors import exceptions as api
from ik_service.service.errors.exceptions import POINTER_LENGTH, FaultBody, FaultyFieldsError
from ik_service.service.queue import errors as batching
from objectives.errors import IKError, InputError, ObjectiveError, UnknownNameError

PROBLEM_MEDIA_TYPE = "application/problem+json"
DETAIL_LENGTH = 8192
"""Characters of the detail of a document, and of those of its faults together: with pointers 32 KiB, in ASCII."""

current_request_id: ContextVar[str | None] = ContextVar("current_request_id", default=None)
"""Id of the request that is being answered; answers and logs have the id."""

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
"""Methods that routes have."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProblemKind:
    """The answer to a class of errors."""

    status: int  # HTTP status; 500 is a fault of the service, and logged
    code: str  # stable name
    title: str  # for people, the same for all errors of the class
    retry_after_s: int | None = None  # time after which to try again [s]
    headers: Mapping[str, str] = field(default_factory=dict)  # further headers
    detail: str | None = None  # text in place of the error's own text; None for the error's own


_ASK_FOR_KEY = {"WWW-Authenticate": 'Bearer realm="ik-service"'}
_CLOSE = {"Connection": "close"}
_INTERNAL = ProblemKind(
    500, "internal_error", "Internal error", detail="The service failed to answer. The fault is logged on its side."
)
_NO_KERNELS = ProblemKind(
    500,
    "kernels_unavailable",
    "No compiled code for this request",
    detail="The service has no compiled code for requests of this kind, and cannot keep what it would compile. Its log "
    "names the folder.",
)
_NOT_COMPILED = ProblemKind(422, "compile_failed", "No code can be compiled for this kind of request")

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    FaultyFieldsError: ProblemKind(422, "invalid_value", "The request has a value that is not allowed"),
    api.MalformedBodyError: ProblemKind(400, "malformed_json", "The body is not JSON"),
    api.MalformedMsgpackError: ProblemKind(400, "malformed_msgpack", "The body is not MessagePack"),
    api.MalformedNpzError: ProblemKind(400, "malformed_npz", "The body is not an archive of arrays"),
    api.NotAcceptableError: ProblemKind(406, "not_acceptable", "No media type that the client accepts"),
    api.ContentEncodingError: ProblemKind(415, "unsupported_content_encoding", "Content encoding not supported"),
    api.MediaTypeError: ProblemKind(415, "unsupported_media_type", "Media type not supported"),
    api.BodyTooLargeError: ProblemKind(413, "body_too_large", "Body too large"),
    api.AnswerTooLargeError: ProblemKind(413, "answer_too_large", "The answer would be too large"),
    api.TooManyProblemsError: ProblemKind(413, "too_many_problems", "Too many problems in one request"),
    api.UnknownRobotError: ProblemKind(404, "unknown_robot", "Unknown robot"),
    api.UnknownWorldError: ProblemKind(404, "unknown_world", "Unknown world"),
    UnknownNameError: ProblemKind(422, "unknown_name", "Unknown name"),
    RobotFileError: ProblemKind(422, "invalid_robot_file", "The robot description cannot be read"),
    InputError: ProblemKind(422, "invalid_value", "The request has a value that is not allowed"),
    api.MissingKeyError: ProblemKind(401, "missing_api_key", "An API key is needed", headers=_ASK_FOR_KEY),
    api.WrongKeyError: ProblemKind(401, "invalid_api_key", "The API key is not known", headers=_ASK_FOR_KEY),
    api.KeyRightsError: ProblemKind(403, "key_not_allowed", "The API key may not do this"),
    api.UntrustedHostError: ProblemKind(403, "untrusted_host", "The service does not answer to this name"),
    api.UntrustedOriginError: ProblemKind(403, "untrusted_origin", "Web pages of this origin are not let in"),
    api.MetricsClosedError: ProblemKind(403, "metrics_closed", "Metrics need an API key here"),
    api.UploadsDisabledError: ProblemKind(403, "uploads_disabled", "Nothing can be put or deleted here"),
    api.AccessError: ProblemKind(403, "forbidden", "This is not allowed"),
    api.RepeatedHeaderError: ProblemKind(400, "bad_request", "Bad request"),
    api.BodyTimeoutError: ProblemKind(408, "body_timeout", "The body came too slowly", headers=_CLOSE),
    api.RobotNameError: ProblemKind(422, "invalid_robot_name", "No robot can have this name"),
    api.WorldNameError: ProblemKind(422, "invalid_world_name", "No world can have this name"),
    api.ReadOnlyRobotError: ProblemKind(409, "read_only_robot", "Built-in robots stay as they are"),
    api.CatalogFullError: ProblemKind(409, "catalog_full", "No more can be put"),
    api.CatalogStorageError: ProblemKind(500, "storage_failed", "The change could not be stored"),
    api.CatalogStorageFullError: ProblemKind(507, "storage_full", "No room to store it"),
    api.StaleEntryError: ProblemKind(412, "precondition_failed", "It is not the one that was expected"),
    api.NoUrdfError: ProblemKind(404, "no_urdf", "The robot has no URDF"),
    api.MjcfRefusedError: ProblemKind(415, "mjcf_refused", "MJCF is not taken over HTTP"),
    EngineError: ProblemKind(422, "engine_unavailable", "No engine can run this problem"),
    batching.QueueFullError: ProblemKind(503, "queue_full", "Too many requests are waiting", retry_after_s=1),
    batching.RateExceededError: ProblemKind(429, "rate_exceeded", "Too many requests per second", retry_after_s=1),
    batching.ShareExhaustedError: ProblemKind(
        429, "share_exhausted", "The caller has its share already", retry_after_s=1
    ),
    batching.ExpiredError: ProblemKind(504, "deadline_passed", "The deadline passed"),
    batching.CompilingError: ProblemKind(
        503, "compiling", "Code for this kind of request is being compiled", retry_after_s=1
    ),
    batching.CompileFailedError: _NOT_COMPILED,
    batching.ClosedError: ProblemKind(
        503, "shutting_down", "The service is shutting down", retry_after_s=5, headers=_CLOSE
    ),
    api.NotReadyError: ProblemKind(503, "not_ready", "The service is not ready", retry_after_s=2),
    batching.SolverLostError: ProblemKind(503, "solver_lost", "The service can solve no more"),
    KernelCacheError: _NO_KERNELS,
    KernelBuildError: replace(_NOT_COMPILED, detail="The service's log has what the compiler says."),
    ObjectiveError: _INTERNAL,
    IKError: _INTERNAL,
    Exception: _INTERNAL,
}
"""How each class of errors is answered; an error has the row of its nearest class."""

FRAMEWORK_PROBLEMS: Mapping[int, ProblemKind] = {
    400: ProblemKind(400, "bad_request", "Bad request"),
    401: ProblemKind(401, "missing_api_key", "An API key is needed"),
    403: ProblemKind(403, "forbidden", "This is not allowed"),
    404: ProblemKind(404, "not_found", "Not found"),
    405: ProblemKind(405, "method_not_allowed", "Method not allowed"),
    408: ProblemKind(408, "request_timeout", "The request came too slowly", headers=_CLOSE),
    413: ProblemKind(413, "body_too_large", "Body too large"),
    422: ProblemKind(422, "invalid_value", "The request has a value that is not allowed"),
    431: ProblemKind(431, "headers_too_large", "Headers too large", headers=_CLOSE),
    500: _INTERNAL,
    501: ProblemKind(501, "not_implemented", "Not implemented", headers=_CLOSE),
    503: ProblemKind(503, "unavailable", "The service cannot answer now", retry_after_s=1),
}
"""How errors of the framework are answered, of which only the status is known."""


def kind_of(error: Exception) -> ProblemKind:
    """Return the row of the table for an error."""
    return next(PROBLEMS[parent] for parent in type(error).__mro__ if parent in PROBLEMS)


def problem_document(kind: ProblemKind, detail: str, faults: Iterable[FaultBody] = ()) -> dict[str, Any]:
    """Return a problem document; its code is the code of the first fault of the body, or else of the kind."""
    listed = [fault.model_dump() for fault in faults]
    for fault in listed:
        fault["pointer"] = shortened(fault["pointer"], POINTER_LENGTH)
        fault["detail"] = shortened(fault["detail"], DETAIL_LENGTH // len(listed))
    code = listed[0]["code"] if listed else kind.code
    document: dict[str, Any] = {
        "type": f"urn:ik-service:problem:{code}",
        "title": kind.title,
        "status": kind.status,
        "code": code,
        "detail": shortened(detail, DETAIL_LENGTH),
    }
    request_id = current_request_id.get()
    if request_id is not None:
        document["request_id"] = request_id
    return {**document, "errors": listed} if listed else document


def problem_response(
    kind: ProblemKind, detail: str, faults: Iterable[FaultBody] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem document as a response, with Retry-After where the kind says so."""
    fields = {**kind.headers, **(headers or {})}
    if kind.retry_after_s is not None:
        fields["Retry-After"] = str(kind.retry_after_s)
    content = orjson.dumps(problem_document(kind, detail, faults))
    return Response(content, status_code=kind.status, headers=fields, media_type=PROBLEM_MEDIA_TYPE)


def error_document(error: Exception) -> dict[str, Any]:
    """Return the problem document of an error, without the text of one that is a fault of the service."""
    return problem_document(kind_of(error), *_detail_and_faults(error))


def error_response(error: Exception) -> Response:
    """Return the answer to an error, without the text of one that is a fault of the service."""
    kind = kind_of(error)
    if isinstance(error, (batching.QueueFullError, batching.CompilingError)):
        kind = replace(kind, retry_after_s=error.retry_after_s)
    return problem_response(kind, *_detail_and_faults(error))


def _detail_and_faults(error: Exception) -> tuple[str, Sequence[FaultBody]]:
    return kind_of(error).detail or str(error), error.faults if isinstance(error, FaultyFieldsError) else ()


def framework_kind(status: int) -> ProblemKind:
    """Return the row for an error of which only the status is known."""
    if status in FRAMEWORK_PROBLEMS:
        return FRAMEWORK_PROBLEMS[status]
    return ProblemKind(status, f"http_{status}", responses.get(status, "Error"))


async def send_error(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or the handshake of a web socket, with the problem document of an error."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
    else:
        await error_response(error)(scope, receive, send)


def install_problem_handlers(app: FastAPI) -> None:
    """Register the handlers with an application."""
    app.add_exception_handler(IKError, answer_ours)
    app.add_exception_handler(HTTPException, _answer_framework)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(Exception, _answer_unexpected)


async def answer_ours(request: Request, error: Exception) -> Response:
    """Return the answer to an error of this project; log a fault of the service."""
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

"""Every error that leaves the service over HTTP, as RFC 9457 problem documents, and the one table behind them.

A client branches on `code`, which stays; `title` and `detail` are for people. Nothing of the inside leaks: an
unexpected error is logged and answered without its text.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ik_service.api.errors.exceptions import (
    AccessError,
    AnswerTooLargeError,
    BodyTimeoutError,
    CatalogFullError,
    CatalogStorageError,
    CatalogStorageFullError,
    KeyRightsError,
    MetricsClosedError,
    MissingKeyError,
    MjcfRefusedError,
    NoUrdfError,
    ReadOnlyRobotError,
    RobotNameError,
    StaleRobotError,
    UntrustedHostError,
    UntrustedOriginError,
    UploadsDisabledError,
    WrongKeyError,
)
from ik_service.api.errors.request_id import current_request_id
from ik_service.batching.errors import (
    ClosedError,
    CompileFailedError,
    CompilingError,
    ExpiredError,
    QueueFullError,
    ShareExhaustedError,
    SolverLostError,
)
from ik_service.errors import EngineError, KernelBuildError, KernelCacheError, RobotFileError
from objectives.errors import IKError, InputError, ObjectiveError, UnknownNameError

MEDIA_TYPE = "application/problem+json"
FAULTS_MAX = 16
"""Faults listed in one answer; the others are left out."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request body.

    Attributes:
        pointer: JSON pointer (RFC 6901) to it; empty for the whole body.
        code: Stable name of the kind of fault.
        detail: What is wrong and what is allowed.
    """

    pointer: str
    code: str
    detail: str


class FaultyFieldsError(InputError):
    """Fields of the body that are not as the schema says; `faults` names each."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        """Keep the faults, in the order found, one at least."""
        self.faults = tuple(faults)[:FAULTS_MAX]
        first = self.faults[0]
        super().__init__(f"{first.pointer or 'The body'}: {first.detail}")


class MalformedBodyError(InputError):
    """The body is not JSON in UTF-8."""


class MalformedMsgpackError(MalformedBodyError):
    """The body is not a MessagePack document of plain types."""


class MalformedNpzError(MalformedBodyError):
    """The body is not an archive of arrays."""


class MediaTypeError(InputError):
    """The body has a media type that is not served."""


class ContentEncodingError(InputError):
    """The body is compressed."""


class NotAcceptableError(InputError):
    """The client accepts no media type that is served."""


class BodyTooLargeError(InputError):
    """The body has more bytes than are allowed."""


class TooManyProblemsError(InputError):
    """The request holds more problems than are allowed."""


class UnknownRobotError(UnknownNameError):
    """No robot of that name is served."""


class NotReadyError(IKError):
    """The service is still starting, or has failed to."""


@dataclass(frozen=True)
class Kind:
    """How a class of errors is answered.

    Attributes:
        status: HTTP status; at 500 the error is ours, and logged.
        code: Stable name.
        title: For people, the same for all of the class.
        retry_after_s: When to come back [s].
        headers: Further headers.
        detail: What is told instead of the error's own text; None for that text.
    """

    status: int
    code: str
    title: str
    retry_after_s: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    detail: str | None = None


_ASK_FOR_KEY = {"WWW-Authenticate": 'Bearer realm="ik-service"'}
_CLOSE = {"Connection": "close"}
_INTERNAL = Kind(
    500, "internal_error", "Internal error", detail="The service failed to answer. The fault is logged on its side."
)
_NO_KERNELS = Kind(
    500,
    "kernels_unavailable",
    "No compiled code for this request",
    detail="The service has no compiled code for requests of this kind, and cannot keep what it would compile. Its log "
    "names the folder.",
)
_NOT_COMPILED = Kind(422, "compile_failed", "No code can be compiled for this kind of request")

PROBLEMS: Mapping[type[Exception], Kind] = {
    FaultyFieldsError: Kind(422, "invalid_value", "The request has a value that is not allowed"),
    MalformedBodyError: Kind(400, "malformed_json", "The body is not JSON"),
    MalformedMsgpackError: Kind(400, "malformed_msgpack", "The body is not MessagePack"),
    MalformedNpzError: Kind(400, "malformed_npz", "The body is not an archive of arrays"),
    NotAcceptableError: Kind(406, "not_acceptable", "No media type that the client accepts"),
    ContentEncodingError: Kind(415, "unsupported_content_encoding", "Content encoding not supported"),
    MediaTypeError: Kind(415, "unsupported_media_type", "Media type not supported"),
    BodyTooLargeError: Kind(413, "body_too_large", "Body too large"),
    AnswerTooLargeError: Kind(413, "answer_too_large", "The answer would be too large"),
    TooManyProblemsError: Kind(413, "too_many_problems", "Too many problems in one request"),
    UnknownRobotError: Kind(404, "unknown_robot", "Unknown robot"),
    UnknownNameError: Kind(422, "unknown_name", "Unknown name"),
    RobotFileError: Kind(422, "invalid_robot_file", "The robot description cannot be read"),
    InputError: Kind(422, "invalid_value", "The request has a value that is not allowed"),
    MissingKeyError: Kind(401, "missing_api_key", "An API key is needed", headers=_ASK_FOR_KEY),
    WrongKeyError: Kind(401, "invalid_api_key", "The API key is not known", headers=_ASK_FOR_KEY),
    KeyRightsError: Kind(403, "key_not_allowed", "The API key may not do this"),
    UntrustedHostError: Kind(403, "untrusted_host", "The service does not answer to this name"),
    UntrustedOriginError: Kind(403, "untrusted_origin", "Web pages of this origin are not let in"),
    MetricsClosedError: Kind(403, "metrics_closed", "Metrics need an API key here"),
    UploadsDisabledError: Kind(403, "uploads_disabled", "Robots cannot be put or deleted here"),
    AccessError: Kind(403, "forbidden", "This is not allowed"),
    BodyTimeoutError: Kind(408, "body_timeout", "The body came too slowly", headers=_CLOSE),
    RobotNameError: Kind(422, "invalid_robot_name", "No robot can have this name"),
    ReadOnlyRobotError: Kind(409, "read_only_robot", "Built-in robots stay as they are"),
    CatalogFullError: Kind(409, "catalog_full", "No more robots can be put"),
    CatalogStorageError: Kind(500, "storage_failed", "The robot could not be stored"),
    CatalogStorageFullError: Kind(507, "storage_full", "No room to store robots"),
    StaleRobotError: Kind(412, "precondition_failed", "The robot is not the one that was expected"),
    NoUrdfError: Kind(404, "no_urdf", "The robot has no URDF"),
    MjcfRefusedError: Kind(415, "mjcf_refused", "MJCF is not taken over HTTP"),
    EngineError: Kind(422, "engine_unavailable", "No engine can run this problem"),
    QueueFullError: Kind(503, "queue_full", "Too many requests are waiting", retry_after_s=1),
    ShareExhaustedError: Kind(429, "share_exhausted", "The caller has its share already", retry_after_s=1),
    ExpiredError: Kind(504, "deadline_passed", "The deadline passed"),
    CompilingError: Kind(503, "compiling", "Code for this kind of request is being compiled", retry_after_s=1),
    CompileFailedError: _NOT_COMPILED,
    ClosedError: Kind(503, "shutting_down", "The service is shutting down", retry_after_s=5, headers=_CLOSE),
    NotReadyError: Kind(503, "not_ready", "The service is not ready", retry_after_s=2),
    SolverLostError: Kind(503, "solver_lost", "The service can solve no more"),
    KernelCacheError: _NO_KERNELS,
    KernelBuildError: replace(_NOT_COMPILED, detail="The service's log has what the compiler says."),
    ObjectiveError: _INTERNAL,
    IKError: _INTERNAL,
    Exception: _INTERNAL,
}
"""How each class of errors is answered; an error takes the row of its nearest class."""

FRAMEWORK_PROBLEMS: Mapping[int, Kind] = {
    400: Kind(400, "bad_request", "Bad request"),
    401: Kind(401, "missing_api_key", "An API key is needed"),
    403: Kind(403, "forbidden", "This is not allowed"),
    404: Kind(404, "not_found", "Not found"),
    405: Kind(405, "method_not_allowed", "Method not allowed"),
    408: Kind(408, "request_timeout", "The request came too slowly", headers=_CLOSE),
    413: Kind(413, "body_too_large", "Body too large"),
    422: Kind(422, "invalid_value", "The request has a value that is not allowed"),
    431: Kind(431, "headers_too_large", "Headers too large", headers=_CLOSE),
    500: _INTERNAL,
    501: Kind(501, "not_implemented", "Not implemented", headers=_CLOSE),
    503: Kind(503, "unavailable", "The service cannot answer now", retry_after_s=1),
}
"""How errors that the framework raises by status alone are answered."""


def kind_of(error: Exception) -> Kind:
    """Return the row of the table for an error."""
    return next(PROBLEMS[parent] for parent in type(error).__mro__ if parent in PROBLEMS)


def problem_document(kind: Kind, detail: str, faults: Iterable[Fault] = ()) -> dict[str, Any]:
    """Return a problem document.

    Args:
        kind: Status, code and title.
        detail: What happened this time, and what to do.
        faults: Faults of the body; the code of the first one becomes the code of the document.
    """
    listed = [{"pointer": fault.pointer, "code": fault.code, "detail": fault.detail} for fault in faults]
    code = listed[0]["code"] if listed else kind.code
    document: dict[str, Any] = {
        "type": f"urn:ik-service:problem:{code}",
        "title": kind.title,
        "status": kind.status,
        "code": code,
        "detail": detail,
    }
    request_id = current_request_id.get()
    if request_id is not None:
        document["request_id"] = request_id
    return {**document, "errors": listed} if listed else document


def problem_response(
    kind: Kind, detail: str, faults: Iterable[Fault] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem document as a response, with Retry-After where the kind says so.

    Args:
        kind: Status, code and title.
        detail: What happened this time, and what to do.
        faults: Faults of the body.
        headers: Further headers.
    """
    fields = {**kind.headers, **(headers or {})}
    if kind.retry_after_s is not None:
        fields["Retry-After"] = str(kind.retry_after_s)
    content = orjson.dumps(problem_document(kind, detail, faults))
    return Response(content, status_code=kind.status, headers=fields, media_type=MEDIA_TYPE)


def install_problem_handlers(app: FastAPI) -> None:
    """Answer every error of an application with a problem document, the framework's own included."""
    app.add_exception_handler(IKError, _answer_ours)
    app.add_exception_handler(HTTPException, _answer_framework)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(Exception, _answer_unexpected)


def error_document(error: Exception) -> dict[str, Any]:
    """Return the problem document of an error; the text of one that is our fault stays inside."""
    kind = kind_of(error)
    return problem_document(
        kind, kind.detail or str(error), error.faults if isinstance(error, FaultyFieldsError) else ()
    )


def error_response(error: Exception) -> Response:
    """Return the answer to an error; the text of one that is our fault stays inside."""
    kind = kind_of(error)
    if isinstance(error, (QueueFullError, CompilingError)):
        kind = replace(kind, retry_after_s=error.retry_after_s)
    return problem_response(
        kind, kind.detail or str(error), error.faults if isinstance(error, FaultyFieldsError) else ()
    )


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
"""Methods that routes have."""


def framework_kind(status: int) -> Kind:
    """Return how an error is answered of which only the status is known."""
    if status in FRAMEWORK_PROBLEMS:
        return FRAMEWORK_PROBLEMS[status]
    phrases = {known.value: known.phrase for known in HTTPStatus}
    return Kind(status, f"http_{status}", phrases.get(status, "Error"))


async def _answer_ours(request: Request, error: Exception) -> Response:
    if kind_of(error).status == 500:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
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
    faults = [Fault("", "invalid_value", str(entry["msg"])) for entry in error.errors()]
    return problem_response(FRAMEWORK_PROBLEMS[422], "The request is not as the schema says.", faults)


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    # The framework raises what it did not expect once more after this answer, and the server logs it then.
    return error_response(error)

"""Problem documents as JSON schema, and what routes declare about them."""

from typing import Any

from pydantic import BaseModel, Field

from ik_service.service.errors import exceptions as api
from ik_service.service.errors.problem_documents import PROBLEM_MEDIA_TYPE, error_document
from ik_service.service.queue.errors import ExpiredError, ShareExhaustedError


class ProblemBody(BaseModel):
    """An error (RFC 9457). Branch on `code`, which is stable; `title` and `detail` are for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str | None = Field(default=None, description="Id of the request, as in its X-Request-ID header.")
    errors: list[api.FaultBody] | None = None


_DESCRIPTIONS = {
    304: "The caller has it already, as If-None-Match says.",
    400: "The body is not in the form that its Content-Type says.",
    401: "An API key is needed, or the one given is not known.",
    403: "The API key may not do this, or nobody may here.",
    404: "No robot or world of that name is served.",
    406: "No media type that Accept names is served.",
    408: "The body came too slowly.",
    409: "The catalog does not allow this.",
    412: "It is not the one that the precondition names.",
    413: "Too many bytes or too many problems.",
    415: "The body's media type is not served, or it is compressed.",
    422: "The body can be read, but something in it is not allowed; `errors` points at each fault.",
    429: "The API key has its share already, or sends too many requests per second; see Retry-After.",
    500: "The service failed. The cause is in its log.",
    507: "The service's disk has no room.",
    503: "Not ready, too many requests are waiting, or code is still being compiled; see Retry-After.",
    504: "The deadline passed before there was an answer; nothing or not all was solved.",
}

_EXAMPLES: dict[int, Exception] = {
    400: api.MalformedBodyError("The body is not JSON in UTF-8: unexpected end of data: line 1 column 40 (char 39)."),
    401: api.MissingKeyError("Send an API key: 'X-API-Key: KEY' or 'Authorization: Bearer KEY'."),
    403: api.UploadsDisabledError("Robots cannot be put or deleted here; see the setting uploads_enabled."),
    408: api.BodyTimeoutError("The body did not come in within 30 s."),
    409: api.ReadOnlyRobotError("Robot 'panda' is built in and stays as it is. Take another name."),
    412: api.StaleEntryError("Robot 'my_arm' exists already."),
    404: api.UnknownRobotError("Robot 'pandora' is not served. Robots: panda, ur5e."),
    406: api.NotAcceptableError(
        "Accept is 'text/csv'. Served: application/json, application/msgpack, application/x-npz."
    ),
    413: api.TooManyProblemsError("/targets/0/positions has 100001 rows. A request may hold 100000 problems."),
    415: api.MediaTypeError("The body's Content-Type is none. Send 'Content-Type: application/json'."),
    422: api.faulty_field("/targets/0/positions/3", "wrong_shape", "The row has 2 numbers. Give 3."),
    429: ShareExhaustedError(
        "Your API key has 512 requests waiting, and 1 more would exceed its share, which is 512 of 1024 now. Wait "
        "until some have ended, and have fewer at once."
    ),
    500: Exception("The service failed to answer. The fault is logged on its side."),
    507: api.CatalogStorageFullError("The service's disk has no room for it. Nothing was changed."),
    503: api.NotReadyError("The service is starting: kernels are being loaded."),
    504: ExpiredError("The deadline passed after 60 s in the queue. Nothing was solved; try again later."),
}


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route declares about its problem documents."""
    schema = {"$ref": "#/components/schemas/ProblemBody"}
    answers: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        answers[status] = {"description": _DESCRIPTIONS[status]}
        if status in _EXAMPLES:
            example = error_document(_EXAMPLES[status])
            answers[status]["content"] = {PROBLEM_MEDIA_TYPE: {"schema": schema, "example": example}}
    return answers

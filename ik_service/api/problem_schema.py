"""Problem documents as JSON schema, and what routes declare about them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ik_service.api.problems import MEDIA_TYPE


class FaultBody(BaseModel):
    """One fault of a request body."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to the fault; empty for the whole body.")
    code: str = Field(description="Stable name of the kind of fault.")
    detail: str = Field(description="What is wrong and what is allowed.")


class ProblemBody(BaseModel):
    """An error (RFC 9457). Branch on `code`, which is stable; `title` and `detail` are for people."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:ik-service:problem:wrong_shape",
                    "title": "The request has a value that is not allowed",
                    "status": 422,
                    "code": "wrong_shape",
                    "detail": "/targets/0/positions/3: The row has 2 numbers. Give 3.",
                    "errors": [
                        {
                            "pointer": "/targets/0/positions/3",
                            "code": "wrong_shape",
                            "detail": "The row has 2 numbers. Give 3.",
                        }
                    ],
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FaultBody] | None = None


_DESCRIPTIONS = {
    400: "The body is not JSON in UTF-8.",
    404: "No robot of that name is served.",
    413: "Too many bytes or too many problems.",
    415: "The body's media type is not served.",
    422: "The body is JSON, but something in it is not allowed; `errors` points at each fault.",
    500: "The service failed. The cause is in its log.",
    503: "Not ready, or too many requests are waiting; see Retry-After.",
}


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route declares about its problem documents.

    Args:
        statuses: HTTP statuses that the route can answer with.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses}

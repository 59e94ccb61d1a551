"""Errors of the client, and error replies.

ClientError            also raised itself: the reply is not from this service, but from a proxy
├── ServiceError       the service answered with a problem document
└── UnreachableError   no answer: no connection, or not in time

These errors do not derive from `IKError`, because its package needs Warp.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

_FAULTS = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors of reading a document that holds something else than expected."""


class ClientError(Exception):
    """Root of the client's errors."""


class UnreachableError(ClientError):
    """The service cannot be reached, or has not answered in time."""


@dataclass(eq=False)
class ServiceError(ClientError):
    """The service refused a request or failed; branch on `code`.

    Attributes:
        status: HTTP status.
        code: Stable name of the kind of error, such as "unknown_link".
        detail: Description of the error, in words.
        errors: Faults of the request, each with `pointer`, `code` and `detail`.
        retry_after_s: Time after which to try again [s]; None where the service gives none.
        request_id: Id of the request in the service's log.
    """

    status: int
    code: str
    detail: str
    errors: tuple[Mapping[str, Any], ...] = ()
    retry_after_s: float | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        """Return the code, the status and the detail."""
        return f"{self.code} ({self.status}): {self.detail}"


def service_error(status: int, headers: Mapping[str, str], content: bytes) -> ServiceError:
    """Return the error of an error reply, from the service or a proxy; names of headers are in lower case."""
    problem: dict[str, Any] = {}
    if "application/problem+json" in headers.get("content-type", "").lower():
        with suppress(ValueError, TypeError, RecursionError):
            problem = dict(json.loads(content))
    asked = headers.get("retry-after", "")
    texts = {name: value for name, value in problem.items() if isinstance(value, str)}
    faults = problem["errors"] if isinstance(problem.get("errors"), list) else ()
    return ServiceError(
        status,
        texts.get("code") or f"http_{status}",
        texts.get("detail") or "The reply is not one of this service; a proxy may stand between.",
        tuple(fault for fault in faults if isinstance(fault, dict)),
        float(asked) if asked.isdecimal() else None,
        texts.get("request_id") or headers.get("x-request-id"),
    )


@contextmanager
def foreign_refused(what: str) -> Iterator[None]:
    """Raise a `ClientError` for an unreadable document; `what` is its name at the start of a sentence."""
    try:
        yield
    except _FAULTS as error:
        raise ClientError(f"{what} is not one of this service; a proxy may stand between.") from error

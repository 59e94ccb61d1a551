"""Errors of the client.

ClientError            also raised itself: the reply is not from this service, but from a proxy
├── ServiceError       the service answered with a problem document
└── UnreachableError   no answer: no connection, or not in time

They do not derive from `IKError`, whose package needs Warp.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ClientError(Exception):
    """Root of the client's errors."""


class UnreachableError(ClientError):
    """The service cannot be reached, or has not answered in time."""


class ServiceError(ClientError):
    """The service refused a request or failed; branch on `code`.

    Attributes:
        status: HTTP status.
        code: Stable name of the kind of error, such as "unknown_link".
        detail: What happened, in words.
        errors: Faults of the request, each with `pointer`, `code` and `detail`.
        retry_after_s: Time after which to try again [s]; None where the service gives none.
        request_id: Id of the request in the service's log.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[Mapping[str, Any]] = (),
        retry_after_s: float | None = None,
        request_id: str | None = None,
    ) -> None:
        """Take the fields of a problem document."""
        super().__init__(f"{code} ({status}): {detail}")
        self.status, self.code, self.detail = status, code, detail
        self.errors, self.retry_after_s, self.request_id = tuple(errors), retry_after_s, request_id

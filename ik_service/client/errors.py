"""Errors of the client.

ClientError            also by itself: a reply that is not one of this service, such as a proxy's
├── ServiceError       the service answered with a problem document
└── UnreachableError   no answer: no connection, or not in time

They stand apart from `IKError`, whose package needs Warp; a robot's computer need not have it.
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
        detail: What happened, for people.
        errors: Faults of the request, each with `pointer`, `code` and `detail`.
        retry_after_s: When it is worth trying again [s]; None where the service says nothing.
        request_id: Names the request in the service's log.
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
        """Say what the service said."""
        super().__init__(f"{code} ({status}): {detail}")
        self.status, self.code, self.detail = status, code, detail
        self.errors, self.retry_after_s, self.request_id = tuple(errors), retry_after_s, request_id

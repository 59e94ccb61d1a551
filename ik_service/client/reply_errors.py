"""Replies that are errors, as the exceptions of the client."""

import json
from collections.abc import Mapping
from typing import Any

import httpx2

from ik_service.client.errors import ClientError, ServiceError, UnreachableError

PROBLEM_MEDIA_TYPE = "application/problem+json"


def check_reply(reply: httpx2.Response) -> None:
    """Refuse a reply that is an error.

    Raises:
        ServiceError: It is one.
    """
    if reply.is_success:
        return
    problem = _problem(reply)
    faults = problem.get("errors")
    raise ServiceError(
        reply.status_code,
        _text(problem, "code") or f"http_{reply.status_code}",
        _text(problem, "detail") or "The reply is not one of this service; a proxy may stand between.",
        [fault for fault in faults if isinstance(fault, dict)] if isinstance(faults, list) else (),
        retry_after_s(reply),
        _text(problem, "request_id") or reply.headers.get("x-request-id"),
    )


def failure(method: str, url: object, error: httpx2.RequestError) -> ClientError:
    """Return the exception for a request without a reply.

    Args:
        method: Of HTTP.
        url: Address of the service.
        error: Why there is no reply.
    """
    reason = str(error) or type(error).__name__
    kind = UnreachableError if isinstance(error, httpx2.TransportError) else ClientError  # a reply that cannot be read
    return kind(f"{method} {url}: {reason}.")


def foreign_reply(reply: httpx2.Response) -> ClientError:
    """Return the error of a reply that this service does not send."""
    return ClientError(f"The reply of {reply.url} is not a document of this service; a proxy may stand between.")


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    value = problem.get(name)
    return value if isinstance(value, str) else None


def _problem(reply: httpx2.Response) -> dict[str, Any]:
    """The problem document in a reply; empty where there is none."""
    if media_type(reply) != PROBLEM_MEDIA_TYPE:
        return {}
    try:
        document = json.loads(reply.content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def retry_after_s(reply: httpx2.Response) -> float | None:
    """Return how long a reply asks to wait [s]; None where it does not, or gives a date."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def media_type(reply: httpx2.Response) -> str:
    """Return the media type of a reply, without its parameters."""
    return str(reply.headers.get("content-type", "")).partition(";")[0].strip().lower()

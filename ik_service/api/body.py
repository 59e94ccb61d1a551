"""The bytes of a request body, within their bound, and the JSON document in them."""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any

import orjson
from fastapi import Request

from ik_service.api.problems import BodyTooLargeError, Fault, FaultyFieldsError, MalformedBodyError, MediaTypeError


async def read_json_body(request: Request, limit: int) -> bytes:
    """Return the body of a request that says it is JSON.

    Args:
        request: The request; its body must not have been read.
        limit: Most bytes allowed.

    Raises:
        MediaTypeError: Another media type, or none.
        BodyTooLargeError: More bytes than allowed, announced or sent.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        given = f"{media_type[:100]!r}" if media_type else "none"
        raise MediaTypeError(f"The body's Content-Type is {given}. Send 'Content-Type: application/json'.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """Return the JSON document in a body.

    Raises:
        MalformedBodyError: Not JSON, or not UTF-8.
        FaultyFieldsError: JSON but for a NaN, an Infinity or a number too large; the pointer names it.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = str(error)
    pointer = _first_non_finite(body)
    if pointer is not None:
        raise FaultyFieldsError([Fault(pointer, "not_finite", "Every number must be finite: no NaN, no Infinity.")])
    raise MalformedBodyError(f"The body is not JSON in UTF-8: {message}.")


def _first_non_finite(body: bytes) -> str | None:
    """Pointer to the first number that is not finite in a body that only Python's lenient reader takes."""
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    return next((pointer for pointer, number in _numbers(document) if not isfinite(number)), None)


def _numbers(document: Any) -> Iterator[tuple[str, float]]:
    stack: list[tuple[str, Any]] = [("", document)]
    while stack:
        pointer, value = stack.pop()
        if isinstance(value, float):
            yield pointer, value
        elif isinstance(value, list):
            stack.extend((f"{pointer}/{k}", entry) for k, entry in reversed(list(enumerate(value))))
        elif isinstance(value, dict):
            stack.extend((f"{pointer}/{escape(key)}", entry) for key, entry in reversed(value.items()))


def escape(token: object) -> str:
    """Return a key or index as it stands in a JSON pointer, fit to be written as UTF-8."""
    return str(token).replace("~", "~0").replace("/", "~1").encode(errors="replace").decode()


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is larger than {limit} bytes. Split the problems over several requests.")

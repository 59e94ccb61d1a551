"""JSON in UTF-8: columns are lists, NaN is null."""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any

import orjson

from ik_service.api.codecs.codec import Document
from ik_service.api.problems import Fault, FaultyFieldsError, MalformedBodyError


class JsonCodec:
    """JSON. Python's numbers and lists cost most of the time here: both ways block for long bodies."""

    media_type = "application/json"
    other_names: tuple[str, ...] = ()
    is_binary = False
    is_flat = False
    blocking_bytes = 128 * 1024
    blocking_problem_count = 1024

    def decode(self, body: bytes, query: str = "", limit: int = 0) -> Any:
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

    def encode(self, document: Document) -> bytes:
        """Return a document as JSON; NaN becomes null."""
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def escape(token: object) -> str:
    """Return a key or index as it stands in a JSON pointer, fit to be written as UTF-8."""
    return str(token).replace("~", "~0").replace("/", "~1").encode(errors="replace").decode()


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

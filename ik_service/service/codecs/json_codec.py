"""JSON in UTF-8: columns are lists, NaN is null."""

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import orjson

from ik_service.service.codecs.codec import CONTAINER_BYTES, PIECE_BYTES, Codec, Document, LazyRows
from ik_service.service.errors.exceptions import BodyTooLargeError, MalformedBodyError, faulty_field, pointer_token

JSON_CONTAINERS_MAX = 2_000_000
"""Lists and objects in one body: enough for ten columns of the longest request."""
JSON_ENTRY_BYTES = 48
"""Memory of a number, a short text or a name and its place in a list."""
SHORT_BYTES = 4 * 1024
"""Bodies up to this size are estimated as if they were all brackets, without counting."""
LONG_BYTES = 16 * 1024
"""Longer bodies make so many lists that Python's garbage collection would run."""
NUMBERS_AT_ONCE, LAZY_ROWS_AT_ONCE = 16_384, 256
"""What is written at once of a long column: 2 ms, in which no other thread runs."""


class JsonCodec(Codec):
    """JSON. Most of the time goes into Python's numbers and lists, so long bodies block the event loop both ways."""

    media_type = "application/json"
    is_binary = False
    blocking_bytes = 256 * 1024

    def decoded_bytes(self, body: bytes, limit: int = 0) -> int:
        """Return an upper bound of the memory of a document; BodyTooLargeError for too many lists and objects."""
        if len(body) <= SHORT_BYTES:
            return len(body) * (1 + CONTAINER_BYTES)
        containers = body.count(b"[") + body.count(b"{")
        if containers > JSON_CONTAINERS_MAX:
            raise BodyTooLargeError(
                f"The body holds {containers} lists and objects. Allowed: {JSON_CONTAINERS_MAX}. Split the problems."
            )
        return len(body) + CONTAINER_BYTES * containers + JSON_ENTRY_BYTES * (body.count(b",") + body.count(b":"))

    def decode(self, body: bytes, query: str = "", limit: int = 0) -> Any:
        """Return the JSON document in a body; MalformedBodyError if not JSON in UTF-8.

        FaultyFieldsError, with the pointer, for a NaN, an Infinity or a number too large in JSON otherwise correct.
        """
        try:
            if len(body) <= LONG_BYTES:
                return orjson.loads(body)
            with _without_collections():
                return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            message = str(error)
        pointer = _first_non_finite(body)
        if pointer is not None:
            raise faulty_field(pointer, "not_finite", "Every number must be finite: no NaN, no Infinity.")
        raise MalformedBodyError(f"The body is not JSON in UTF-8: {message}.")

    def encode(self, document: Document) -> bytes:
        """Return a document as JSON; NaN becomes null."""
        return _dumps(document)

    def encode_in_pieces(self, document: Document) -> Sequence[bytes]:
        """Return the same bytes in pieces."""
        pieces: list[bytes] = []
        parts: list[bytes] = []
        size = 0
        for part in _parts(document):
            parts.append(part)
            size += len(part)
            if size >= PIECE_BYTES:
                pieces.append(b"".join(parts))
                parts, size = [], 0
        return [*pieces, b"".join(parts)]


@contextmanager
def _without_collections() -> Iterator[None]:
    """Switch garbage collection off within a block: it would take longer than decoding."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _listed(value: object) -> list[Any]:
    if not isinstance(value, LazyRows):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return list(value)


_dumps = partial(orjson.dumps, default=_listed, option=orjson.OPT_SERIALIZE_NUMPY)


def _parts(value: Any) -> Iterator[bytes]:
    """Give the JSON of a value; of a long column some rows at a time, since the writer blocks all threads."""
    if isinstance(value, Mapping):
        for number, (key, entry) in enumerate(value.items()):
            yield (b"," if number else b"{") + _dumps(key) + b":"
            yield from _parts(entry)
        yield b"}" if value else b"{}"
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        for number, entry in enumerate(value):
            yield b"," if number else b"["
            yield from _parts(entry)
        yield b"]"
    elif isinstance(value, (np.ndarray, list, LazyRows)) and len(value) > (step := _rows_at_once(value)):
        for start in range(0, len(value), step):
            yield (b"," if start else b"[") + _dumps(value[start : start + step])[1:-1]
        yield b"]"
    else:
        yield _dumps(value)


def _rows_at_once(column: Any) -> int:
    if isinstance(column, LazyRows):
        return LAZY_ROWS_AT_ONCE
    width = column[0].size if isinstance(column, np.ndarray) and column.ndim > 1 else 1
    return max(1, NUMBERS_AT_ONCE // max(1, width))


def _first_non_finite(body: bytes) -> str | None:
    """Return the pointer to the first number that is not finite; None in a body that is not JSON otherwise."""
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    path: list[object] = []  # names and places of the lists and objects around the present one; None for the body
    levels: list[Iterator[tuple[object, Any]]] = [iter([(None, document)])]  # what is left of each of them
    while levels:
        for key, value in levels[-1]:
            if isinstance(value, float) and not isfinite(value):
                return "".join(f"/{pointer_token(token)}" for token in [*path, key][1:])
            if isinstance(value, (list, dict)):
                path.append(key)
                levels.append(iter(enumerate(value) if isinstance(value, list) else value.items()))
                break
        else:
            levels.pop()
            del path[-1:]
    return None

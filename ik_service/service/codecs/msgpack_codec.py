"""MessagePack: the documents of the JSON, with numeric columns as bytes.

A column is ``{"dtype": "float32", "shape": [n, 3], "data": <bytes, little-endian, C order>}``, which neither side reads
number by number; a list of rows is accepted too. Extension types are refused.
"""

import re
import struct
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from ik_service.packed_columns import PACKED_FIELDS, packed
from ik_service.service.codecs.codec import CONTAINER_BYTES, Codec, Document, LazyRows, PackedColumn
from ik_service.service.errors.exceptions import BodyTooLargeError, MalformedMsgpackError
from ik_service.service.schema.limits import MAX_PROBLEM_COUNT

_THREE_PAIRS = b"\x83"  # begins a map of three
_DATA = msgpack.packb("data")
_BIN_32 = 0xC6  # begins bytes whose number takes four bytes
_BIN_HEADER = struct.Struct(">BI")

MSGPACK_CONTAINERS_MAX = 1_000_000
"""Lists and maps in one body: an empty one is one byte on the wire and a Python object here."""
MSGPACK_ENTRY_BYTES = 40
"""Memory of a number and its place in a list."""
MSGPACK_DECODED_BYTES = 256 * 1024 * 1024
"""Memory of all lists and maps of one body."""
MSGPACK_LENGTH_MAX = 2 * MAX_PROBLEM_COUNT
"""Entries that one list or map may announce: memory for them is allocated before they are read."""


class MsgpackCodec(Codec):
    """MessagePack. Packed columns are decoded without a copy."""

    media_type = "application/msgpack"
    other_names = ("application/x-msgpack", "application/vnd.msgpack")
    blocking_bytes = 64 * 1024  # each byte may be an empty list

    def decoded_bytes(self, body: bytes, limit: int = 0) -> int:
        """Return how much memory the document in a body takes; packed columns take none besides the body.

        Lists and maps are counted while they are made, against a bound for each body.
        """
        return len(body)

    def decode(self, body: bytes, query: str = "", limit: int = 0) -> Any:
        """Return the document in a body; packed columns are `PackedColumn`.

        MalformedMsgpackError if not one document of plain types; BodyTooLargeError for too many lists and maps.
        """
        room, memory, length_most = MSGPACK_CONTAINERS_MAX, MSGPACK_DECODED_BYTES, min(MSGPACK_LENGTH_MAX, len(body))

        def note_list(entries: list[Any]) -> list[Any]:
            nonlocal room, memory
            room -= 1
            memory -= CONTAINER_BYTES + MSGPACK_ENTRY_BYTES * len(entries)
            if room < 0 or memory < 0:
                raise BodyTooLargeError(
                    f"The body holds more than {MSGPACK_CONTAINERS_MAX} lists and maps, or more numbers in them than "
                    f"fit into {MSGPACK_DECODED_BYTES} bytes. Send columns as dtype, shape and data."
                )
            return entries

        def note_map(entries: dict[str, Any]) -> Any:
            note_list([])
            if entries.keys() == PACKED_FIELDS:
                return PackedColumn(**entries)
            if bytes in map(type, entries):
                raise ValueError("a name in a map is bytes, not text")
            return entries

        try:
            return msgpack.unpackb(
                body,
                object_hook=note_map,
                list_hook=note_list,
                max_array_len=length_most,
                max_map_len=length_most,
                max_ext_len=0,
                strict_map_key=True,
            )
        except (ValueError, msgpack.UnpackException) as error:
            if isinstance(error, BodyTooLargeError):
                raise
            if re.search(rf"exceeds max_(array|map)_len\({MSGPACK_LENGTH_MAX}\)", str(error)):
                raise BodyTooLargeError(f"A list or map of the body is too long: {error}.") from error
            reason = str(error)[:200] or type(error).__name__
        raise MalformedMsgpackError(f"The body is not one MessagePack document of plain types: {reason}.")

    def encode_in_pieces(self, document: Document) -> Sequence[bytes | memoryview]:
        """Return a document in pieces; arrays become packed columns, as views of their numbers, and NaN stays."""
        packer = msgpack.Packer()
        parts: list[bytes | memoryview] = [packer.pack_map_header(len(document))]
        for name, value in document.items():
            parts.append(packer.pack(name))
            if isinstance(value, np.ndarray):
                parts += _column_parts(packer, value)
            elif isinstance(value, LazyRows):
                parts.append(packer.pack_array_header(len(value)))
                parts += [msgpack.packb(row) for row in value]
            else:
                parts.append(msgpack.packb(value, default=_packed))
        return parts


def _column_parts(packer: msgpack.Packer, array: NDArray[Any]) -> list[bytes | memoryview]:
    """Return the bytes of a column in pieces; the last one is a view of its numbers."""
    column = packed(array)
    data = column["data"]
    head = packer.pack_map_pairs([("dtype", column["dtype"]), ("shape", column["shape"])])
    return [_THREE_PAIRS, head[1:], _DATA, _BIN_HEADER.pack(_BIN_32, data.nbytes), data]


def _packed(array: object) -> dict[str, Any]:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{type(array).__name__} cannot be written as MessagePack")
    return packed(array)

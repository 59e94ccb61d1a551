"""Archives of arrays as `numpy.savez` writes them: arrays in the body, all else in the query of the address.

The archive states the sizes of its members, and the header of a member the size of its array. Both come from the
caller, so both are compared with limits first, and no more than they state is decompressed. Nothing is unpickled.
"""

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import orjson
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ik_service.service.codecs.codec import DTYPES, Codec, Document
from ik_service.service.errors.exceptions import BodyTooLargeError, MalformedNpzError, faulty_field
from ik_service.service.queue.objective_data import FloatArray
from objectives.errors import InputError

MEMBERS_MOST = 16
NAME_LENGTH_MOST = 100
HEADER_BYTES_MOST = 1024
QUERY_FIELDS_MOST = 64

_END_BYTES = 22  # the record at the end of an archive that has no comment
_DIRECTORY_BYTES_MOST = MEMBERS_MOST * (46 + 2 * NAME_LENGTH_MOST)
_WHOLE: dict[object, np.dtype[Any]] = {"int32": np.dtype("<i4"), "int64": np.dtype("<i8")}
_BOOL: dict[object, np.dtype[Any]] = {"bool": np.dtype(np.bool_)}
_FURTHER = {"group": _WHOLE, "clip_start": _WHOLE, "held": _BOOL}  # by names of arrays
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
TEXTS = ("link", "include", "disable")  # fields of the query that stay texts, also where they look like numbers


@dataclass(frozen=True, eq=False)
class ArchiveFields:
    """The content of an archive and of its query."""

    arrays: Mapping[str, FloatArray]  # arrays by name
    query: Sequence[tuple[str, Any]]  # names and values of the query; options that are numbers are converted


class NpzCodec(Codec):
    """Archives of arrays. Decoding takes one pass over the bytes, for the checksums."""

    media_type = "application/x-npz"
    is_flat = True
    blocking_bytes = 512 * 1024

    def decoded_bytes(self, body: bytes, limit: int = 0) -> int:
        """Return the decompressed size of an archive by its list of members, or the body's if larger."""
        with _opened(body) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        return max(len(body), min(unpacked, limit))  # a larger archive is refused before it is decompressed

    def decode(self, body: bytes, query: str = "", limit: int = 0) -> ArchiveFields:
        """Return the arrays of an archive and the fields of the query.

        MalformedNpzError if not an archive as `numpy.savez` writes it; BodyTooLargeError for too many members, or a
        decompressed size above the limit; FaultyFieldsError for an array of a type that is not accepted.
        """
        with _opened(body) as archive:
            members = {member.filename[:-4]: member for member in _members(archive, limit)}
            arrays = {name: _read_array(name, _decompressed(archive, member)) for name, member in members.items()}
        return ArchiveFields(arrays, list(_query_fields(query)))

    def encode_in_pieces(self, document: Document) -> Sequence[bytes]:
        """Return a document as an archive in one piece; a nested entry is named by its path, with dots."""
        stream = io.BytesIO()
        arrays: dict[str, Any] = dict(_flat(document))
        np.savez(stream, **arrays)
        return [stream.getvalue()]


@contextmanager
def _opened(body: bytes) -> Iterator[zipfile.ZipFile]:
    """Open an archive for a block; an archive with too many members is refused before its list of them is read."""
    end = body[-_END_BYTES:]
    if len(end) < _END_BYTES or not end.startswith(b"PK\x05\x06") or any(end[20:]):
        raise MalformedNpzError("The body is not an archive as numpy.savez writes it.")
    directory_bytes = int.from_bytes(end[12:16], "little")
    if body[-_END_BYTES - 20 : -_END_BYTES].startswith(b"PK\x06\x07") or directory_bytes > _DIRECTORY_BYTES_MOST:
        raise BodyTooLargeError(f"The archive lists too many members. Allowed: {MEMBERS_MOST}.")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            yield archive
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, OSError, RuntimeError) as error:
        raise MalformedNpzError(f"The body is not an archive of arrays: {str(error)[:200]}.") from error


def _members(archive: zipfile.ZipFile, limit: int) -> list[zipfile.ZipInfo]:
    """Return the members of an archive, checked by what its list of members says."""
    members = archive.infolist()
    names = {member.filename for member in members}
    if len(names) < len(members) or len(names) > MEMBERS_MOST:
        raise MalformedNpzError(f"The archive holds two members of one name, or more than {MEMBERS_MOST}.")
    if min((member.header_offset for member in members), default=0):
        raise MalformedNpzError("There are bytes before the first member of the archive.")
    unpacked = sum(member.file_size for member in members)
    if unpacked > limit:
        raise BodyTooLargeError(f"The archive unpacks to {unpacked} bytes. Allowed: {limit}. Split the problems.")
    for member in members:
        if not member.filename.endswith(".npy") or member.flag_bits & 1 or member.compress_type not in _METHODS:
            raise MalformedNpzError("A member of the archive is not one that numpy.savez writes.")
    return members


def _decompressed(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member: no more is decompressed than the archive states, and a longer one is refused."""
    size = member.file_size
    member.file_size += 1  # zipfile cuts to it in silence what it has decompressed
    with archive.open(member) as stream:
        data = stream.read(size + 1)
    if len(data) != size:
        raise MalformedNpzError(f"Member {member.filename[:NAME_LENGTH_MOST]!r} does not have its stated size.")
    return data


def _read_array(name: str, data: bytes) -> FloatArray:
    """Return the array in a member; an error if numpy has not written it so, or for a type that is not accepted."""
    stream = io.BytesIO(data)
    try:
        read_header = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
        version = npy_format.read_magic(stream)
        shape, fortran_order, dtype = read_header[version](stream, HEADER_BYTES_MOST)
    except Exception as error:  # numpy evaluates the header as Python, which can fail in many ways
        raise MalformedNpzError(f"Member {name[:NAME_LENGTH_MOST]!r} is not an array as numpy writes it.") from error
    allowed = {**DTYPES, **_FURTHER.get(name, {})}
    if dtype not in allowed.values():
        raise faulty_field(
            f"/{name}",
            "wrong_type",
            f"The numbers are of type {str(dtype)[:40]}. Save {' or '.join(map(str, allowed))}.",
        )
    if fortran_order:
        raise faulty_field(
            f"/{name}", "wrong_type", "The array is in Fortran order. Save numpy.ascontiguousarray(array)."
        )
    expected = math.prod(shape) * dtype.itemsize
    is_shape = all(type(length) is int and length >= 0 for length in shape)  # True is a length to numpy
    if not is_shape or len(data) - stream.tell() != expected:
        raise MalformedNpzError(f"Member {name[:NAME_LENGTH_MOST]!r} does not have the size that its header tells.")
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape)


def _query_fields(query: str) -> Iterator[tuple[str, Any]]:
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MOST, errors="strict")
    except ValueError as error:
        raise faulty_field("", "out_of_range", "The query of the address cannot be read.") from error
    for name, text in fields:
        yield name, text if name in TEXTS else _scalar(text)


def _scalar(text: str) -> Any:
    """Return a number, true, false or null where the text is one, else the text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return text if isinstance(value, (str, list, dict)) else value


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the arrays of a document with their paths."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _flat(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value and isinstance(value[0], Mapping):
        for index, entry in enumerate(value):
            yield from _flat(entry, f"{path}.{index}")
    else:
        yield path, np.asarray(value)

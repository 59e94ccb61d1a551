"""Files of millions of targets, read a stretch of rows at a time: Parquet by row groups, npz archives in place."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ik_service.integrations.bulk.columns import Columns, ColumnShapes
from ik_service.integrations.bulk.target_file import TargetFile, as_floats, fingerprint_of
from objectives.errors import InputError

_LOCAL_HEADER_BYTES = 30  # of a member of an archive, before its name
_READ_AT_ONCE = 1 << 20  # bytes


class NpzTargets(TargetFile):
    """An archive of `numpy.savez`, read in ranges of rows without loading its arrays.

    It is not mapped into memory: if the file were truncated meanwhile, the process would end.

    Args:
        path: The file.

    Raises:
        InputError: The file is no such archive.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with _as_input_error(path), zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self._arrays: dict[str, _Stored] = {}
        self.column_names = tuple(self._members)
        self.fingerprint = fingerprint_of(repr([(m.filename, m.file_size, m.CRC) for m in members]).encode())

    def check(self, shapes: ColumnShapes) -> None:
        """Check that the arrays have numbers, the right shapes and equal lengths, and can be read in part."""
        shapes.check_present(self.path, self.column_names)
        with _as_input_error(self.path), open(self.path, "rb") as file:
            self._arrays = {name: _stored(self.path, file, self._members[name]) for name in shapes.shapes}
        counts = {name: array.shape[0] for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            raise InputError(f"The arrays of '{self.path}' hold different numbers of problems: {counts}.")
        self.row_groups = tuple(set(counts.values()))
        for name, array in self._arrays.items():
            if array.dtype.kind not in "fiu":
                raise InputError(f"'{self.path}': column '{name}' is of type {array.dtype}. Give numbers.")
            shapes.check_shape(self.path, name, array.shape[1:])

    def verify(self) -> None:
        """Read each array once, and compare it with its checksum."""
        with _as_input_error(self.path), zipfile.ZipFile(self.path) as archive:
            for name in self._arrays:
                _verify_member(self.path, archive, self._members[name])

    def read(self, shapes: ColumnShapes, first: int, count: int) -> Columns:
        """Return some rows."""
        columns = {}
        for name in shapes.shapes:
            try:
                found = self._arrays[name].rows(self.path, first, count)
            except OSError as error:
                raise InputError(f"Cannot read '{self.path}': {error.strerror or error}.") from error
            if len(found) < count:
                raise InputError(f"'{self.path}' ends in row {first + len(found)} of column '{name}'.")
            columns[name] = as_floats(found)
        return columns


@contextmanager
def _as_input_error(path: str) -> Iterator[None]:
    """Raise errors of reading an archive as InputError."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {error.strerror or error}.") from error
    except Exception as error:  # several packages read archives, each with its own errors
        raise InputError(
            f"'{path}' is not an archive of plain arrays: {str(error) or type(error).__name__}."
        ) from error


def _verify_member(path: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Compare a member of an archive with its checksum."""
    try:
        with archive.open(member) as file:
            while file.read(_READ_AT_ONCE):
                pass
    except zipfile.BadZipFile as error:
        name = member.filename.removesuffix(".npy")
        raise InputError(f"'{path}': column '{name}' is damaged: it does not have its checksum.") from error


@dataclass(frozen=True)
class _Stored:
    """An uncompressed array in an archive.

    Attributes:
        dtype: Type of its numbers.
        shape: Its shape.
        offset: Offset of its first number in the archive [bytes].
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    def rows(self, path: str, first: int, count: int) -> NDArray[Any]:
        """Read some rows; fewer where the archive ends."""
        width = math.prod(self.shape[1:])
        offset = self.offset + first * width * self.dtype.itemsize
        numbers: NDArray[Any] = np.fromfile(path, self.dtype, count * width, offset=offset)
        return numbers[: len(numbers) // width * width].reshape(-1, *self.shape[1:])


def _stored(path: str, file: Any, member: zipfile.ZipInfo) -> _Stored:
    """The place of an array in an archive."""
    name = member.filename.removesuffix(".npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError(f"'{path}': column '{name}' is compressed, so no part of it can be read. Use numpy.savez.")
    file.seek(member.header_offset)
    local_header = file.read(_LOCAL_HEADER_BYTES)
    lengths = (local_header[26:28], local_header[28:30])  # of the name and of the extra field
    begin = file.seek(sum(int.from_bytes(length, "little") for length in lengths), 1)
    version = npy_format.read_magic(file)
    reader = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, fortran_order, dtype = reader(file)
    if fortran_order or dtype.hasobject or not shape or any(type(n) is not int or n < 0 for n in shape):
        raise InputError(f"'{path}': column '{name}' is no plain array in C order. Save numpy.ascontiguousarray.")
    offset = file.tell()
    if math.prod(shape) * dtype.itemsize > member.file_size - (offset - begin):
        raise InputError(f"'{path}': column '{name}' is shorter than its head says.")
    return _Stored(dtype, shape, offset)

"""Files of millions of targets, read a stretch of rows at a time: Parquet by row groups, npz archives in place."""

import hashlib
import math
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ik_service.deploy.bulk.inputs.columns import Columns, ColumnShapes
from ik_service.extras import how_to_install
from objectives.errors import InputError

_LOCAL_HEADER_BYTES = 30  # of a member of an archive, before its name
_FINGERPRINT_DIGITS = 32
_READ_AT_ONCE = 1 << 20  # bytes


class TargetFile(ABC):
    """A file with a line per problem in every column.

    Attributes:
        path: Where it is.
        column_names: Names of its columns.
        row_groups: Rows of each stretch that is best read whole; known once the file is checked.
        fingerprint: A hash that tells it from others of equal size and time of writing.
    """

    path: str
    column_names: tuple[str, ...]
    row_groups: tuple[int, ...]
    fingerprint: str

    @property
    def row_count(self) -> int:
        """Number of problems in it."""
        return sum(self.row_groups)

    @abstractmethod
    def check(self, shapes: ColumnShapes) -> None:
        """Refuse columns of another shape or of no numbers; others are not looked at.

        Raises:
            InputError: Names the file and the column.
        """

    @abstractmethod
    def verify(self) -> None:
        """Compare what is only checked as a whole with its checksums; once in a job, after `check`.

        Raises:
            InputError: It is damaged; names the file and the column.
        """

    @abstractmethod
    def read(self, shapes: ColumnShapes, first: int, count: int) -> Columns:
        """Return the columns of some rows, floats of the host, [count, ...].

        Args:
            shapes: What to read.
            first: First row.
            count: Number of rows.

        Raises:
            InputError: The file cannot be read, or holds something else; names it, and column and row where known.
        """


def open_targets(path: str) -> TargetFile:
    """Open a file of targets.

    Args:
        path: A .parquet or .npz file.

    Raises:
        InputError: It cannot be read, or is of another kind.
    """
    kinds: dict[str, Callable[[str], TargetFile]] = {".npz": NpzTargets}
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        require_pyarrow()
        from ik_service.deploy.bulk.inputs.parquet_targets import ParquetTargets  # pyarrow is optional

        kinds[".parquet"] = ParquetTargets
    if suffix not in kinds:
        raise InputError(f"Targets '{path}' have the suffix '{suffix}'. Allowed in a bulk job: .parquet, .npz.")
    return kinds[suffix](path)


def require_pyarrow() -> None:
    """Refuse Parquet where there is no pyarrow.

    Raises:
        InputError: There is none.
    """
    try:
        import pyarrow  # noqa: F401  # only whether it is there
    except ModuleNotFoundError as error:
        raise InputError(f"Parquet needs pyarrow. {how_to_install('parquet')} Without it there is npz.") from error


class NpzTargets(TargetFile):
    """An archive as `numpy.savez` writes it, read where its arrays stand.

    Nothing is mapped into memory: a file that is cut off under way would end the process.

    Args:
        path: The file.

    Raises:
        InputError: Not such an archive.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with _told(path), zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self._arrays: dict[str, _Stored] = {}
        self.column_names = tuple(self._members)
        self.fingerprint = fingerprint_of(repr([(m.filename, m.file_size, m.CRC) for m in members]).encode())

    def check(self, shapes: ColumnShapes) -> None:
        """Refuse arrays of another shape, of no numbers, of unequal lengths, or that cannot be read in part."""
        shapes.check_present(self.path, self.column_names)
        with _told(self.path), open(self.path, "rb") as file:
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
        """Read the arrays once from end to end: an archive has one checksum for each."""
        with _told(self.path), zipfile.ZipFile(self.path) as archive:
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
def _told(path: str) -> Iterator[None]:
    """Tell what is met in an archive as errors of the input."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {error.strerror or error}.") from error
    except Exception as error:  # archives are read by several packages, each with its own errors for damaged ones
        raise InputError(
            f"'{path}' is not an archive of plain arrays: {str(error) or type(error).__name__}."
        ) from error


def _verify_member(path: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse a member of an archive whose bytes do not have its checksum."""
    try:
        with archive.open(member) as file:
            while file.read(_READ_AT_ONCE):
                pass
    except zipfile.BadZipFile as error:
        name = member.filename.removesuffix(".npy")
        raise InputError(f"'{path}': column '{name}' is damaged: it does not have its checksum.") from error


def fingerprint_of(*contents: bytes) -> str:
    """Return a hash of some contents, as it stands in the description of a job."""
    return hashlib.sha256(b"".join(contents)).hexdigest()[:_FINGERPRINT_DIGITS]


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy as float32 where it is that, else as float64."""
    return np.array(array, np.float32 if array.dtype.itemsize <= 4 and array.dtype.kind == "f" else np.float64)


@dataclass(frozen=True)
class _Stored:
    """An array that stands uncompressed in an archive.

    Attributes:
        dtype: Type of its numbers.
        shape: Its shape.
        offset: Where its first number stands in the archive [bytes].
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    def rows(self, path: str, first: int, count: int) -> NDArray[Any]:
        """Read some lines; fewer where the archive ends before."""
        width = math.prod(self.shape[1:])
        offset = self.offset + first * width * self.dtype.itemsize
        numbers: NDArray[Any] = np.fromfile(path, self.dtype, count * width, offset=offset)
        return numbers[: len(numbers) // width * width].reshape(-1, *self.shape[1:])


def _stored(path: str, file: Any, member: zipfile.ZipInfo) -> _Stored:
    """Where the array of a member of an archive stands."""
    name = member.filename.removesuffix(".npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError(f"'{path}': column '{name}' is compressed, so no part of it can be read. Use numpy.savez.")
    file.seek(member.header_offset)
    local_header = file.read(_LOCAL_HEADER_BYTES)
    lengths = (local_header[26:28], local_header[28:30])  # of the name and of what else is told
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


def groups_of(row_groups: Sequence[int], first: int, count: int) -> tuple[int, int, int]:
    """Return the first and the past-the-last of the row groups that hold some rows, and where the first one begins.

    Args:
        row_groups: Rows of each group.
        first: First row.
        count: Number of rows.
    """
    ends = np.cumsum(row_groups)
    begin = int(np.searchsorted(ends, first, side="right"))
    end = int(np.searchsorted(ends, first + count, side="left")) + 1
    return begin, end, int(ends[begin] - row_groups[begin])

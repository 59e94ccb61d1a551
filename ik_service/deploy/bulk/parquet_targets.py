"""Parquet files of targets: lists in columns, read by row groups."""

import math
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ik_service.deploy.bulk.columns import Columns, ColumnShapes
from ik_service.deploy.bulk.target_files import TargetFile, as_floats, fingerprint_of, groups_of
from objectives.errors import InputError

_SAMPLE_BYTES = 1 << 16
_SAMPLES = 16  # in all as much as takes a millisecond to hash; files of up to so much are hashed whole
_TAIL_BYTES = 8  # length of the footer and the mark of the format


class ParquetTargets(TargetFile):
    """A Parquet file whose columns are lists of numbers, of equal length in every row.

    What was decoded last is kept: the next rows are often of the same row group.

    Args:
        path: The file.

    Raises:
        InputError: Not a Parquet file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = pq.ParquetFile(path)
            self.fingerprint = _fingerprint(path)
        except OSError as error:
            raise InputError(f"Cannot read '{path}': {error.strerror or error}.") from error
        except pa.ArrowException as error:
            raise InputError(f"'{path}' is not a Parquet file: {error}.") from error
        metadata = self._file.metadata
        self.column_names = tuple(self._file.schema_arrow.names)
        self.row_groups = tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        self._decoded: tuple[tuple[int, int, ColumnShapes], Any] | None = None

    def check(self, shapes: ColumnShapes) -> None:
        """Refuse columns that are no lists of numbers, or of another fixed size."""
        shapes.check_present(self.path, self.column_names)
        for name, shape in shapes.shapes.items():
            kind, sizes = self._file.schema_arrow.field(name).type, []
            while _is_list(kind):
                sizes.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
                kind = kind.value_type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)) or not sizes:
                found = self._file.schema_arrow.field(name).type
                raise InputError(f"'{self.path}': column '{name}' is of type {found}. Give lists of {shape} numbers.")
            if len(sizes) == len(shape) and None not in sizes:
                shapes.check_shape(self.path, name, [int(size) for size in sizes if size is not None])

    def read(self, shapes: ColumnShapes, first: int, count: int) -> Columns:
        """Return some rows."""
        begin, end, start = groups_of(self.row_groups, first, count)
        key = (begin, end, shapes)
        if self._decoded is None or self._decoded[0] != key:
            self._decoded = None  # before the next: only one is to be held at a time
            self._decoded = key, self._decode(begin, end, list(shapes.shapes))
        table = self._decoded[1].slice(first - start, count)
        columns = {}
        for name, shape in shapes.shapes.items():
            columns[name] = numbers_of(table.column(name).combine_chunks(), shape)
            if np.isnan(columns[name]).all():
                wanted = " x ".join(map(str, shape))
                rows = f"rows {first} to {first + count - 1}"
                raise InputError(f"'{self.path}' {rows}: column '{name}' nowhere holds {wanted} numbers.")
        return columns

    def _decode(self, begin: int, end: int, names: list[str]) -> Any:
        """Row groups as a table."""
        try:
            return self._file.read_row_groups(list(range(begin, end)), columns=names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            groups = f"row groups {begin} to {end - 1}"
            raise InputError(f"'{self.path}' cannot be read in {groups}: {str(error)[:200]}.") from error


def _fingerprint(path: str) -> str:
    """Hash of the footer, which holds bounds of all columns, and of samples from the first byte to the last."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        footer_bytes = int.from_bytes(file.read(4), "little")
        file.seek(max(size - _TAIL_BYTES - footer_bytes, 0))
        contents = [file.read()]
        for first in np.linspace(0, max(size - _SAMPLE_BYTES, 0), _SAMPLES).astype(int).tolist():
            file.seek(first)
            contents.append(file.read(_SAMPLE_BYTES))
    return fingerprint_of(*contents)


def numbers_of(values: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return lists as an array, NaN where one is missing or of another length, [count, *shape].

    Args:
        values: Numbers, lists of numbers, or lists of lists.
        shape: Shape of a line.
    """
    if not _is_list(values.type):
        return as_floats(values.to_numpy(zero_copy_only=False)).reshape(-1, *shape)
    nested = _is_list(values.type.value_type)
    inner = shape[1:] if nested else ()
    length = shape[0] if nested else math.prod(shape)
    fits = np.asarray(pc.list_value_length(values).fill_null(-1)) == length
    if fits.all():
        return numbers_of(values.flatten(), inner).reshape(-1, *shape)
    found = numbers_of(values.filter(pa.array(fits)).flatten(), inner).reshape(-1, *shape)
    numbers = np.full((len(values), *shape), np.nan, found.dtype)
    numbers[fits] = found
    return numbers


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))

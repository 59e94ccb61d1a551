"""Parquet files of targets, read by row groups: columns of lists, or a column for each number as in CSV files."""

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ik_service.integrations.bulk.arrow_lists import is_list, numbers_of, rows_that_fit
from ik_service.integrations.bulk.columns import CSV_COLUMNS, Columns, ColumnShapes
from ik_service.integrations.bulk.target_file import TargetFile, fingerprint_of, groups_of
from objectives.errors import InputError

_BATCH_ROWS = 1 << 14
_ROWS_CHECKED = 1 << 20  # for a list of the right length, before a column is refused
_SAMPLE_BYTES = 1 << 16
_SAMPLES = 16  # in all as much as takes a millisecond to hash; files of up to so much are hashed whole
_TAIL_BYTES = 8  # length of the footer and the mark of the format


class ParquetTargets(TargetFile):
    """A Parquet file whose columns are lists of numbers, of equal length in every row, or the numbers of such lists.

    The row groups decoded last are kept, since the next rows are often in them.

    Args:
        path: The file.

    Raises:
        InputError: The file is no Parquet file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
            self.fingerprint = _fingerprint(path)
        except OSError as error:
            raise InputError(f"Cannot read '{path}': {error.strerror or error}.") from error
        except pa.ArrowException as error:
            raise InputError(f"'{path}' is not a Parquet file: {error}.") from error
        metadata = self._file.metadata
        self._split = {
            name: numbers
            for name, numbers in CSV_COLUMNS.items()
            if name not in self._file.schema_arrow.names and set(numbers) <= set(self._file.schema_arrow.names)
        }
        joined = {number for numbers in self._split.values() for number in numbers}
        self.column_names = (*self._split, *(name for name in self._file.schema_arrow.names if name not in joined))
        self.row_groups = tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        self._decoded: tuple[tuple[int, int, ColumnShapes], Any] | None = None

    def check(self, shapes: ColumnShapes) -> None:
        """Check that the columns have lists of numbers of the right length; only the first rows of lists are read."""
        shapes.check_present(self.path, self.column_names)
        for name, shape in shapes.shapes.items():
            if name in self._split:
                self._check_numbers(shapes, name)
                continue
            kind, sizes = self._file.schema_arrow.field(name).type, []
            while is_list(kind):
                sizes.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
                kind = kind.value_type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)) or not sizes:
                found = self._file.schema_arrow.field(name).type
                raise InputError(f"'{self.path}': column '{name}' is of type {found}. Give lists of {shape} numbers.")
            if len(sizes) == len(shape) and None not in sizes:
                shapes.check_shape(self.path, name, [int(size) for size in sizes if size is not None])
            else:
                self._check_lengths(name, shape)

    def _check_numbers(self, shapes: ColumnShapes, name: str) -> None:
        """Check that columns with one number each have numbers, and that there is a single target."""
        shapes.check_shape(self.path, name, [len(self._split[name])])
        for number in self._split[name]:
            kind = self._file.schema_arrow.field(number).type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
                raise InputError(f"'{self.path}': column '{number}' is of type {kind}. Give numbers.")

    def verify(self) -> None:
        """Do nothing: `read` compares pages with their checksums."""

    def _check_lengths(self, name: str, shape: tuple[int, ...]) -> None:
        """Check that a list in the first rows of a column has the right length."""
        seen = rows = 0
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=[name], use_threads=False):
                values = batch.column(0)
                if rows_that_fit(values, shape).any():
                    return
                rows += len(values)
                seen += len(values) - values.null_count
                if seen >= _ROWS_CHECKED:
                    break
        except (OSError, pa.ArrowException):  # the part with these rows fails; others can be solved
            return
        if seen:
            wanted = " x ".join(map(str, shape))
            raise InputError(f"'{self.path}' rows 0 to {rows - 1}: column '{name}' nowhere holds {wanted} numbers.")

    def read(self, shapes: ColumnShapes, first: int, count: int) -> Columns:
        """Return some rows."""
        begin, end, start = groups_of(self.row_groups, first, count)
        key = (begin, end, shapes)
        if self._decoded is None or self._decoded[0] != key:
            self._decoded = None  # free its memory before the next
            names = [one for name in shapes.shapes for one in self._split.get(name, (name,))]
            self._decoded = key, self._decode(begin, end, names)
        table = self._decoded[1].slice(first - start, count)
        return {name: self._numbers(table, name, shape) for name, shape in shapes.shapes.items()}

    def _numbers(self, table: Any, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """A column of lists as an array, or the columns of its single numbers stacked."""
        if name not in self._split:
            return numbers_of(table.column(name).combine_chunks(), shape)
        numbers = [numbers_of(table.column(one).combine_chunks(), ()) for one in self._split[name]]
        return np.stack(numbers, axis=1)

    def _decode(self, begin: int, end: int, names: list[str]) -> Any:
        """Row groups as a table."""
        try:
            return self._file.read_row_groups(list(range(begin, end)), columns=names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            groups = f"row groups {begin} to {end - 1}"
            raise InputError(f"'{self.path}' cannot be read in {groups}: {str(error)[:200]}.") from error


def _fingerprint(path: str) -> str:
    """Hash of the footer, which has the bounds of all columns, and of samples spread over the file."""
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

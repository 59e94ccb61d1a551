"""Parquet: files of targets with columns of lists, or of single numbers as CSV files have, and files of results."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ik_service.integrations.bulk.targets import CSV_COLUMNS, Columns, Shapes, as_floats, check_shape
from ik_service.solver.lm.status import STATUS_WORDS
from objectives.errors import InputError

NOTES = b"ik_service"


class ParquetTargets:
    """A Parquet file of targets; the last decoded row groups are kept, since the next rows are often in them."""

    def __init__(self, path: str) -> None:
        self.path, self._shapes = path, dict[str, tuple[int, ...]]()
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
        except OSError as error:
            raise InputError(f"Cannot read '{path}': {error.strerror or error}.") from error
        except pa.ArrowException as error:
            raise InputError(f"'{path}' is not a Parquet file: {error}.") from error
        names = self._file.schema_arrow.names
        self._split = {name: own for name, own in CSV_COLUMNS.items() if name not in names and {*own} <= {*names}}
        joined = {own for several in self._split.values() for own in several}
        self.column_names = (*self._split, *(name for name in names if name not in joined))
        self._decoded: tuple[range, Any] = range(0), None

    def check(self, shapes: Shapes) -> int:
        """Check the types of these columns, and shapes as far as types tell; return the number of rows."""
        self._shapes = dict(shapes)
        for name, shape in shapes.items():
            split = self._split.get(name)
            if split:
                check_shape(self.path, name, [len(split)], shape)
            for own in split or (name,):
                found = kind = self._file.schema_arrow.field(own).type
                sizes = []
                while is_list(kind):
                    sizes.append(kind.list_size if pa.types.is_fixed_size_list(kind) else -1)
                    kind = kind.value_type
                if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)) or bool(sizes) == bool(split):
                    wanted = "numbers" if split else f"lists of {shape} numbers"
                    raise InputError(f"'{self.path}': column '{own}' is of type {found}. Give {wanted}.")
                if sizes and -1 not in sizes and sizes != [math.prod(shape)]:
                    check_shape(self.path, name, sizes, shape)
        return int(self._file.metadata.num_rows)

    def read(self, first: int, count: int) -> Columns:
        """Return the checked columns of some rows, arrays of floats, shape [count, ...]."""
        metadata = self._file.metadata
        ends = np.cumsum([metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)])
        begin, end = np.searchsorted(ends, [first, first + count - 1], side="right").tolist()
        table = self._row_groups(range(begin, end + 1)).slice(first - (int(ends[begin - 1]) if begin else 0), count)
        columns = {}
        for name, shape in self._shapes.items():
            split = self._split.get(name)
            found = [table.column(own).combine_chunks() for own in split or (name,)]
            arrays = [numbers_of(values, () if split else shape) for values in found]
            columns[name] = np.stack(arrays, axis=1) if split else arrays[0]
        return columns

    def _row_groups(self, groups: range) -> Any:
        if self._decoded[0] != groups:
            self._decoded = range(0), None  # free memory before the next decoding
            names = [own for name in self._shapes for own in self._split.get(name, (name,))]
            try:
                self._decoded = groups, self._file.read_row_groups(list(groups), columns=names, use_threads=False)
            except (OSError, pa.ArrowException) as error:
                where = f"'{self.path}' cannot be read in row groups {groups[0]} to {groups[-1]}"
                raise InputError(f"{where}: {str(error)[:200]}.") from error
        return self._decoded[1]


def is_list(kind: Any) -> bool:
    """Return whether a type of Arrow is a list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def numbers_of(values: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return numbers, lists or lists of lists as an array, NaN for missing or too long entries, [count, *shape]."""
    if not is_list(values.type):
        return as_floats(values.to_numpy(zero_copy_only=False)).reshape(-1, *shape)
    length, inner = (shape[0], shape[1:]) if is_list(values.type.value_type) else (math.prod(shape), ())
    fits = np.array(pc.list_value_length(values).fill_null(-1)) == length
    if fits.all():
        return numbers_of(values.flatten(), inner).reshape(-1, *shape)
    found = numbers_of(values.filter(pa.array(fits)).flatten(), inner).reshape(-1, *shape)
    numbers = np.full((len(values), *shape), np.nan, found.dtype)
    numbers[fits] = found
    return numbers


def write_table(file: Any, arrays: Columns, units: dict[str, str], notes: dict[str, Any]) -> None:
    """Write results: lists of fixed size, statuses as words, units and notes beside the columns.

    Nothing is compressed: the digits of configurations and errors look random.
    """
    columns, fields = [], []
    for name, array in arrays.items():
        values = pa.array(array.reshape(-1))
        if name == "status":
            values = pa.DictionaryArray.from_arrays(values, pa.array(STATUS_WORDS))
        if array.ndim == 2:
            values = pa.FixedSizeListArray.from_arrays(values, array.shape[1])
        columns.append(values)
        unit = {"unit": units[name]} if name in units else None
        fields.append(pa.field(name, values.type, nullable=False, metadata=unit))
    table = pa.table(columns, schema=pa.schema(fields, {NOTES: json.dumps(notes).encode()}))
    given: dict[str, Any] = {"use_dictionary": ["status"], "column_encoding": {"problem": "DELTA_BINARY_PACKED"}}
    pq.write_table(table, file, compression="none", write_page_checksum=True, **given)


def read_table(path: Path) -> dict[str, Any]:
    """Return the columns of a file of results as arrays, statuses as words, and its notes.

    OSError for another or a damaged file; KeyError for a Parquet file without results.
    """
    try:
        table = pq.read_table(path, use_threads=False, page_checksum_verification=True)
    except pa.ArrowException as error:
        raise OSError(f"'{path}' is not a Parquet file: {error}") from error
    found: dict[str, Any] = {"notes": json.loads((table.schema.metadata or {})[NOTES])}
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        if name == "status":
            found[name] = np.array(STATUS_WORDS)[values.indices.to_numpy()]
        elif is_list(values.type):
            found[name] = values.flatten().to_numpy().reshape(table.num_rows, -1)
        else:
            found[name] = values.to_numpy(zero_copy_only=False)
    return found

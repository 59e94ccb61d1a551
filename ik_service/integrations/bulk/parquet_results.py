"""Results of a part as Parquet: lists of fixed size, statuses as words, units beside the columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ik_service.integrations.bulk.arrow_lists import numbers_of
from ik_service.integrations.bulk.part_columns import UNITS
from ik_service.solver.lm.status import STATUS_WORDS

_METADATA = b"ik_service"


def write_table(file: Any, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
    """Write columns to a file.

    Nothing is compressed: the digits of configurations and errors look random.

    Args:
        file: Open for bytes.
        arrays: Columns by name.
        metadata: What is stored beside them.
    """
    columns, fields = [], []
    for name, array in arrays.items():
        values = pa.array(array.reshape(-1))
        if name == "status":
            values = pa.DictionaryArray.from_arrays(values, pa.array(STATUS_WORDS))
        if array.ndim == 2:
            values = pa.FixedSizeListArray.from_arrays(values, array.shape[1])
        columns.append(values)
        unit = {"unit": UNITS[name]} if name in UNITS else None
        fields.append(pa.field(name, values.type, nullable=False, metadata=unit))
    table = pa.table(columns, schema=pa.schema(fields, {_METADATA: json.dumps(metadata).encode()}))
    encoding = {"problem": "DELTA_BINARY_PACKED"}
    pq.write_table(
        table,
        file,
        compression="none",
        use_dictionary=["status"],
        column_encoding=encoding,
        write_page_checksum=True,
    )


def check_table(path: Path) -> dict[str, Any]:
    """Compare all pages of a file with their checksums and return its metadata.

    Raises:
        OSError: Not a Parquet file, or a damaged one.
        KeyError: It has no metadata.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            file.read(use_threads=False)  # compares each page with its checksum
            stored: dict[str, Any] = json.loads(file.schema_arrow.metadata[_METADATA])
    except (pa.ArrowException, TypeError) as error:
        raise OSError(f"'{path}' is not a Parquet file of results: {error}") from error
    return stored


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file as arrays; statuses are words.

    Raises:
        OSError: It is damaged.
    """
    table = pq.read_table(path, use_threads=False, page_checksum_verification=True)
    columns = {}
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        if name == "status":
            columns[name] = np.array(STATUS_WORDS)[values.indices.to_numpy()]
        elif pa.types.is_fixed_size_list(values.type):
            columns[name] = numbers_of(values, (values.type.list_size,))
        else:
            columns[name] = values.to_numpy(zero_copy_only=False)
    return columns

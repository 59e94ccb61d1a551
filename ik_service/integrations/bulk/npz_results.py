"""Results of a part as an npz archive: plain arrays, statuses as codes with their names."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.lm.status import STATUS_WORDS

_NO_COLUMNS = ("status_names", "status_counts", "notes")


def write_table(file: Any, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
    """Write columns to a file.

    Args:
        file: Open for bytes.
        arrays: Columns by name.
        metadata: What is stored beside them.
    """
    stored: dict[str, Any] = arrays | {
        "status_names": np.array(STATUS_WORDS),
        "status_counts": np.array(metadata["status_counts"]),
        "notes": np.array(json.dumps(metadata)),
    }
    np.savez(file, **stored)


def check_table(path: Path) -> dict[str, Any]:
    """Compare all arrays of a file with their checksums and return its metadata.

    Raises:
        BadZipFile: An array is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"'{path}': '{damaged}' is damaged.")
    with np.load(path, allow_pickle=False) as arrays:
        metadata: dict[str, Any] = json.loads(str(arrays["notes"]))
    return metadata


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file as arrays; statuses are words."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["status"] = arrays["status_names"][arrays["status"]]
    columns = {name: array for name, array in arrays.items() if name not in _NO_COLUMNS}
    assert len({len(array) for array in columns.values()}) == 1
    return columns

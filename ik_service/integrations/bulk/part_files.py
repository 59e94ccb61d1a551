"""Files of results, one for each part: written, checked and read.

A file is written under a temporary name, flushed to the disk and then renamed, so a file with its final name is
complete.
"""

import os
import zipfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ik_service.integrations.bulk import npz_results
from ik_service.integrations.bulk.part_columns import PartColumns
from ik_service.integrations.bulk.parts import Part
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.whole_file import UNFINISHED, write_whole
from objectives.errors import InputError

_DAMAGED = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)
"""Errors of reading a damaged file; RuntimeError where the directory of an archive names another compression."""


def write_part(plan: BulkPlan, part: Part, columns: PartColumns) -> None:
    """Write the results of a part.

    Raises:
        OSError: They cannot be written; an earlier file of the part stays.
    """
    path = plan.part_path(part)
    write_table = _file_format(path.suffix).write_table
    write_whole(path, lambda file: write_table(file, columns.arrays, metadata(plan, part, columns)))


def remove_unfinished_parts(folder: Path) -> None:
    """Remove the temporary files of workers that were killed."""
    for path in folder.glob(f".part-*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def metadata(plan: BulkPlan, part: Part, columns: PartColumns) -> dict[str, Any]:
    """Return what is stored beside the columns of a part."""
    return {
        "job": plan.digest,
        "part": part.number,
        "robot": plan.robot.name,
        "links": [target.link for target in plan.targets],
        "joint_names": list(plan.robot.joint_names),
        "coordinate_names": list(plan.robot.coordinate_names),
        "status_counts": columns.status_counts,
    }


def finished_counts(plan: BulkPlan, part: Part) -> list[int] | None:
    """Return the number of problems of each status, by code; None where the part is not finished, or damaged.

    The whole file is read and compared with its checksums.

    Args:
        plan: The plan.
        part: The part.

    Raises:
        InputError: The file belongs to another job, or to another part of this one.
    """
    path = plan.part_path(part)
    if not path.exists():
        return None
    try:
        stored = _file_format(path.suffix).check_table(path)
        counts: list[int] = stored["status_counts"]
        of = stored["job"], stored["part"]
    except _DAMAGED:  # the part is solved again
        return None
    if of != (plan.digest, part.number):
        whose = "another job" if of[0] != plan.digest else f"part {of[1]} of this job"
        raise InputError(f"'{path}' holds results of {whose}. Move it away; its own are made anew.")
    return counts if sum(counts) == part.row_count else None


def read_results(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all results of a job in order, as arrays by name of column; statuses are words.

    Args:
        folder: Folder of the results; whatever parts are in it.

    Raises:
        InputError: There are none.
    """
    parts = [read_part(path) for path in sorted(Path(folder).glob("part-*"))]
    if not parts:
        raise InputError(f"'{folder}' holds no results of a bulk job.")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_part(path: Path) -> dict[str, NDArray[Any]]:
    """Return the results of a part, as arrays by name of column; statuses are words."""
    return _file_format(path.suffix).read_table(path)


class FileFormat(Protocol):
    """The functions of a module for one format of result files."""

    def write_table(self, file: Any, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
        """Write columns and metadata to a file that is open for bytes."""

    def check_table(self, path: Path) -> dict[str, Any]:
        """Compare a file with its checksums and return its metadata."""

    def read_table(self, path: Path) -> dict[str, NDArray[Any]]:
        """Return the columns of a file; statuses are words."""


def _file_format(suffix: str) -> FileFormat:
    if suffix != ".parquet":
        return npz_results
    from ik_service.integrations.bulk import parquet_results  # pyarrow is optional

    return parquet_results

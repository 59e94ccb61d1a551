"""Files of results, one a part: what stands in them, how they come to be, and how they are read.

A file is written under another name, brought to the disk and then renamed: whatever is there by its name is whole.
"""

import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.batching.requests.solve_answer import STATUS_NAMES, worst_over_targets
from ik_service.deploy.bulk.plan import BulkPlan, Part
from ik_service.solver import IKResult, IKStatus
from objectives.errors import InputError

STATUS_WORDS = tuple(STATUS_NAMES[code] for code in range(len(STATUS_NAMES)))
"""Words of the statuses, by code."""

UNITS = {
    "joint_q": "rad or m",
    "position_error_m": "m",
    "orientation_error_rad": "rad",
    "target_position_error_m": "m",
    "target_orientation_error_rad": "rad",
}
_UNFINISHED = ".unfinished"
_DAMAGED = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)
"""What files that are no longer whole are met with; a RuntimeError where the directory tells of other compression."""


class PartColumns:
    """The results of a part while they are put together.

    Attributes:
        arrays: Columns by name, with a line per problem.

    Args:
        plan: The plan.
        part: The part.
    """

    def __init__(self, plan: BulkPlan, part: Part) -> None:
        count, targets = part.row_count, len(plan.targets)
        floats = np.dtype(plan.options.precision)
        problems = np.arange(part.first_problem, part.first_problem + count, dtype=np.int64)
        self.arrays: dict[str, NDArray[Any]] = {
            "problem": problems,
            "joint_q": np.empty((count, plan.robot.joint_coord_count), floats),
            "success": np.empty(count, np.bool_),
            "status": np.empty(count, np.uint8),
            "position_error_m": np.empty(count),
            "orientation_error_rad": np.empty(count),
            "iterations": np.empty(count, np.int32),
            "seed_index": np.empty(count, np.int32),
            "cost": np.empty(count, np.float32),
        }
        if targets > 1:
            self.arrays["target_position_error_m"] = np.empty((count, targets))
            self.arrays["target_orientation_error_rad"] = np.empty((count, targets))

    def put(self, rows: slice, result: IKResult) -> None:
        """Take over the answers to some rows."""
        for name in ("joint_q", "success", "status", "iterations", "seed_index", "cost"):
            self.arrays[name][rows] = getattr(result, name)
        self.arrays["position_error_m"][rows] = worst_over_targets(result.position_error)
        self.arrays["orientation_error_rad"][rows] = worst_over_targets(result.orientation_error)
        if "target_position_error_m" in self.arrays:
            self.arrays["target_position_error_m"][rows] = result.position_error
            self.arrays["target_orientation_error_rad"][rows] = result.orientation_error

    def mark(self, rows: NDArray[np.intp]) -> None:
        """Say of rows that nothing could be solved for: status `invalid`, no configuration, no errors."""
        for name, array in self.arrays.items():
            if name != "problem":
                array[rows] = np.nan if array.dtype.kind == "f" else 0
        self.arrays["status"][rows] = IKStatus.INVALID
        self.arrays["seed_index"][rows] = -1

    @property
    def status_counts(self) -> list[int]:
        """Number of problems of each status, by code."""
        counts: list[int] = np.bincount(self.arrays["status"], minlength=len(STATUS_WORDS)).tolist()
        return counts


def write_part(plan: BulkPlan, part: Part, columns: PartColumns) -> None:
    """Write the results of a part.

    Raises:
        OSError: The disk does not take them; what was there before stays.
    """
    path = plan.part_path(part)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_UNFINISHED}")
    try:
        with unfinished.open("xb") as file:
            if plan.format == "npz":
                _write_npz(file, columns, notes(plan, part, columns))
            else:
                from ik_service.deploy.bulk.outputs.parquet_results import write_parquet  # pyarrow is optional

                write_parquet(file, columns.arrays, notes(plan, part, columns))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, which holds them apart from the files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_unfinished(folder: Path) -> None:
    """Remove what workers that were killed have left."""
    for path in folder.glob(f".part-*{_UNFINISHED}"):
        path.unlink(missing_ok=True)


def notes(plan: BulkPlan, part: Part, columns: PartColumns) -> dict[str, Any]:
    """Return what is told beside the columns of a part."""
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
    """Return the number of problems of each status of a part that is finished and sound; None where it is not.

    The whole file is read, and compared with the checksums in it.

    Args:
        plan: The plan.
        part: The part.

    Raises:
        InputError: The file is sound, but of another job or another place in this one.
    """
    path = plan.part_path(part)
    if not path.exists():
        return None
    try:
        if plan.format == "npz":
            told = _read_notes(path)
        else:
            from ik_service.deploy.bulk.outputs.parquet_results import check_parquet  # pyarrow is optional

            told = check_parquet(path)
        counts: list[int] = told["status_counts"]
        of = told["job"], told["part"]
    except _DAMAGED:  # since: it is made anew
        return None
    if of != (plan.digest, part.number):
        whose = "another job" if of[0] != plan.digest else f"part {of[1]} of this job"
        raise InputError(f"'{path}' holds results of {whose}. Move it away; its own are made anew.")
    return counts if sum(counts) == part.row_count else None


def _read_notes(path: Path) -> dict[str, Any]:
    """What is told in an archive all of whose arrays are sound."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"'{path}': '{damaged}' is damaged.")
    with np.load(path, allow_pickle=False) as arrays:
        told: dict[str, Any] = json.loads(str(arrays["notes"]))
    return told


def read_results(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all results of a job in order, as arrays by name of column; statuses are words.

    Args:
        folder: Folder of the results; whatever parts are in it.
    """
    parts = [read_part(path) for path in sorted(Path(folder).glob("part-*"))]
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def read_part(path: Path) -> dict[str, NDArray[Any]]:
    """Return the results of a part, as arrays by name of column; statuses are words."""
    if path.suffix == ".parquet":
        from ik_service.deploy.bulk.outputs.parquet_results import read_parquet  # pyarrow is optional

        return read_parquet(path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    count = len(arrays["problem"])
    arrays["status"] = arrays["status_names"][arrays["status"]]
    told = ("status_names", "status_counts", "notes")
    columns = {name: array for name, array in arrays.items() if name not in told}
    assert {len(array) for array in columns.values()} == {count}
    return columns


def _write_npz(file: Any, columns: PartColumns, notes: dict[str, Any]) -> None:
    told: Mapping[str, NDArray[Any]] = {
        "status_names": np.array(STATUS_WORDS),
        "status_counts": np.array(columns.status_counts),
        "notes": np.array(json.dumps(notes)),
    }
    np.savez(file, **columns.arrays, **told)  # type: ignore[arg-type]  # no column is named like an option

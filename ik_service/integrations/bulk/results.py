"""The folder of a bulk job: its description, its lock, and a file of results for each part, whole or not there."""

import fcntl
import json
import os
import zipfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ik_service.integrations.bulk.job import BulkPlan, Part, parquet
from ik_service.result_schema import ALWAYS_COLUMNS, edge_arrays
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.result import IKResult
from ik_service.whole_file import UNFINISHED, write_whole
from objectives.errors import InputError

DESCRIPTION, LOCK = "_job.json", "_lock"  # readers of Parquet ignore names that begin with an underscore
PER_TARGET = {f"target_{column.edge_name}": column for column in ALWAYS_COLUMNS if column.is_per_target}
"""Columns of each target beside those of the worst, where there are several."""
UNITS = {column.edge_name: column.unit for column in ALWAYS_COLUMNS if column.unit}
UNITS |= {name: column.unit for name, column in PER_TARGET.items()}
DAMAGED = (OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, zipfile.BadZipFile)
"""Errors of reading a damaged file; RuntimeError where the directory of an archive names another compression."""


def open_folder(plan: BulkPlan) -> IO[bytes]:
    """Create or open the folder of a job and return its lock, held until the returned file is closed.

    InputError if the folder is unusable, in use by another process, or belongs to another job.
    """
    folder = Path(plan.job.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {LOCK}
        if names and DESCRIPTION not in names:
            raise InputError(f"'{folder}' holds {min(names)!r} and no bulk job. Give an empty or a new folder.")
        with ExitStack() as opened:
            lock = opened.enter_context((folder / LOCK).open("wb"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(f"Another process is at work in '{folder}'. Wait for it, or end it.") from error
            except OSError:  # some network disks have no locks
                pass
            _describe(plan, folder / DESCRIPTION)
            for path in folder.glob(f".*{UNFINISHED}"):  # files of killed workers
                path.unlink(missing_ok=True)
            opened.pop_all()
    except OSError as error:
        raise InputError(f"Cannot use '{folder}' for results: {error.strerror}.") from error
    return lock


def _describe(plan: BulkPlan, path: Path) -> None:
    """Write the description of the job, or compare the job with the existing description."""
    wanted = plan.description()
    if not path.exists():
        write_whole(path, lambda file: file.write(json.dumps(wanted, indent=1).encode()))
        return
    read = None
    with suppress(ValueError):  # a damaged description
        read = json.loads(path.read_bytes())
    found: dict[str, Any] = read if isinstance(read, dict) else {}
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    if names:
        said = "; ".join(f"{name} is {found.get(name)!r} there and {wanted.get(name)!r} here" for name in names[:3])
        more = f", and {len(names) - 3} more" if len(names) > 3 else ""
        advice = "Give a new folder, or the same job to go on with it."
        raise InputError(f"'{path.parent}' holds results of another job: {said}{more}. {advice}")


def columns_of(result: IKResult) -> dict[str, NDArray[Any]]:
    """Return the columns of results by name, all but the number of the problem."""
    several = PER_TARGET if result.position_error.shape[1] > 1 else {}
    return edge_arrays(result) | {name: getattr(result, column.name) for name, column in several.items()}


def write_part(plan: BulkPlan, part: Part, arrays: dict[str, NDArray[Any]], status_counts: list[int]) -> None:
    """Write the results of a part; OSError for a failed write."""
    robot, path = plan.job.robot, plan.part_path(part)
    links = [target.link for target in plan.job.checked_targets]
    notes: dict[str, Any] = {"job": plan.digest, "part": part.number, "robot": robot.name, "links": links}
    notes |= {"joint_names": list(robot.joint_names), "coordinate_names": list(robot.coordinate_names)}
    notes["status_counts"] = status_counts
    if path.suffix == ".parquet":
        write_whole(path, lambda file: parquet().write_table(file, arrays, UNITS, notes))
    else:
        beside = {"status_names": STATUS_WORDS, "status_counts": status_counts, "notes": json.dumps(notes)}
        stored: dict[str, Any] = {**arrays, **beside}
        write_whole(path, lambda file: np.savez(file, **stored))


def finished_counts(plan: BulkPlan, part: Part) -> list[int] | None:
    """Return the number of problems per status code of a finished part; None for an unfinished part.

    The whole file is compared with its checksums. InputError if it belongs to another job or part.
    """
    path = plan.part_path(part)
    try:
        notes = _read_part(path)["notes"]
        of, counts = (notes["job"], notes["part"]), list[int](notes["status_counts"])
    except DAMAGED:  # or not there
        return None
    if of != (plan.digest, part.number):
        whose = "another job" if of[0] != plan.digest else f"part {of[1]} of this job"
        raise InputError(f"'{path}' holds results of {whose}. Move it away; its own are made anew.")
    return counts if sum(counts) == part.row_count else None


def read_results(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all results of a job in order, as arrays by name of column; statuses are words.

    Args:
        folder: Folder of the results; all finished parts are read.

    Raises:
        InputError: There are no results.
        OSError: A file is damaged.
    """
    parts = [_read_part(path) for path in sorted(Path(folder).glob("part-*"))]
    if not parts:
        raise InputError(f"'{folder}' holds no results of a bulk job.")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "notes"}


def _read_part(path: Path) -> dict[str, Any]:
    """Read the columns of a file and its notes, and compare all of them with their checksums."""
    if path.suffix == ".parquet":
        found: dict[str, Any] = parquet().read_table(path)
        return found
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        found = dict(archive.items())
    del found["status_counts"]
    found["status"] = found.pop("status_names")[found["status"]]
    return found | {"notes": json.loads(str(found["notes"]))}

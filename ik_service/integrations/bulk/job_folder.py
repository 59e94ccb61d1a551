"""The folder of a bulk job, with a description of the job, and a lock for one process at a time."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ik_service.integrations.bulk.part_files import remove_unfinished_parts
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.whole_file import write_whole
from objectives.errors import InputError

DESCRIPTION = "_job.json"
"""Readers of Parquet ignore names that begin with an underscore."""
_UNFINISHED = f".{DESCRIPTION}"
_LOCK = "_lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def job_folder(plan: BulkPlan) -> Iterator[Path]:
    """Create or open the folder of a job, and lock it for this process.

    Args:
        plan: The plan.

    Raises:
        InputError: It cannot be created, another process uses it, or it belongs to another job.
    """
    folder = Path(plan.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        other_files = [path.name for path in folder.iterdir() if path.name not in (_LOCK, _UNFINISHED)]
        if other_files and DESCRIPTION not in other_files:
            raise InputError(f"'{folder}' holds {other_files[0]!r} and no bulk job. Give an empty or a new folder.")
        descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise InputError(f"Cannot use '{folder}' for results: {error.strerror}.") from error
    try:
        try:
            _lock(descriptor, folder)
            _describe(plan, folder)
            remove_unfinished_parts(folder)
        except OSError as error:
            raise InputError(f"Cannot use '{folder}' for results: {error.strerror}.") from error
        yield folder
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"Another process is at work in '{folder}'. Wait for it, or end it.") from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # some network disks have none
            raise


def _describe(plan: BulkPlan, folder: Path) -> None:
    """Write the description of the job, or compare it with the existing one."""
    path, wanted = folder / DESCRIPTION, json.loads(json.dumps(plan.description()))
    if path.exists():
        try:
            existing = json.loads(path.read_bytes())
        except ValueError as error:
            raise InputError(f"'{path}' is damaged: {error}. Give a new folder.") from error
        changes = list(description_differences(existing, wanted))
        if changes:
            more = f", and {len(changes) - 3} more" if len(changes) > 3 else ""
            raise InputError(
                f"'{folder}' holds results of another job: {'; '.join(changes[:3])}{more}. Give a new folder, or the "
                "same job to go on with it."
            )
        return
    write_whole(path, lambda file: file.write(json.dumps(wanted, indent=1).encode()), folder / _UNFINISHED)


def description_differences(existing: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """Give the differences between two descriptions, with both values.

    Args:
        existing: The description in the folder.
        wanted: The description of the job.
        name: Name of the value that they are part of.
    """
    if isinstance(existing, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*existing, *wanted}):
            yield from description_differences(existing.get(key), wanted.get(key), f"{name}.{key}" if name else key)
    elif isinstance(existing, list) and isinstance(wanted, list) and len(existing) == len(wanted):
        for number, pair in enumerate(zip(existing, wanted, strict=True)):
            yield from description_differences(*pair, f"{name}[{number}]")
    elif existing != wanted:
        yield f"{name} is {existing!r} there and {wanted!r} here"

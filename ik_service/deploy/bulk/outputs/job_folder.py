"""The folder of a bulk job: a description that says whose it is, and a lock, so that one process at a time runs it."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ik_service.deploy.bulk.outputs.part_files import remove_unfinished_parts
from ik_service.deploy.bulk.plan import BulkPlan
from ik_service.whole_file import write_whole
from objectives.errors import InputError

DESCRIPTION = "_job.json"
"""Readers of Parquet pass over names with a line below in front."""
_UNFINISHED = f".{DESCRIPTION}"
_LOCK = "_lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def job_folder(plan: BulkPlan) -> Iterator[Path]:
    """Make or take the folder of a job, for this process alone.

    Args:
        plan: The plan.

    Raises:
        InputError: It cannot be made, another process is at work in it, or it belongs to another job.
    """
    folder = Path(plan.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = [path.name for path in folder.iterdir() if path.name not in (_LOCK, _UNFINISHED)]
        if strangers and DESCRIPTION not in strangers:
            raise InputError(f"'{folder}' holds {strangers[0]!r} and no bulk job. Give an empty or a new folder.")
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
    """Write the description of the job, or compare it with the one that is there."""
    path, wanted = folder / DESCRIPTION, json.loads(json.dumps(plan.description()))
    if path.exists():
        try:
            there = json.loads(path.read_bytes())
        except ValueError as error:
            raise InputError(f"'{path}' is damaged: {error}. Give a new folder.") from error
        changes = list(differences(there, wanted))
        if changes:
            more = f", and {len(changes) - 3} more" if len(changes) > 3 else ""
            raise InputError(
                f"'{folder}' holds results of another job: {'; '.join(changes[:3])}{more}. Give a new folder, or the "
                "same job to go on with it."
            )
        return
    write_whole(path, lambda file: file.write(json.dumps(wanted, indent=1).encode()), folder / _UNFINISHED)


def differences(there: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """Give the places in which two descriptions differ, with what stands in each.

    Args:
        there: What stands in the folder.
        wanted: What the job would write.
        name: Where they stand.
    """
    if isinstance(there, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*there, *wanted}):
            yield from differences(there.get(key), wanted.get(key), f"{name}.{key}" if name else key)
    elif isinstance(there, list) and isinstance(wanted, list) and len(there) == len(wanted):
        for number, pair in enumerate(zip(there, wanted, strict=True)):
            yield from differences(*pair, f"{name}[{number}]")
    elif there != wanted:
        yield f"{name} is {there!r} there and {wanted!r} here"

"""Complete files or none: a file is written under a temporary name, flushed to the disk, then renamed."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

UNFINISHED = ".unfinished"
"""End of the name of a file that is being written."""


def write_whole(
    path: Path, write: Callable[[IO[bytes]], object], unfinished: Path | None = None, *, mode: int | None = None
) -> None:
    """Write a file, in place of an earlier one; `write` puts its bytes into a file that is open.

    `unfinished` names the incomplete file, in the same folder, None a hidden name; `mode` is independent of the umask,
    None follows the umask. OSError if the write fails; an earlier file stays.
    """
    unfinished = unfinished or path.with_name(f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk; file contents are flushed separately."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

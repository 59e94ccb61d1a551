"""Folder of uploaded robots or worlds: one file per entry, written completely or not at all.

A second file per entry names the owner: the API key of the upload. An entry without this file has no owner. A file of
spheres beside a robot comes from the operator, never over HTTP.

Several processes may share the folder. A process locks the folder before a change; other processes see the change by
the folder's time of change.
"""

import errno
import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ik_service.robots.readers.sphere_file import SUFFIXES as SPHERES
from ik_service.service.errors.exceptions import CatalogStorageError, CatalogStorageFullError
from ik_service.service.queue.fair_cap import Owner
from ik_service.whole_file import UNFINISHED, sync_folder, write_whole
from objectives.errors import InputError

ENTRY_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
"""Names that something can be put under: they are file names and parts of addresses."""
SUFFIXES = {"robot": ".urdf", "world": ".world"}
"""Ends of the names of files, by what they have; they share a folder."""
OWNER = ".owner"
"""What the file with the name of an owner has behind the name of the other file."""
OWNER_CHARACTERS_MAX = 256
_SETTLED_NS = 100_000_000  # older times of change cover all changes: this is much more than the step of the clock

Files = dict[str, tuple[tuple[int, int, int], ...]]
"""State of each entry's file, and of files of spheres beside it, by the entry's name: inode, time of change, size."""

_logger = logging.getLogger(__name__)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Convert OSError into CatalogStorageError, for a full disk into CatalogStorageFullError."""
    try:
        yield
    except OSError as error:
        _logger.error("The folder of the catalog cannot be written: %s.", error.strerror)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CatalogStorageFullError("The service's disk has no room for it. Nothing was changed.") from error
        raise CatalogStorageError(
            "The service's disk did not take the change. The fault is logged on its side."
        ) from error


class FileStore:
    """Files by name in a folder, created if missing; InputError if the folder cannot be made or read.

    `noun` is a key of `SUFFIXES`; `most_bytes` is the largest allowed file, and `text` returns at most one byte more.
    """

    def __init__(self, folder: Path, noun: str, most_bytes: int) -> None:
        self.folder, self._noun, self._suffix, self._most_bytes = folder, noun, SUFFIXES[noun], most_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self.alone():  # writers hold the lock, so an unfinished file is from a process that died
                unfinished = [path for path in folder.iterdir() if path.name.endswith(UNFINISHED)]
                for path in unfinished:
                    _logger.warning("Upload %s was cut off before it was complete; it is removed.", path.name)
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"catalog_dir '{folder}' cannot be used: {error.strerror}.") from error
        self._misnamed: set[str] = set()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder against changes by other processes; OSError if the folder cannot be opened."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def changed_at(self) -> int | None:
        """Return the time of the last change of the folder [ns]; None if a later change may have the same time."""
        changed = self.folder.stat().st_mtime_ns
        return changed if time.time_ns() - changed > _SETTLED_NS else None

    def files(self) -> Files:
        """Return the files in the folder, sorted by name; files with another name are logged once and ignored."""
        found = {}
        for entry in sorted(os.scandir(self.folder), key=lambda entry: entry.name):
            name = entry.name.removesuffix(self._suffix)
            if entry.name.endswith((OWNER, *SPHERES, *SUFFIXES.values())) and name == entry.name:
                continue  # a file of the other kind, or beside an entry
            if name == entry.name or not ENTRY_NAME.fullmatch(name):
                if not entry.name.endswith(UNFINISHED) and entry.name not in self._misnamed:
                    self._misnamed.add(entry.name)
                    _logger.warning("File %s of the catalog is left out: not the name of a %s.", entry.name, self._noun)
                continue
            try:
                states = [entry.stat(), *(path.stat() for path in self.beside(name))]
            except FileNotFoundError:
                continue
            found[name] = tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)
        return found

    def beside(self, name: str) -> list[Path]:
        """Return the files of spheres beside the file of a robot."""
        paths = [self.folder / f"{name}{suffix}" for suffix in SPHERES if self._noun == "robot"]
        return [path for path in paths if path.is_file()]

    def text(self, name: str) -> bytes | None:
        """Return the content of a file; log an error and return None if the file cannot be read."""
        try:
            with open(self._path(name), "rb", opener=_open_at_once) as file:
                return file.read(self._most_bytes + 1)
        except OSError as error:
            _logger.error("%s %s of the catalog cannot be read: %s.", self._noun.capitalize(), name, error.strerror)
            return None

    def write(self, name: str, text: bytes) -> None:
        """Write or replace a file; OSError if the disk refuses the file, and the earlier file stays."""
        write_whole(self._path(name), lambda file: file.write(text))

    def owner(self, name: str) -> Owner:
        """Return the owner of a file: the name of an API key, or None; OSError if its file cannot be read."""
        try:
            with open(self._owner_path(name), errors="replace", opener=_open_at_once) as file:
                return file.read(OWNER_CHARACTERS_MAX).strip()
        except FileNotFoundError:
            return None

    def set_owner(self, name: str, owner: Owner) -> None:
        """Store the owner of a new file; None removes the owner. OSError if the disk refuses the change."""
        if owner is None:
            self._owner_path(name).unlink(missing_ok=True)
        else:
            write_whole(self._owner_path(name), lambda file: file.write(owner.encode()))

    def delete(self, name: str) -> None:
        """Delete a file and the files beside it; OSError if the disk refuses the change."""
        for path in (self._path(name), *self.beside(name), self._owner_path(name)):
            path.unlink(missing_ok=True)
        sync_folder(self.folder)

    def _path(self, name: str) -> Path:
        assert ENTRY_NAME.fullmatch(name)  # the catalog checks the name; a path here would leave the folder
        return self.folder / f"{name}{self._suffix}"

    def _owner_path(self, name: str) -> Path:
        return self._path(name).with_suffix(self._suffix + OWNER)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without blocking: a named pipe would block until another process writes."""
    return os.open(path, flags | os.O_NONBLOCK)

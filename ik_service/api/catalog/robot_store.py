"""The folder of robots that were put at run time: one URDF file each, written whole or not at all.

A file appears under its name only once all of its bytes are on the disk, so whatever ends a process, the folder holds
the robots that were put. Any number of processes may share it: those that change it lock it, and its time of change
tells others to look again.
"""

import fcntl
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ik_service.robots.files.xml_reader import MAX_BYTES
from objectives.errors import InputError

ROBOT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
"""Names that robots can be put under: they are file names and parts of addresses."""
_SUFFIX = ".urdf"
_UNFINISHED = ".unfinished"
_SETTLED_NS = 100_000_000  # a time of change older than this, by far the clock's step, covers all changes up to it

Files = dict[str, tuple[int, int, int]]
"""What tells one state of a robot's file from another, by the robot's name: inode, time of change, size."""

_log = logging.getLogger(__name__)


class RobotStore:
    """Robots by name in a folder.

    Args:
        folder: The folder; it is made where there is none.

    Raises:
        InputError: The folder cannot be made or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self.alone():  # whoever writes holds the lock: what is unfinished now stays so
                unfinished = [path for path in folder.iterdir() if path.name.endswith(_UNFINISHED)]
                for path in unfinished:
                    _log.warning("Upload %s was cut off before it was complete; it is removed.", path.name)
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"catalog_dir '{folder}' cannot be used: {error.strerror}.") from error
        self._misnamed: set[str] = set()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all other processes from changing the folder.

        Raises:
            OSError: The folder cannot be opened.
        """
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def changed_at(self) -> int | None:
        """Return when the folder last changed; None where it may change again without its time telling."""
        changed = self._folder.stat().st_mtime_ns
        return changed if time.time_ns() - changed > _SETTLED_NS else None

    def files(self) -> Files:
        """Return the robots in the folder, sorted by name; files with other names are logged once and left out."""
        found = {}
        for entry in sorted(os.scandir(self._folder), key=lambda entry: entry.name):
            name = entry.name.removesuffix(_SUFFIX)
            if name == entry.name or not ROBOT_NAME.fullmatch(name):
                if not entry.name.endswith(_UNFINISHED) and entry.name not in self._misnamed:
                    self._misnamed.add(entry.name)
                    _log.warning("File %s of the catalog is left out: not the name of a robot.", entry.name)
                continue
            try:
                state = entry.stat()
            except FileNotFoundError:
                continue
            found[name] = (state.st_ino, state.st_mtime_ns, state.st_size)
        return found

    def text(self, name: str) -> bytes | None:
        """Return the URDF text of a robot; None, and a line in the log, where it cannot be read."""
        try:
            with self._path(name).open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            _log.error("Robot %s of the catalog cannot be read: %s.", name, error.strerror)
            return None

    def write(self, name: str, text: bytes) -> None:
        """Write a robot, in place of the one of that name.

        Raises:
            OSError: The disk does not take it; what was there before stays.
        """
        unfinished = self._folder / f".{name}.{secrets.token_hex(8)}{_UNFINISHED}"
        try:
            with unfinished.open("xb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._path(name))
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        self._sync_folder()

    def delete(self, name: str) -> None:
        """Remove a robot.

        Raises:
            OSError: The disk does not let it go.
        """
        self._path(name).unlink(missing_ok=True)
        self._sync_folder()

    def _path(self, name: str) -> Path:
        assert ROBOT_NAME.fullmatch(name)  # checked by the catalog; no path must come through
        return self._folder / f"{name}{_SUFFIX}"

    def _sync_folder(self) -> None:
        """Bring names to the disk, which holds them apart from the files."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

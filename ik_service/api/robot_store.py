"""The folder of robots that were put at run time: one URDF file each, written whole or not at all.

A file appears under its name only once all of its bytes are on the disk, so whatever ends the process, the folder holds
the robots that were put. One process owns the folder.
"""

import logging
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from ik_service.robots.xml_reader import MAX_BYTES
from objectives.errors import InputError

ROBOT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
"""Names that robots can be put under: they are file names and parts of addresses."""
_SUFFIX = ".urdf"
_UNFINISHED = ".unfinished"

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
            unfinished = [path for path in folder.iterdir() if path.name.endswith(_UNFINISHED)]
        except OSError as error:
            raise InputError(f"catalog_dir '{folder}' cannot be used: {error.strerror}.") from error
        for path in unfinished:
            _log.warning("Upload %s was cut off before it was complete; it is removed.", path.name)
            path.unlink(missing_ok=True)

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Give the names and URDF texts in the folder, sorted; files that cannot be read are logged and left out."""
        for path in sorted(self._folder.iterdir()):
            name = path.name.removesuffix(_SUFFIX)
            if name == path.name or not ROBOT_NAME.fullmatch(name):
                _log.warning("File %s of the catalog is left out: not the name of a robot.", path.name)
                continue
            try:
                with path.open("rb") as file:
                    text = file.read(MAX_BYTES + 1)
            except OSError as error:
                _log.error("Robot %s of the catalog cannot be read: %s.", name, error.strerror)
                continue
            yield name, text

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

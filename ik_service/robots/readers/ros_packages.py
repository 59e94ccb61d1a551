"""ROS packages on machines without ROS: folders of packages, and expansion of xacro files.

For local files of the caller only, never for uploads.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import ModuleType

from ik_service.errors import RobotFileError
from ik_service.extras import how_to_install
from objectives.errors import InputError

_NAME = re.compile(rb"<name>\s*([^<\s]+)\s*</name>")
_INDEX = "ament_index_python.packages"
_EXPANDING = Lock()  # xacro keeps the state of a file in its module


def package_folders(name: str, file: Path, package_dirs: Sequence[Path] = ()) -> Iterator[Path]:
    """Give candidate folders of a package, the likeliest first; a folder may not exist.

    The order is: `package_dirs` (packages or folders of packages), the package of the file, the packages beside the
    file and beside each folder above, the packages of the environment.
    """
    for folder in (*package_dirs, *file.absolute().parents):
        if name in (folder.name, _declared(folder)):
            yield folder
        yield folder / name
        yield from (one.parent for one in sorted(folder.glob("*/package.xml")) if _declared(one.parent) == name)
    for folder in _listed("ROS_PACKAGE_PATH"):
        yield from _below(folder, name)
    yield from (folder / "share" / name for folder in _listed("AMENT_PREFIX_PATH"))


def find_package(name: str, file: Path, package_dirs: Sequence[Path] = ()) -> Path:
    """Give the first candidate folder with the name in package.xml, else the first existing one; or RobotFileError."""
    folders = (folder for folder in package_folders(name, file, package_dirs) if folder.is_dir())
    found = max(folders, key=lambda folder: _declared(folder) == name, default=None)
    if found is None:
        given = ", ".join(map(str, package_dirs)) or "none given"
        ros, ament = (os.environ.get(variable, "not set") for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"))
        raise RobotFileError(
            f"package '{name}' is not found in package_dirs ({given}), in the folders above '{file}', in "
            f"ROS_PACKAGE_PATH ({ros}) or AMENT_PREFIX_PATH ({ament}). Name its folder: package_dirs=[...]."
        )
    return found


def _declared(folder: Path) -> str | None:
    try:
        found = _NAME.search((folder / "package.xml").read_bytes())
    except OSError:
        return None
    return None if found is None else found[1].decode(errors="replace")


def _listed(variable: str) -> list[Path]:
    return [Path(folder) for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


def _below(folder: Path, name: str) -> Iterator[Path]:
    """Give the folders of a package at any depth; packages are not nested."""
    for place, folders, files in os.walk(folder):
        if "package.xml" in files or "manifest.xml" in files:
            folders.clear()
            if name in (Path(place).name, _declared(Path(place))):
                yield Path(place)
        folders[:] = sorted(inside for inside in folders if not inside.startswith("."))


def expand_xacro(path: Path, arguments: Mapping[str, str], package_dirs: Sequence[Path] = ()) -> bytes:
    """Expand a xacro file, which may open files, into a URDF; InputError without xacro, RobotFileError if invalid."""
    try:
        from xacro import process_file
    except ModuleNotFoundError:
        raise InputError(f"Xacro files are read by xacro. {how_to_install('xacro')}") from None
    missing: list[RobotFileError] = []

    def folder_of(name: str) -> str:
        try:
            return str(find_package(name, path, package_dirs))
        except RobotFileError as error:
            missing.append(error)
            raise

    index = ModuleType(_INDEX)
    index.get_package_share_directory = folder_of  # type: ignore[attr-defined]  # a module made here
    with _EXPANDING:
        known = sys.modules.get(_INDEX)
        sys.modules[_INDEX] = index  # xacro asks this module for packages; with ROS, its variables give the same
        try:
            text: str = process_file(str(path), mappings=dict(arguments)).toxml()
        except Exception as error:  # expressions of the file may raise any error
            reason = missing[-1].reason if missing else " ".join(str(error).split()) or type(error).__name__
            raise RobotFileError(f"xacro file '{path}' cannot be expanded: {reason.rstrip('.')}.") from error
        finally:
            sys.modules.pop(_INDEX)
            sys.modules.update({} if known is None else {_INDEX: known})
    return text.encode()

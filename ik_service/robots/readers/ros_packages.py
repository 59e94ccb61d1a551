"""Packages of ROS where no ROS is installed: their folders, and xacro files, which are expanded with them.

Only for local files of the caller: an upload never gets here.
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
    """Give the folders that may be a package, the likeliest first; they need not exist.

    They are `package_dirs`, packages or folders of these, then the package of a file and those beside it, and beside
    any folder above, then those of the environment.
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
    """Give the folder of a package: the first of `package_folders` whose package.xml says so, or else that is there.

    RobotFileError, which says where it was looked for, where none is.
    """
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
    """Give the folders of a package at any depth; there are no packages inside a package."""
    for place, folders, files in os.walk(folder):
        if "package.xml" in files or "manifest.xml" in files:
            folders.clear()
            if name in (Path(place).name, _declared(Path(place))):
                yield Path(place)
        folders[:] = sorted(inside for inside in folders if not inside.startswith("."))


def expand_xacro(path: Path, arguments: Mapping[str, str], package_dirs: Sequence[Path] = ()) -> bytes:
    """Give the URDF that a xacro file stands for; files are opened, and expressions evaluated.

    Raises:
        InputError: xacro is not installed.
        RobotFileError: It cannot be expanded, or names a package that is not found.
    """
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
        sys.modules[_INDEX] = index  # what xacro asks for packages; where ROS is, its variables say the same
        try:
            text: str = process_file(str(path), mappings=dict(arguments)).toxml()
        except Exception as error:  # it evaluates expressions of the file, which may raise anything
            reason = missing[-1].reason if missing else " ".join(str(error).split()) or type(error).__name__
            raise RobotFileError(f"xacro file '{path}' cannot be expanded: {reason.rstrip('.')}.") from error
        finally:
            sys.modules.pop(_INDEX)
            sys.modules.update({} if known is None else {_INDEX: known})
    return text.encode()

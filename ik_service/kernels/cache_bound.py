"""A bound on the size of the kernel cache: what has not been used for longest is removed first.

Robots that are uploaded at run time add to the cache for as long as a service runs. Without the variable nothing is
removed, because other programs may share the folder.
"""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import warp as wp

from objectives.errors import InputError

BOUND_VARIABLE = "IK_SERVICE_KERNEL_CACHE_MB"
"""Environment variable with the bound, in 10^6 bytes."""
MARKS = "ik_service_marks"
"""Folder in the cache whose files say what has been compiled."""
HEADERS = "ik_service_headers"
"""Folder in the cache with a folder for each precompiled header."""
_REMOVABLE = ("wp_*", f"{HEADERS}/*")  # folders that Warp makes, one a module; folders of headers


def bound_bytes() -> int | None:
    """Return how large the cache may be, None for no bound.

    Raises:
        InputError: The variable is not a whole number above 0.
    """
    given = os.environ.get(BOUND_VARIABLE)
    if not given:
        return None
    if not given.isascii() or not given.isdigit() or int(given) == 0:
        raise InputError(f"{BOUND_VARIABLE} is {given!r}. Allowed: a whole number of 10^6 bytes above 0, or nothing.")
    return int(given) * 10**6


def keep_bound() -> list[Path]:
    """Remove modules and headers until the cache is within its bound; return their folders.

    Processes that have loaded a module go on without its files. Marks go too, since none tells of which modules it
    speaks: what they said is found out anew.
    """
    bound, cache = bound_bytes(), Path(str(wp.config.kernel_cache_dir))
    if bound is None:
        return []
    folders = [folder for pattern in _REMOVABLE for folder in cache.glob(pattern) if folder.is_dir()]
    found = sorted((_used_at(folder), _size(folder), folder) for folder in folders)
    excess = _size(cache) - bound
    removed: list[Path] = []
    for _, size, folder in found:
        if excess <= 0:
            break
        if size:  # else it holds links, to what came with the installation
            shutil.rmtree(folder, ignore_errors=True)
            excess -= size
            removed.append(folder)
    if removed:
        shutil.rmtree(cache / MARKS, ignore_errors=True)
    return removed


def note_use(path: Path) -> None:
    """Note that a file is used now, where that can be written: not in a cache that is only read."""
    with suppress(OSError):
        os.utime(path, follow_symlinks=False)


def _files(folder: Path) -> list[os.stat_result]:
    """States of the files below a folder, links left out; what vanishes meanwhile is passed over."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found.append(os.lstat(os.path.join(place, name)))
    return [state for state in found if stat.S_ISREG(state.st_mode)]


def _size(folder: Path) -> int:
    return sum(state.st_size for state in _files(folder))


def _used_at(folder: Path) -> int:
    """When any of a module's files was last written or, as far as the file system notes it, read [ns]."""
    return max((max(state.st_atime_ns, state.st_mtime_ns) for state in _files(folder)), default=0)

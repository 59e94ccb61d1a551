"""The kernel cache on disk: trusted writers, atomic writes, and a bound on its size.

Code in the cache runs with the rights of the loading process. So every folder, file and target of a link is checked
once in a process, by the rule of `ik_service.kernels.file_trust`, and the files of a module again on each load. Robots
uploaded at run time add to the cache for as long as a service runs. With a bound, the least recently used files are
removed first; without a bound nothing is removed, because other programs may share the folder.

Warp reads one folder of kernels. Files delivered with an installation, such as a container image, are linked into the
cache. A GPU runs code of its own architecture, or PTX of an older one, translated by its driver at every start. A cache
filled for GPUs has a list of its architectures, so that Warp looks for the code present.
"""

import functools
import hashlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import warp as wp

from ik_service.errors import KernelCacheError
from ik_service.kernels.file_trust import is_foreign, why_untrusted
from ik_service.whole_file import write_whole
from objectives.errors import InputError

BOUND_VARIABLE = "IK_SERVICE_KERNEL_CACHE_MB"
"""Environment variable with the bound, in 10^6 bytes."""
SHIPPED_VARIABLE = "IK_SERVICE_SHIPPED_KERNELS"
"""Environment variable that names a folder which `ik-service warmup` has filled, as WARP_CACHE_PATH it."""
MARKS, HEADERS = "ik_service_marks", "ik_service_headers"
"""Folders in the cache: of files that say what has been compiled, and of a folder for each precompiled header."""
GPU_CODE = "ik_service_gpu_code.json"
"""File in a cache that says for which architectures it holds code."""
CHECKSUM = ".sha256"
"""Suffix of the checksum of a file, behind the file's whole name."""
_REMOVABLE = ("wp_*", f"{HEADERS}/*")  # Warp's folders, one per module; folders of headers


def folder() -> Path:
    """Return the folder of the cache."""
    return Path(str(wp.config.kernel_cache_dir))


def entries(below: str | Path, passed_over: type[OSError] = OSError) -> Iterator["os.DirEntry[str]"]:
    """Yield everything below a folder; folders unreadable with these errors, as if removed, are skipped."""
    with suppress(passed_over), os.scandir(below) as found:
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from entries(entry.path, passed_over)


def write(path: Path, content: bytes) -> None:
    """Write a file of the cache atomically, and make its folders; under any umask, only this user may write there."""
    for parent in (path.parent.parent, path.parent):
        parent.mkdir(mode=0o755, exist_ok=True)
    write_whole(path, lambda file: file.write(content), mode=0o644)


def write_checksum(path: Path) -> None:
    """Write the checksum of a whole file beside it."""
    write(path.with_name(f"{path.name}{CHECKSUM}"), _checksum(path))


def has_checksum(path: Path, *others: Path) -> bool:
    """Return whether a file exists and matches its checksum; KernelCacheError from `check_trust`, with their folder."""
    said = path.with_name(f"{path.name}{CHECKSUM}")
    with suppress(FileNotFoundError):
        check_trust(*others, path.parent, path, said)
        return said.read_bytes() == _checksum(path)
    return False


def _checksum(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


def check_cache() -> None:
    """Refuse a kernel cache with possible code of others; once for each folder of this process.

    KernelCacheError if others can write to the cache, InputError for a wrong bound on its size, OSError if unreadable.
    """
    bound_bytes()
    _check_folder(str(folder()))


@functools.cache
def _check_folder(cache: str) -> None:
    check_trust(cache)
    for entry in entries(cache, FileNotFoundError):
        with suppress(FileNotFoundError):  # removed meanwhile, or a broken link
            check_trust(entry.path)
            if entry.is_symlink():
                found = entry.stat(follow_symlinks=False)
                if is_foreign(found):
                    raise _untrusted(entry.path, f"is a link that belongs to user {found.st_uid}")
                check_trust(os.path.dirname(os.path.realpath(entry.path)))


def check_trust(*paths: str | Path) -> None:
    """Raise KernelCacheError if others can write to files or folders, FileNotFoundError if one does not exist."""
    for path in paths:
        if (reason := why_untrusted(path)) is not None:
            raise _untrusted(path, reason)


def _untrusted(path: str | Path, reason: str) -> KernelCacheError:
    return KernelCacheError(
        f"The kernel cache '{folder()}' is not used: '{path}' {reason}, and code in it would run as you. It must "
        "belong to you or to root, and nobody else may write it. Delete it, so that it is compiled anew (with 'umask "
        "022'), or let WARP_CACHE_PATH name a folder of yours."
    )


def bound_bytes() -> int | None:
    """Return the bound of the cache [bytes], None for no bound; InputError if not a whole number above 0."""
    given = os.environ.get(BOUND_VARIABLE)
    if not given:
        return None
    if not given.isascii() or not given.isdigit() or int(given) == 0:
        raise InputError(f"{BOUND_VARIABLE} is {given!r}. Allowed: a whole number of 10^6 bytes above 0, or nothing.")
    return int(given) * 10**6


def keep_bound() -> list[Path]:
    """Remove modules and headers until the cache is within its bound; return their folders.

    Processes keep a loaded module without its files. Marks are removed, too, because they do not name their modules;
    their content is found again.
    """
    bound, cache, removed = bound_bytes(), folder(), list[Path]()
    if bound is None:
        return removed
    excess = _use_and_size(cache)[1] - bound
    found = [place for pattern in _REMOVABLE for place in cache.glob(pattern) if place.is_dir()]
    for (_, size), place in sorted((_use_and_size(place), place) for place in found):
        if excess > 0 and size:  # a folder without a size holds links to installed files
            shutil.rmtree(place, ignore_errors=True)
            excess -= size
            removed.append(place)
    if removed:
        shutil.rmtree(cache / MARKS, ignore_errors=True)
    return removed


def note_use(path: Path) -> None:
    """Record the use of a file, if writable: not in a read-only cache."""
    with suppress(OSError):
        os.utime(path, follow_symlinks=False)


def _use_and_size(place: Path) -> tuple[int, int]:
    """Return the last write or recorded read of files [ns], and their total size [bytes]; links are left out."""
    used = size = 0
    for entry in entries(place):
        with suppress(OSError):
            state = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(state.st_mode):
                used, size = max(used, state.st_atime_ns, state.st_mtime_ns), size + state.st_size
    return used, size


@functools.cache
def use_shipped_kernels() -> None:
    """Link files of the installation into the cache, once Warp has chosen its folder; OSError if read-only.

    The cache's own files stay. Broken links, after an upgrade for example, are replaced.
    """
    cache, named = folder().resolve(), os.environ.get(SHIPPED_VARIABLE)
    shipped = Path(named, str(wp.config.version)).resolve() if named else cache
    for source in shipped.rglob("*") if shipped != cache else ():
        link = cache / source.relative_to(shipped)
        if source.is_file() and not link.exists():
            link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            made = link.with_name(f"{link.name}.{os.getpid()}.{threading.get_ident()}")
            made.symlink_to(source)
            os.replace(made, link)  # any number of processes may do so at once


def note_gpu_code(architectures: Iterable[int], ptx: int) -> None:
    """Write into the cache its GPU architectures with code, added to the earlier ones, and the one with PTX."""
    cubins = sorted({*read_gpu_code().get("cubins", ()), *architectures})
    write(folder() / GPU_CODE, (json.dumps({"cubins": cubins, "ptx": ptx}) + "\n").encode())


def read_gpu_code() -> dict[str, Any]:
    """Return the cache's record of code for GPUs; empty if the cache was not filled for them."""
    with suppress(FileNotFoundError, TypeError, ValueError):
        return dict(json.loads((folder() / GPU_CODE).read_bytes()))
    return {}


def use_gpu_code(device: wp.Device) -> None:
    """Let Warp look for the kind of code in the cache for a GPU, unless configured otherwise.

    By default Warp prefers PTX of the very architecture if the driver is recent.
    """
    said = read_gpu_code() if device.is_cuda else {}
    if not said or wp.config.cuda_output is not None or wp.config.ptx_target_arch is not None:
        return
    if device.arch in said["cubins"]:
        wp.config.cuda_output = "cubin"
    else:
        wp.config.ptx_target_arch = int(said["ptx"])

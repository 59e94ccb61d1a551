"""Check that nobody else can write to the kernel cache, whose code runs with the rights of the process that loads it.

Every folder, file and target of a link in the cache is checked once in a process, and the files of a module again when
they are loaded. The rule itself is `ik_service.kernels.file_trust`.
"""

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import warp as wp

from ik_service.errors import KernelCacheError
from ik_service.kernels.cache_bound import bound_bytes
from ik_service.kernels.file_trust import ROOT, why_untrusted

CHECKSUM = ".sha256"
"""What the checksum of a file has behind the file's name."""


def checksum(path: Path) -> bytes:
    """Return what stands beside a whole file as its checksum."""
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


def check_cache() -> None:
    """Refuse a kernel cache in which others may have put code; once for each folder of this process.

    Raises:
        KernelCacheError: Others can write to it; the message names the file or folder.
        InputError: The bound on its size is not a number.
        OSError: It cannot be read.
    """
    bound_bytes()
    _check_folder(str(wp.config.kernel_cache_dir))


@functools.cache
def _check_folder(cache: str) -> None:
    check_trust([cache])
    seen: set[str] = set()
    for entry in _entries(cache):
        try:
            check_trust([entry.path])
            if entry.is_symlink():
                _check_link(entry, seen)
        except FileNotFoundError:  # removed meanwhile, or a link that leads nowhere
            continue


def check_trust(paths: list[str] | list[Path]) -> None:
    """Raise an error where others can write to files or folders.

    Raises:
        KernelCacheError: Others can write to one of them.
        FileNotFoundError: One of them is not there.
    """
    for path in paths:
        reason = why_untrusted(path)
        if reason is not None:
            raise _untrusted(path, reason)


def _check_link(entry: "os.DirEntry[str]", seen: set[str]) -> None:
    """Refuse a link that others have made, or that leads into a folder of theirs."""
    reason = None
    owner = entry.stat(follow_symlinks=False).st_uid
    if owner not in (ROOT, os.geteuid()):
        reason = f"is a link that belongs to user {owner}"
    folder = os.path.dirname(os.path.realpath(entry.path))
    if reason is None and folder not in seen:
        check_trust([folder])
        seen.add(folder)
    if reason is not None:
        raise _untrusted(entry.path, reason)


def _entries(folder: str) -> "Iterator[os.DirEntry[str]]":
    """Everything below a folder; what other processes remove meanwhile is passed over."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path)


def _untrusted(path: object, reason: str) -> KernelCacheError:
    return KernelCacheError(
        f"The kernel cache '{wp.config.kernel_cache_dir}' is not used: '{path}' {reason}, and code in it would run as "
        "you. It must belong to you or to root, and nobody else may write it. Delete it, so that it is compiled anew "
        "(with 'umask 022'), or let WARP_CACHE_PATH name a folder of yours."
    )

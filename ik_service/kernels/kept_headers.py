"""Warp's header, precompiled once per machine and kept with the kernel cache: parsing it dominates small modules.

    a module to compile -> is a header kept, trusted and whole? yes: link it, no: one thread makes and keeps it

Each thread has a folder in which Warp looks for a precompiled header. Without a header that fits the module's options,
Warp makes a new one. So a header that is missing, damaged or made for other options costs time, and changes no code.
"""

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warp as wp

from ik_service.kernels.cache_bound import HEADERS, note_use
from ik_service.kernels.kernel_trust import CHECKSUM, check_trust, checksum

_OPTIONS = (  # options of a module on which its header depends, besides the processor, Warp's version and source files
    "mode",
    "verify_fp",
    "fuse_fp",
    "optimization_level",
    "block_dim",
    "enable_tiles_in_stack_memory",
    "extra_cpu_include_dirs",
    "cpu_compiler_flags",
)
_MAKING = threading.Lock()


@contextmanager
def header_at_hand(options: dict[str, Any]) -> Iterator[None]:
    """While this thread compiles a module for a CPU, let Warp find the kept header; keep a header that Warp makes.

    Args:
        options: Options of the module. While another thread of this process makes a header, they are set so that Warp
            compiles without a precompiled header.
    """
    runtime: Any = wp._src.context.runtime
    folders = runtime._pch_dirs
    kept, thread = Path(str(wp.config.kernel_cache_dir), HEADERS, _key(options)).absolute(), threading.get_ident()
    found, before = _whole_files(kept), folders.get(thread)
    makes = not found and _MAKING.acquire(blocking=False)
    options["use_precompiled_headers"] = makes or bool(found)
    try:
        with tempfile.TemporaryDirectory(prefix="ik_service_header_") as place:
            folders[thread] = SimpleNamespace(name=place)  # where Warp looks, and writes, in this thread
            for path in found:
                note_use(path)
                Path(place, path.name).symlink_to(path)
            yield
            for path in Path(place).glob("*.pch") if makes else ():
                _keep(path, kept)
    finally:
        folders.pop(thread, None)
        if before is not None:
            folders[thread] = before
        if makes:
            _MAKING.release()


def _key(options: dict[str, Any]) -> str:
    """Return a name for everything on which a header depends; clang refuses a header older than its source files."""
    flags = options["cpu_compiler_flags"]
    files = Path(str(wp.__file__)).parent.joinpath("native").rglob("*.h")
    states = sorted((str(path), path.stat().st_size, int(path.stat().st_mtime)) for path in files)
    parts = [options.get(name) for name in _OPTIONS], states, wp.get_cpu_kernel_cache_key(cpu_compiler_flags=flags)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _whole_files(kept: Path) -> list[Path]:
    """Return the headers of a folder whose checksums are right.

    Raises:
        KernelCacheError: Other users may have written a header.
    """
    found = []
    for path in kept.glob("*.pch"):
        with suppress(FileNotFoundError):
            said = path.with_name(f"{path.name}{CHECKSUM}")
            check_trust([kept.parent, kept, path, said])
            if said.read_bytes() == checksum(path):
                found.append(path)
    return found


def _keep(path: Path, kept: Path) -> None:
    """Copy a header into a folder of kept headers, its checksum last; a folder that cannot be written is left alone."""
    with suppress(OSError):
        for folder in (kept.parent, kept):  # whatever the umask: a folder that others can write is not trusted
            folder.mkdir(mode=0o755, exist_ok=True)
        code = path.read_bytes()
        for name, text in ((path.name, code), (f"{path.name}{CHECKSUM}", checksum(path))):
            staged = kept / f"{name}.{os.getpid()}.{threading.get_ident()}"
            try:
                staged.touch(mode=0o644)
                staged.write_bytes(text)
                staged.replace(kept / name)
            finally:
                staged.unlink(missing_ok=True)

"""Warp's header, precompiled once per machine and kept with the kernel cache: parsing it dominates small modules.

    a module to compile -> is a header kept, trusted and whole? yes: link the header, no: one thread makes one

Each thread has a folder where Warp looks for a precompiled header. Without a header for the module's options, Warp
makes a new one. So a missing or damaged header, or one for other options, costs time but changes no code.
"""

import hashlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warp as wp

from ik_service.kernels import kernel_cache

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
    """While this thread compiles a module for a CPU, offer the kept header to Warp; keep a header made by Warp.

    Args:
        options: Options of the module. While another thread of this process makes a header, the options are changed to
            compile without a precompiled header.

    Raises:
        KernelCacheError: Other users may have written a header.
    """
    runtime: Any = wp._src.context.runtime
    folders = runtime._pch_dirs
    kept = (kernel_cache.folder() / kernel_cache.HEADERS / _key(options)).absolute()
    found = [path for path in kept.glob("*.pch") if kernel_cache.has_checksum(path, kept.parent)]
    thread = threading.get_ident()
    before = folders.get(thread)
    makes = not found and _MAKING.acquire(blocking=False)
    options["use_precompiled_headers"] = makes or bool(found)
    try:
        with tempfile.TemporaryDirectory(prefix="ik_service_header_") as place:
            folders[thread] = SimpleNamespace(name=place)  # where Warp looks, and writes, in this thread
            for path in found:
                kernel_cache.note_use(path)
                Path(place, path.name).symlink_to(path)
            yield
            for path in Path(place).glob("*.pch") if makes else ():
                with suppress(OSError):  # a read-only cache
                    kernel_cache.write(kept / path.name, path.read_bytes())
                    kernel_cache.write_checksum(kept / path.name)
    finally:
        folders.pop(thread, None)
        if before is not None:
            folders[thread] = before
        if makes:
            _MAKING.release()


def _key(options: dict[str, Any]) -> str:
    """Return a key of all inputs of a header; clang refuses a header older than its source files."""
    flags = options["cpu_compiler_flags"]
    files = Path(str(wp.__file__)).parent.joinpath("native").rglob("*.h")
    states = sorted((str(path), path.stat().st_size, int(path.stat().st_mtime)) for path in files)
    parts = [options.get(name) for name in _OPTIONS], states, wp.get_cpu_kernel_cache_key(cpu_compiler_flags=flags)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

"""Loading of kernels from Warp's cache; missing ones are compiled side by side, with a notice to waiting users.

modules -> loaded in this process? -> in the cache, trusted and undamaged? load : compile, write a checksum, load

Warp keeps the code of each module in a folder named by a hash of all its inputs, and renames this folder into place, so
several processes can fill one cache at once. This file adds three checks: code possibly written by others is not run, a
file without a valid checksum is compiled again, and an unwritable cache is an error with advice.

Parsing Warp's header dominates small modules, so the header is precompiled once per machine and kept with the cache.
Each thread has a folder where Warp looks for a precompiled header. A missing or damaged header, or one for other
options of a module, costs time but changes no code.
"""

import errno
import hashlib
import itertools
import json
import logging
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warp as wp

from ik_service.errors import KernelBuildError, KernelCacheError
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

    While another thread of this process makes a header, the module's options are changed to compile without one.
    KernelCacheError if other users may have written a header.
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


_logger = logging.getLogger(__name__)

BLOCK_DIM = 1  # of all launches on a CPU
LAUNCH_BLOCK = 256  # of launches on a GPU without a block size of their own
NOT_LOADED = ("Failed to load CPU module", "Failed to load CUDA module")  # first words of Warp's errors
NOT_BUILT = "CUDA kernel build failed"
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # of writes; these errors name no file
LOAD_TRIES = 3  # to load a module with vanishing files
QUIET_VARIABLE = "IK_SERVICE_QUIET"  # environment variable; any value but an empty one silences notices
NOTICE_S = 0.5  # of compiling, before the notice
LINKS_TOLD = 3
_FIRST_IDS = itertools.count(1, 2**20)  # of loaded code of modules to be unloaded
_HOLDERS: Counter[Any] = Counter()  # number of holders of each module
_HOLDING = threading.RLock()  # reentrant: garbage may be collected while a thread holds the lock
_ASKED: ContextVar[tuple[str, Callable[[str], None] | None]] = ContextVar("asked", default=("", None))
"""For whom kernels are compiled, and who is told."""


def load_kernels(modules: Mapping[Any, int], device: wp.Device) -> None:
    """Load Warp modules, each with the block size of its launches on a GPU; compile missing ones side by side.

    Raises:
        KernelCacheError: Others may have written to the cache.
        OSError: The cache cannot be read, or lacks a module and cannot be written; see `explained_cache_error`.
    """
    places = {module: _place(block, device) for module, block in modules.items()}
    waiting = [CachedModule(module, place[1], device) for module, place in places.items() if place not in module.execs]
    missing = [one for one in waiting if not one.is_whole()]
    if missing:
        with compiling_notice(len(missing)):
            compile_together(missing)
    for one in waiting:
        one.load()
    if missing:
        kernel_cache.keep_bound()


def load_kernels_alone(module: Any, device: wp.Device) -> None:
    """Load one module, like `load_kernels`, before the solver knows its other modules; called in every solve."""
    if _place(LAUNCH_BLOCK, device) not in module.execs:
        load_kernels({module: LAUNCH_BLOCK}, device)


def _place(block: int, device: wp.Device) -> tuple[Any, int]:
    """Return context and size of block, Warp's key of loaded code of a module for a device."""
    return (device.context, block) if device.is_cuda else (None, BLOCK_DIM)


def loaded_modules() -> int:
    """Return the number of modules loaded in this process."""
    return sum(bool(module.execs) for module in list(wp._src.context.user_modules.values()))


def unload_with(holder: object, module: Any) -> None:
    """Unload a module of generated kernels, which Warp would keep for ever, once all its holders are gone.

    Every user of the kernels refers to a holder; equal kernels have one module. Recorded launches keep their code.
    """
    if not module.cpu_exec_id:  # a later module may have the same name; CPU code is found by name and id
        module.cpu_exec_id = next(_FIRST_IDS)
    with _HOLDING:
        _HOLDERS[module] += 1
    weakref.finalize(holder, _unload, module).atexit = False


def _unload(module: Any) -> None:
    with _HOLDING:
        _HOLDERS[module] -= 1
        if _HOLDERS[module]:
            return
        del _HOLDERS[module]
    module.unload()
    module._detach_references()
    modules: Any = wp._src.context.user_modules
    if modules.get(module.name) is module:
        del modules[module.name]


class CachedModule:
    """A module for a device or an architecture, and its files in the cache; `path` is the file with its code.

    The block size of its launches is part of its key. Without a device of this process: an architecture of GPUs, such
    as 90, and whether to compile PTX for this architecture instead of a cubin.
    """

    def __init__(
        self, module: Any, block: int, device: wp.Device | None, arch: int | None = None, use_ptx: bool | None = None
    ) -> None:
        self._module, self._block, self._device, self._use_ptx = module, block, device, use_ptx
        self._arch = arch if device is None else module._get_compile_arch(device)
        name = module._get_compile_output_name(device, arch, use_ptx=use_ptx, block_dim=block)
        self.path = kernel_cache.folder() / module.get_module_identifier(block_dim=block) / name
        self._meta = self.path.with_name(module._get_meta_name(block_dim=block))

    def is_whole(self) -> bool:
        """Return whether the cache holds the module, undamaged; KernelCacheError for a file of untrusted writers."""
        with suppress(FileNotFoundError, ValueError):
            has_code = kernel_cache.has_checksum(self.path, self._meta)
            json.loads(self._meta.read_bytes())
            return has_code
        return False

    def load(self) -> None:
        """Load the module; compile a missing or damaged one."""
        for tries_left in reversed(range(LOAD_TRIES)):
            if not self.is_whole():
                self.compile()
            try:
                self._module.load(self._device, block_dim=self._block)
                kernel_cache.note_use(self._meta)
                return
            except Exception:  # another process has removed the files in between
                if not tries_left or self.is_whole():
                    raise

    def compile(self) -> None:
        """Compile in a separate folder and move the files into place with a checksum: other readers see whole files."""
        folder, name, options = self.path.parent, self.path.name, self._module.resolved_options[self._block]
        staged = folder.with_name(f"{folder.name}_s{os.getpid()}_{threading.get_ident()}")
        try:
            with header_at_hand(options) if self._arch is None else nullcontext():
                self._module._compile(self._device, staged, name, self._arch, use_ptx=self._use_ptx, options=options)
            kernel_cache.write_checksum(staged / name)
            for path in (*staged.iterdir(), staged):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o022)  # whatever the umask says
            try:
                staged.rename(folder)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                for path in sorted(staged.iterdir(), key=lambda path: path.suffix == kernel_cache.CHECKSUM):
                    path.replace(folder / path.name)  # the checksum last
        finally:
            for left in staged.parent.glob(f"{staged.name}*"):  # with remains of a failed compilation
                shutil.rmtree(left, ignore_errors=True)


def compile_together(modules: Sequence[CachedModule]) -> None:
    """Compile modules side by side, as many at once as there are cores for this process."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), "ik-compiler") as executor:
        list(executor.map(CachedModule.compile, modules))


def whom_of(robot: str, links: Sequence[str]) -> str:
    """Return the name of a robot and its links with targets, for notices."""
    more = f" and {len(links) - LINKS_TOLD} more" if len(links) > LINKS_TOLD else ""
    return f"'{robot}' ({', '.join(links[:LINKS_TOLD])}{more})" if links else f"'{robot}'"


class KernelsFor:
    """A context of one thread around code that loads or compiles kernels: names the robot, explains errors.

    `whom` is the robot as named by `whom_of`; `tell` is called with the notice when compiling begins and with an empty
    text when compiling ends. By default both are those of the enclosing context.
    """

    def __init__(self, whom: str = "", *, tell: Callable[[str], None] | None = None) -> None:
        self._whom, self._tell = whom, tell
        self._before: list[tuple[str, Callable[[str], None] | None]] = []  # of the enclosing contexts

    def __enter__(self) -> None:
        """Record the robot for which this thread compiles kernels."""
        before = _ASKED.get()
        self._before.append(before)
        _ASKED.set((self._whom or before[0], self._tell or before[1]))

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Replace an error of the cache by an error with advice."""
        _ASKED.set(self._before.pop())
        explained = None if error is None else explained_cache_error(error)
        if explained is not None:
            raise explained from error


@contextmanager
def compiling_notice(count: int) -> Iterator[None]:
    """Announce a wait for the compiler; its seconds are kept for the next notice about this number of modules."""
    (whom, tell), kept = _ASKED.get(), kernel_cache.folder() / kernel_cache.MARKS / f"seconds_of_{count}"
    text = f"Compiling code for {whom or 'a robot'}; later runs find it."
    with suppress(OSError, ValueError):
        text += f" Last time it took {float(kept.read_text()):.1f} s."
    if tell:
        tell(text)
    start = time.perf_counter()
    try:
        with announced(text, "Compiled"):
            yield
    finally:
        if tell:
            tell("")
    with suppress(OSError):  # a read-only cache
        kernel_cache.write(kept, f"{time.perf_counter() - start:.1f}".encode())


@contextmanager
def announced(text: str, done: str) -> Iterator[None]:
    """Announce a wait in the log, and after `NOTICE_S` on standard error of programs without a log.

    Without an error the seconds are announced, too, after the word `done`.
    """
    said = threading.Event()

    def say() -> None:
        said.set()
        _write(text)

    _logger.info("%s", text)
    start, timer = time.perf_counter(), threading.Timer(NOTICE_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    took = f"{done} in {time.perf_counter() - start:.1f} s."
    _logger.info("%s", took)
    if said.is_set():
        _write(took)


def _write(text: str) -> None:
    """Write a line to standard error, unless the program has a log or has silenced notices."""
    if not (_logger.hasHandlers() or os.environ.get(QUIET_VARIABLE)):
        with suppress(OSError, ValueError, AttributeError):  # standard error is closed, full or replaced
            sys.stderr.write(f"ik-service: {text}\n")
            sys.stderr.flush()


def explained_cache_error(error: BaseException) -> KernelCacheError | None:
    """Return an error with advice for an error of the kernel cache, or None for any other."""
    folder, said = kernel_cache.folder(), str(error)
    if isinstance(error, OSError) and (error.filename is not None or error.errno in NOT_WRITTEN):
        at_fault = folder if error.filename is None else Path(os.fsdecode(error.filename))
        if at_fault.is_relative_to(folder) or folder.is_relative_to(at_fault):
            return KernelCacheError(
                f"The kernel cache '{folder}' has no code that can be read for this robot and these targets, and it "
                f"cannot be written: {error.strerror}. Fill it beforehand with 'ik-service warmup' as a user who may "
                "write there, or let WARP_CACHE_PATH name a folder that can be written."
            )
    if isinstance(error, json.JSONDecodeError) or said.startswith(NOT_LOADED):
        return KernelCacheError(f"A file in the kernel cache '{folder}' is damaged: {said}. Delete that folder.")
    if said.startswith(NOT_BUILT):
        return KernelBuildError(
            f"Kernels for a GPU cannot be compiled into the cache '{folder}': {said}. The log has the compiler's "
            "words. Check that the version of Warp is the one that is required, and that the card is one it supports."
        )
    return None

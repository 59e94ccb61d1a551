"""Loading of kernels from Warp's cache; missing ones are compiled side by side.

    modules -> loaded in this process? -> in the cache, trusted and undamaged? load : compile, write a checksum, load

Warp keeps the code of each module in a folder named by a hash of all that goes into it, and renames it into place, so
that several processes can fill one cache at once. This file adds three checks: code that others may have written is
not run, a file that is damaged or has no checksum is compiled again, and a cache that cannot be written is an error
that says what to do.
"""

import errno
import itertools
import json
import logging
import os
import shutil
import stat
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import warp as wp

from ik_service.errors import KernelBuildError, KernelCacheError
from ik_service.kernels.cache_bound import MARKS, keep_bound, note_use
from ik_service.kernels.kept_headers import header_at_hand
from ik_service.kernels.kernel_trust import CHECKSUM, check_trust, checksum

_logger = logging.getLogger(__name__)

BLOCK_DIM = 1  # of all launches on a CPU
LAUNCH_BLOCK = 256  # of launches on a GPU that ask for none
NOT_LOADED = ("Failed to load CPU module", "Failed to load CUDA module")  # how errors of Warp begin
NOT_BUILT = "CUDA kernel build failed"
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # of writes, whose errors name no file
_FIRST_IDS = itertools.count(1, 2**20)  # of what is loaded of modules that are unloaded again
LOAD_TRIES = 3  # to load a module whose files vanish
QUIET_VARIABLE = "IK_SERVICE_QUIET"  # environment variable; any value but an empty one silences notices
NOTICE_S = 0.5  # of compiling, before somebody who waits is told
LINKS_TOLD = 3
_THREAD = threading.local()  # `asked`: for whom kernels are compiled, and who is told
_HOLDERS: Counter[Any] = Counter()  # how many holders each module has
_HOLDING = threading.RLock()  # reentrant: garbage may be collected while a thread holds the lock
NOBODY: tuple[str, Callable[[str], None] | None] = ("", None)


def load_kernels(modules: Mapping[Any, int], device: wp.Device) -> None:
    """Load modules that launches will need; compile those that are not cached, side by side.

    Args:
        modules: Warp modules, each with the size of block of its launches on a GPU.
        device: Where they are needed.

    Raises:
        KernelCacheError: Others may have written what is in the cache.
        OSError: The cache cannot be read, or not be written where it lacks a module; see `explained_cache_error`.
    """
    blocks = [(module, _block(block, device)) for module, block in modules.items()]
    waiting = [CachedModule(*one, device=device) for one in blocks if not is_loaded(*one, device)]
    missing = [one for one in waiting if not one.is_whole()]
    cores = len(os.sched_getaffinity(0))
    if missing:
        with _Notice(len(missing)), ThreadPoolExecutor(min(cores, len(missing)), "ik-compiler") as executor:
            list(executor.map(CachedModule.compile, missing))
    for one in waiting:
        one.load()
    if missing:
        keep_bound()


def load_kernels_alone(module: Any, device: wp.Device) -> None:
    """Load one module, as `load_kernels` does, before the solver knows its other modules."""
    if not is_loaded(module, _block(LAUNCH_BLOCK, device), device):
        load_kernels({module: LAUNCH_BLOCK}, device)


def unload_with(holder: object, module: Any) -> None:
    """Unload a module of generated kernels once all its holders are gone; recorded launches keep the code they need.

    Args:
        holder: An object to which every user of the kernels refers; equal kernels have one module.
        module: The Warp module, which Warp would keep for ever.
    """
    if not module.cpu_exec_id:  # another module may get the same name later, and code on a CPU is found by both
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


def loaded_modules() -> int:
    """Return how many modules this process has loaded."""
    return sum(bool(module.execs) for module in list(wp._src.context.user_modules.values()))


def is_loaded(module: Any, block: int, device: wp.Device) -> bool:
    """Return whether this process has a module loaded; asked in every solve, so it looks at nothing else."""
    return (device.context if device.is_cuda else None, block) in module.execs


def _block(block: int, device: wp.Device) -> int:
    return block if device.is_cuda else BLOCK_DIM


class CachedModule:
    """A module for a device or an architecture, and its files in the cache.

    Args:
        module: The Warp module.
        block: The size of block that it is launched with, which is part of its key.
        device: Where it is to run; None: nowhere in this process.
        arch: Architecture of GPUs, such as 90, where there is no device.
        use_ptx: Whether to compile PTX for that instead of a cubin.
    """

    def __init__(
        self,
        module: Any,
        block: int,
        *,
        device: wp.Device | None = None,
        arch: int | None = None,
        use_ptx: bool | None = None,
    ) -> None:
        self._module, self._block, self._device, self._use_ptx = module, block, device, use_ptx
        self._arch = arch if device is None else module._get_compile_arch(device)
        identifier = module.get_module_identifier(block_dim=block)
        self._folder = Path(str(wp.config.kernel_cache_dir), identifier)
        name: str = module._get_compile_output_name(device, arch, use_ptx=use_ptx, block_dim=block)
        self._names: tuple[str, str, str] = (name, module._get_meta_name(block_dim=block), f"{name}{CHECKSUM}")

    @property
    def path(self) -> Path:
        """Where its code stands."""
        return self._folder / self._names[0]

    def is_whole(self) -> bool:
        """Return whether the cache holds the module, undamaged.

        Raises:
            KernelCacheError: Others may have written it.
        """
        code, meta, said = paths = [self._folder / name for name in self._names]
        try:
            check_trust([self._folder, *paths])
            json.loads(meta.read_bytes())
            return said.read_bytes() == checksum(code)
        except (FileNotFoundError, ValueError):
            return False

    def load(self) -> None:
        """Load the module; compile it where it is missing or damaged."""
        for tries_left in reversed(range(LOAD_TRIES)):
            if not self.is_whole():
                self.compile()
            try:
                self._module.load(self._device, block_dim=self._block)
                note_use(self._folder / self._names[2])
                return
            except Exception:  # another process has removed it in between
                if not tries_left or self.is_whole():
                    raise

    def compile(self) -> None:
        """Compile it in a folder of its own and put it in its place with a checksum: it is whole all the time."""
        staged = self._folder.with_name(f"{self._folder.name}_s{os.getpid()}_{threading.get_ident()}")
        options = self._module.resolved_options[self._block]
        try:
            with header_at_hand(options) if self._arch is None else nullcontext():
                self._module._compile(
                    self._device, staged, self._names[0], self._arch, use_ptx=self._use_ptx, options=options
                )
            (staged / self._names[2]).write_bytes(checksum(staged / self._names[0]))
            for path in (*staged.iterdir(), staged):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o022)  # whatever the umask says
            self._put(staged)
        finally:
            for left in staged.parent.glob(f"{staged.name}*"):  # with what Warp leaves of a compilation that failed
                shutil.rmtree(left, ignore_errors=True)

    def _put(self, staged: Path) -> None:
        """Put what has been compiled in the place of what may be there."""
        try:
            staged.rename(self._folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            for path in sorted(staged.iterdir(), key=lambda path: path.name == self._names[2]):  # the checksum last
                path.replace(self._folder / path.name)


def whom_of(robot: str, links: Sequence[str]) -> str:
    """Return the words by which notices name a robot and its links with targets."""
    more = f" and {len(links) - LINKS_TOLD} more" if len(links) > LINKS_TOLD else ""
    return f"'{robot}' ({', '.join(links[:LINKS_TOLD])}{more})" if links else f"'{robot}'"


class KernelsFor:
    """A context around code that loads or compiles kernels: it names the robot for notices and explains errors.

    Args:
        whom: The robot in the words of `whom_of`; without it the robot of the context around this one.
        tell: Called with the notice when compiling begins and with an empty text when it ends; without it that of the
            context around this one.
    """

    def __init__(self, whom: str = "", *, tell: Callable[[str], None] | None = None) -> None:
        self._whom, self._tell = whom, tell

    def __enter__(self) -> None:
        """Note for which robot this thread compiles kernels."""
        self._before = getattr(_THREAD, "asked", NOBODY)
        _THREAD.asked = self._whom or self._before[0], self._tell or self._before[1]

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Replace an error of the cache by an error that tells the user what to do."""
        _THREAD.asked = self._before
        explained = None if error is None else explained_cache_error(error)
        if explained is not None:
            raise explained from error


class _Notice:
    """Tells the user about a wait for the compiler: in the log, or on standard error of programs without a log.

    Args:
        count: How many modules are compiled.
    """

    def __init__(self, count: int) -> None:
        self._said, self._times = threading.Event(), Path(str(wp.config.kernel_cache_dir), MARKS, f"seconds_of_{count}")
        self._tell: Callable[[str], None] | None
        whom, self._tell = getattr(_THREAD, "asked", NOBODY)
        self._text = f"Compiling code for {whom or 'a robot'}; later runs find it."
        with suppress(OSError, ValueError):
            self._text += f" Last time it took {float(self._times.read_text()):.1f} s."

    def __enter__(self) -> None:
        """Log the notice, and write it to standard error after `NOTICE_S`."""
        _logger.info("%s", self._text)
        if self._tell:
            self._tell(self._text)
        self._start, self._timer = time.perf_counter(), threading.Timer(NOTICE_S, self._say)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, kind: object, *error: object) -> None:
        """Tell how many seconds compiling took, and keep the number for the next notice; a failure tells nothing."""
        self._timer.cancel()
        if self._tell:
            self._tell("")
        if kind is not None:
            return
        took = f"{time.perf_counter() - self._start:.1f}"
        _logger.info("Compiled in %s s.", took)
        if self._said.is_set():
            _write(f"Compiled in {took} s.")
        with suppress(OSError):  # a cache that is only read
            self._times.parent.mkdir(mode=0o755, exist_ok=True)
            self._times.touch(mode=0o644)  # whatever the umask: a file that others can write is not trusted
            self._times.write_text(took)

    def _say(self) -> None:
        self._said.set()
        _write(self._text)


def _write(text: str) -> None:
    """Write a line to standard error, unless the program has a log or has silenced notices."""
    if not (_logger.hasHandlers() or os.environ.get(QUIET_VARIABLE)):
        with suppress(OSError, ValueError, AttributeError):  # standard error is closed, full or replaced
            sys.stderr.write(f"ik-service: {text}\n")
            sys.stderr.flush()


def explained_cache_error(error: BaseException) -> KernelCacheError | None:
    """Return an error that explains one that comes from the kernel cache, or None for any other."""
    folder = Path(str(wp.config.kernel_cache_dir))
    if isinstance(error, OSError):
        at_fault = folder if error.filename is None else Path(os.fsdecode(error.filename))
        if error.filename is None and error.errno not in NOT_WRITTEN:
            return None
        if at_fault.is_relative_to(folder) or folder.is_relative_to(at_fault):
            return KernelCacheError(
                f"The kernel cache '{folder}' has no code that can be read for this robot and these targets, and it "
                f"cannot be written: {error.strerror}. Fill it beforehand with 'ik-service warmup' as a user who may "
                "write there, or let WARP_CACHE_PATH name a folder that can be written."
            )
    if isinstance(error, json.JSONDecodeError) or str(error).startswith(NOT_LOADED):
        return KernelCacheError(f"A file in the kernel cache '{folder}' is damaged: {error}. Delete that folder.")
    if str(error).startswith(NOT_BUILT):
        return KernelBuildError(
            f"Kernels for a GPU cannot be compiled into the cache '{folder}': {error}. The log has the compiler's "
            "words. Check that the version of Warp is the one that is required, and that the card is one it supports."
        )
    return None


def cached_files() -> set[Path]:
    """Return the files in the cache; folders that other processes rename or remove meanwhile are passed over."""
    cache = str(wp.config.kernel_cache_dir)
    return {Path(folder, name) for folder, _, names in os.walk(cache) for name in names}

"""Kernels of the compiled engine on a CPU, from Warp's cache or the compiler: side by side, and with faults told.

    modules -> in this process already? -> in the cache and whole? load : compile, seal with a checksum, load

Warp keeps the code of each module in a folder of its own, named by a hash of all that goes into it, and puts it there
by a rename; so any number of processes may fill one cache at once. What it leaves open is done here: a damaged file is
compiled anew instead of run, and a cache that cannot be written is an error that says what to do.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import warp as wp

from ik_service.errors import KernelCacheError
from ik_service.solver.intake import SOLVE_IO

BLOCK_DIM = 1  # of all launches on a CPU
CHECKSUM = ".sha256"  # what the checksum of an object has behind the object's name
TRIES = 3  # to load a module whose files vanish


def load_kernels(modules: Iterable[Any], device: wp.Device) -> None:
    """Load modules that launches on a CPU will need; compile those that are not cached.

    Args:
        modules: Warp modules.
        device: Where they are needed. For a GPU nothing is done: Warp loads at the first launch.

    Raises:
        OSError: The cache cannot be read, or not be written where it lacks a module; see `told_cache_error`.
    """
    if device.is_cuda:
        return
    first_use = not is_loaded(SOLVE_IO)
    waiting = [CachedModule(module, device) for module in dict.fromkeys(modules) if not is_loaded(module)]
    missing = [one for one in waiting if not one.is_whole()]
    cores = len(os.sched_getaffinity(0))
    # A precompiled header costs as much as two modules without it, and each thread makes its own; so it pays only for
    # many modules, and those of the first use are mostly all that a process compiles.
    side_by_side = first_use and (cores > 1 or len(missing) <= 2)
    if side_by_side:
        for one in missing:
            one.compile_without_header()
    if side_by_side and len(missing) > 1:
        with ThreadPoolExecutor(min(cores, len(missing)), "ik-compiler") as executor:
            list(executor.map(CachedModule.load, missing))
    for one in waiting:
        one.load()


def is_loaded(module: Any) -> bool:
    """Return whether this process has a module loaded for CPUs."""
    return (None, BLOCK_DIM) in module.execs


class CachedModule:
    """A module and its files in the cache.

    Args:
        module: The Warp module.
        device: A CPU.
    """

    def __init__(self, module: Any, device: wp.Device) -> None:
        self._module, self._device = module, device
        folder = Path(str(wp.config.kernel_cache_dir), module.get_module_identifier(block_dim=BLOCK_DIM))
        self._object = folder / module._get_compile_output_name(device, block_dim=BLOCK_DIM)
        self._meta = folder / module._get_meta_name(block_dim=BLOCK_DIM)
        self._checksum = self._object.with_name(self._object.name + CHECKSUM)

    def is_whole(self) -> bool:
        """Return whether the cache holds the module, undamaged as far as can be seen."""
        try:
            json.loads(self._meta.read_bytes())
            content = self._object.read_bytes()
            return not self._checksum.exists() or self._checksum.read_bytes() == _checksum(content)
        except (FileNotFoundError, ValueError):
            return False

    def compile_without_header(self) -> None:
        """Let Warp parse its headers, should it compile the module; it is the same code with the same key."""
        self._module.resolved_options[BLOCK_DIM]["use_precompiled_headers"] = False

    def load(self) -> None:
        """Load the module; compile it where it is missing or damaged."""
        for tries_left in reversed(range(TRIES)):
            try:
                self._load()
                return
            except FileNotFoundError:  # another process took it for damaged while it was being put there
                if not tries_left:
                    raise

    def _load(self) -> None:
        if is_loaded(self._module):
            return
        if self.is_whole():
            try:
                self._module.load(self._device, block_dim=BLOCK_DIM)
                return
            except OSError:
                raise
            except Exception:  # noqa: BLE001  # Warp raises many kinds for an object that it cannot load
                pass  # there is no checksum, because others have compiled it
        if self._object.exists():  # damaged
            for path in (self._object, self._meta, self._checksum):
                path.unlink(missing_ok=True)
        self._module.load(self._device, block_dim=BLOCK_DIM)
        self._seal()

    def _seal(self) -> None:
        """Keep a checksum of the object, whichever process has put it there."""
        with tempfile.NamedTemporaryFile(dir=self._object.parent, delete=False) as file:
            file.write(_checksum(self._object.read_bytes()))
        os.chmod(file.name, self._object.stat().st_mode)  # for whoever can read the object
        os.replace(file.name, self._checksum)


class ToldCacheErrors:
    """A context in which errors that come from the kernel cache become a `KernelCacheError`."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Tell an error in our words."""
        told = None if error is None else told_cache_error(error)
        if told is not None:
            raise told from error


def told_cache_error(error: BaseException) -> KernelCacheError | None:
    """Return what to tell the caller where an error comes from the kernel cache, else None."""
    folder = Path(str(wp.config.kernel_cache_dir))
    if isinstance(error, OSError) and error.filename is not None:
        at_fault = Path(os.fsdecode(error.filename))
        if at_fault.is_relative_to(folder) or folder.is_relative_to(at_fault):
            return KernelCacheError(
                f"The kernel cache '{folder}' has no code that can be read for this robot and these targets, and it "
                f"cannot be written: {error.strerror}. Fill it beforehand with 'ik-service warmup' as a user who may "
                "write there, or let WARP_CACHE_PATH name a folder that can be written."
            )
    if isinstance(error, json.JSONDecodeError) or str(error).startswith("Failed to load CPU module"):
        return KernelCacheError(f"A file in the kernel cache '{folder}' is damaged: {error}. Delete that folder.")
    return None


def cached_files() -> set[Path]:
    """Return the files in the cache; folders that other processes rename or remove meanwhile are passed over."""
    cache = str(wp.config.kernel_cache_dir)
    return {Path(folder, name) for folder, _, names in os.walk(cache) for name in names}


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()

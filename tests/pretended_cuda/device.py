"""A CUDA device that is pretended on a CPU: what of this project runs on GPUs alone is run by tests without one.

    native/          the functions of Warp's native library that talk to CUDA, over memory, threads and streams of a CPU
    translation.py   kernels: the CUDA that Warp writes, compiled for the machine
    this file        puts both into a Warp that has not been started; `pretended()` is then the device

It is for processes of its own, since Warp asks once what devices there are, and its kernels have a cache of their own:
see `plugin.py`.
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import warp as wp

from tests.pretended_cuda.translation import NATIVE, compile_module, compile_shared

WARP_LIBRARY = "warp.so"
OF_NO_DEVICE = (
    "wp_cuda_toolkit_version",
    "wp_cuda_compile_program",
)  # functions that only sound as if they talked to one
FORWARDS, BACKWARDS, RANDOM = range(3)
DEFAULTS = {"late": 1, "order": RANDOM, "seed": 1, "pattern": 0xCD, "pause_each": 40, "processors": 1}
SCHEDULES = {
    "in order, at once": {"order": FORWARDS, "late": 0},
    "in order, late": {"order": FORWARDS, "late": 1},
    "backwards, at once": {"order": BACKWARDS, "late": 0},
    "backwards, late": {"order": BACKWARDS, "late": 1},
    "random, at once": {"order": RANDOM, "late": 0},
    "random, late": {"order": RANDOM, "late": 1},
}


class Device:
    """The pretended device of this process.

    Args:
        library: Path of the compiled `native/warp_functions.cpp`.
    """

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # kernels call it back
        self.library.pretended_number.restype = ctypes.POINTER(ctypes.c_long)
        self.library.pretended_refusal.restype = ctypes.c_char_p
        self.set(**DEFAULTS)

    def __getitem__(self, name: str) -> int:
        """Return a number: one that was chosen, or a count of what has been done."""
        return int(self.library.pretended_number(name.encode())[0])

    def set(self, **numbers: int) -> None:
        """Choose numbers; work that waits is done first, so all of it has the numbers that it was given with."""
        if wp._src.context.runtime is not None:
            wp.synchronize()
        for name, number in numbers.items():
            self.library.pretended_number(name.encode())[0] = number
        self.library.pretended_begin()

    @contextmanager
    def scheduled(self, **numbers: int) -> Iterator[None]:
        """Choose numbers for a while."""
        before = {name: self[name] for name in numbers}
        self.set(**numbers)
        try:
            yield
        finally:
            self.set(**before)

    @contextmanager
    def lost(self) -> Iterator[None]:
        """Refuse all work for a while, as a card after an error that ends its context, or that is gone."""
        state = self.library.pretended_number(b"lost")
        state[0] = 1
        try:
            yield
        finally:
            state[0] = 0


class Native:
    """Warp's native library with the functions of the pretended device in place of its own.

    Args:
        device: The device.
        warp: The library as it is.
    """

    def __init__(self, device: Device, warp: Any) -> None:
        self._device, self._warp = device, warp
        copy, fill = (ctypes.cast(one, ctypes.c_void_p) for one in (warp.wp_array_copy_host, warp.wp_array_fill_host))
        size = ctypes.c_size_t(ctypes.sizeof(wp._src.types.array_t))
        device.library.pretended_host_functions(copy, fill, size)
        self.wp_get_error_string = Function(self._error)

    def __getattr__(self, name: str) -> Any:
        """Return a function: the device's, or Warp's where it has nothing to do with CUDA."""
        found = getattr(self._device.library, name, None)
        if found is None:
            talks_to_cuda = (name.startswith("wp_cuda") or name.endswith("_device")) and name not in OF_NO_DEVICE
            found = Function(functools.partial(_missing, name)) if talks_to_cuda else getattr(self._warp, name)
        setattr(self, name, found)
        return found

    def _error(self) -> bytes:
        return self._device.library.pretended_refusal() or self._warp.wp_get_error_string()


class Function:
    """A function in the place of one of a library, which Warp gives types of arguments.

    Args:
        call: What it does.
    """

    def __init__(self, call: Any) -> None:
        self._call, self.argtypes, self.restype = call, None, None

    def __call__(self, *given: Any) -> Any:
        """Call it."""
        return self._call(*given)


def _missing(name: str, *given: Any) -> None:
    raise NotImplementedError(f"The pretended device has no {name}. Write it in tests/pretended_cuda/native.")


def build(folder: Path) -> Path:
    """Return the device's library; it is compiled where the folder lacks it."""
    library = folder / "pretended_device.so"
    if not library.exists():
        made = library.with_name(f"{library.name}.{os.getpid()}")
        compile_shared(NATIVE / "warp_functions.cpp", made, "-O2", "-Wno-psabi", "-ldl")
        made.replace(library)
    return library


def install(library: Path) -> Device:
    """Put the device into Warp, which must not have been started in this process; return it."""
    context = wp._src.context
    assert context.runtime is None
    found, load = Device(library), context.Runtime.load_dll

    def load_library(runtime: Any, path: Any) -> Any:
        loaded = load(runtime, path)
        return Native(found, loaded) if Path(str(path)).name == WARP_LIBRARY else loaded

    context.Runtime.load_dll = load_library
    wp._src.build.build_cuda = functools.partial(compile_module, folder=library.parent)
    return found

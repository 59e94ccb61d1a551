"""A CUDA device that is pretended on a CPU: what of this project runs on GPUs alone is run by tests without one.

`native/` has the functions of Warp's native library that talk to CUDA, over memory, threads and streams of a CPU;
`translation.py` compiles kernels. Both go into a Warp that has not been started, in a process of its own: `plugin.py`.
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import warp as wp

from tests.pretended_cuda.translation import NATIVE, compile_module, compile_shared

WARP_LIBRARY = "warp.so"
OF_NO_DEVICE = ("wp_cuda_toolkit_version", "wp_cuda_compile_program")  # they only sound as if they talked to one
ORDERS = ("in order", "backwards", "random")
DEFAULTS = {"late": 1, "order": 2, "seed": 1, "pattern": 0xCD, "pause_each": 40, "processors": 1}
SCHEDULES = {
    f"{word}, {when}": {"order": order, "late": late}
    for order, word in enumerate(ORDERS)
    for late, when in enumerate(("at once", "late"))
}


class Device:
    """The pretended device of this process, made of the compiled `native/warp_functions.cpp`."""

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
        if wp._src.context.runtime is not None and not self["lost"]:
            wp.synchronize()
        for name, number in numbers.items():
            self.library.pretended_number(name.encode())[0] = number
        self.library.pretended_begin()

    @contextmanager
    def scheduled(self, **numbers: int) -> Iterator[None]:
        before = {name: self[name] for name in numbers}
        self.set(**numbers)
        try:
            yield
        finally:
            self.set(**before)

    def lost(self) -> AbstractContextManager[None]:
        """Refuse all work for a while, as a card after an error that ends its context, or that is gone."""
        return self.scheduled(lost=1)


class Native:
    """Warp's native library with the functions of the pretended device in place of its own."""

    def __init__(self, device: Device, warp: Any) -> None:
        self._device, self._warp = device, warp
        copy, fill = (ctypes.cast(one, ctypes.c_void_p) for one in (warp.wp_array_copy_host, warp.wp_array_fill_host))
        size = ctypes.c_size_t(ctypes.sizeof(wp._src.types.array_t))
        device.library.pretended_host_functions(copy, fill, size)
        self.wp_get_error_string = functools.partial(self._error)  # to which Warp can give types of arguments

    def __getattr__(self, name: str) -> Any:
        """Return a function: the device's, or Warp's where it has nothing to do with CUDA."""
        found = getattr(self._device.library, name, None)
        if found is None:
            talks_to_cuda = (name.startswith("wp_cuda") or name.endswith("_device")) and name not in OF_NO_DEVICE
            found = functools.partial(_missing, name) if talks_to_cuda else getattr(self._warp, name)
        setattr(self, name, found)
        return found

    def _error(self) -> bytes:
        return self._device.library.pretended_refusal() or self._warp.wp_get_error_string()


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

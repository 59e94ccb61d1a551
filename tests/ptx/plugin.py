"""pytest plugin: the pretended device, with kernels that NVRTC has compiled to PTX and `translator.py` to C++."""

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import warp as wp

from tests.kept_code import NO_MATTER, compiled_anew, kept_folder, processor
from tests.ptx.translator import translate

pytest_plugins = ["tests.pretended_cuda.plugin"]
HERE = Path(__file__).parent
NVRTC = wp._src.build.build_cuda  # before the device takes its place
FLAGS = ("-Og", "-march=native", "-ffp-contract=off")  # PTX says itself what is fused
_changes: list[Callable[[str], str]] = []


def compile_module(source: str, architecture: int, output: str, **settings: object) -> None:
    """Compile a module: CUDA -> PTX -> C++ -> code of this machine; in the place of Warp's compiler for CUDA.

    Args:
        source: Path of the text that Warp wrote.
        architecture: Of the device.
        output: Path where the code belongs.
        settings: Of Warp's compiler.
    """
    from tests.pretended_cuda.translation import NATIVE, compile_shared

    text = functools.reduce(lambda ptx, change: change(ptx), _changes, _ptx(source, architecture, output, settings))
    code = Path(output).with_suffix(".cpp")
    code.write_text(translate(text))
    compile_shared(code, Path(output), *FLAGS, f"-I{HERE}", f"-I{NATIVE}")


def _ptx(source: str, architecture: int, output: str, settings: dict[str, object]) -> str:
    """PTX of a module, kept beside its code for modules with a fault."""
    from tests.pretended_cuda.plugin import FOLDER

    chosen = sorted((name, value) for name, value in settings.items() if name not in NO_MATTER)
    digest = hashlib.sha256(f"{architecture} {chosen}".encode() + Path(source).read_bytes())
    kept = Path(os.environ[FOLDER]) / "ptx" / f"{digest.hexdigest()[:32]}.ptx"
    if not kept.exists():
        made = f"{output}.ptx"
        NVRTC(source, architecture, made, **settings)
        kept.parent.mkdir(exist_ok=True)
        Path(made).replace(kept)
    return kept.read_text()


@contextmanager
def changed(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Iterator[None]:
    """Put a fault into the PTX of modules that are compiled from here on; it must find its place in one of them."""
    found = 0

    def change(ptx: str) -> str:
        nonlocal found
        text, count = re.subn(pattern, replacement, ptx)
        found += count
        return text

    _changes.append(change)
    try:
        with compiled_anew():
            yield
        assert found, f"Nothing in the compiled modules is {pattern!r}."
    finally:
        _changes.remove(change)


def ptx_folder() -> Path:
    """Return the folder of the device, PTX and kernels."""
    from tests.pretended_cuda.plugin import device_folder

    sources = (HERE / "ptx.h", *(HERE / f"{name}.py" for name in ("translator", "instructions", "plugin")))
    return device_folder(kept_folder(), processor(), "ptx", sources)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Take the place of the compiler of the pretended device."""
    wp._src.build.build_cuda = compile_module

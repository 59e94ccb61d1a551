"""Code that tests compile, kept across processes and runs: equal sources and settings give equal code.

Kept is what would be compiled anew each time: code for GPUs, and objects of exports, which Warp makes in temporary
folders. Kernels of this machine have Warp's own cache, and are kept here only for tests that begin with an empty one.
The folder is beside that cache; what is older than two weeks is removed.
"""

import datetime
import functools
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import warp as wp

FOLDERS = 2  # of the latest weeks
NO_MATTER = ("pch_dir", "use_precompiled_headers")  # settings that change no code
COMPILERS = wp._src.build
COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)  # Warp writes the files of functions: another clone has others
NUMBERED = re.compile(r"\b(?:adj_)?([A-Za-z_]\w*)_\d+\b")  # Warp numbers functions as they are made in a process
CPU_INFO = Path("/proc/cpuinfo")


@functools.cache
def kept_folder() -> Path:
    wp.init()
    beside = Path(str(wp.config.kernel_cache_dir)).parent
    year, week, _ = datetime.date.today().isocalendar()
    folder = beside / f"tests-{year}-{week:02}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in sorted(beside.glob("tests-*"))[:-FOLDERS]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


@contextmanager
def code_is_kept(folder: Callable[[], Path] = kept_folder, *, kernels: bool = False) -> Iterator[None]:
    """Have Warp's compilers give what they gave before, for kernels of this machine too where that is asked for."""
    build_cuda, build_cpu = COMPILERS.build_cuda, COMPILERS.build_cpu

    def cuda(source: str, architecture: int, output: str, **settings: object) -> None:
        key = _key(source, output, architecture, settings)
        _keep(folder() / key, Path(output), lambda: build_cuda(source, architecture, output, **settings))

    def cpu(output: str, source: str, **settings: object) -> None:
        if settings["enable_tiles_in_stack_memory"] and not kernels:
            build_cpu(output, source, **settings)
        else:
            _keep(
                folder() / _key(source, output, processor(), settings),
                Path(output),
                lambda: build_cpu(output, source, **settings),
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPILERS, "build_cuda", cuda)
        patch.setattr(COMPILERS, "build_cpu", cpu)
        yield


@contextmanager
def compiled_anew() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}._keep", lambda kept, output, build: build())
        yield


def _key(source: str, output: str, target: object, settings: dict[str, object]) -> str:
    settings = {name: value for name, value in settings.items() if name not in NO_MATTER}
    given = (wp.config.version, Path(output).suffix, target, sorted(settings.items()))
    return hashlib.sha256(repr(given).encode() + renumbered(Path(source).read_text()).encode()).hexdigest()


def renumbered(source: str) -> str:
    """The source without comments, with functions numbered as they first appear, whatever the process made before."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        if match[1] not in wp._src.context.function_key_counts:
            return match[0]
        return names.setdefault(match[0], f"{match[1]}_#{len(names)}")

    return NUMBERED.sub(rename, COMMENT.sub("", source))


def _keep(kept: Path, output: Path, build: Callable[[], None]) -> None:
    if kept.exists():
        shutil.copyfile(kept, output)
        return
    build()
    made = kept.with_name(f"{kept.name}-{os.getpid()}")
    shutil.copyfile(output, made)
    made.replace(kept)


@functools.cache
def processor() -> str:
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")

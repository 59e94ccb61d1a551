"""Findings about a machine: versions, processor, GPUs, kernel cache; each with a reason where it fails."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import warp as wp
from rich.table import Table

from ik_service.cli.console import output_console
from ik_service.kernels import kernel_cache
from ik_service.solver.construction import is_gpu_expected, resolve_device, why_no_gpu
from objectives.errors import IKError

PACKAGES = ("ik-service", "warp-lang", "numpy", "fastapi", "mujoco", "viser", "torch", "jax", "pyarrow")
LEVELS = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}  # by the flag of the processor
MEGA, GIGA = 1e6, 1e9


def print_findings() -> bool:
    """Print the findings; return whether a solve can run."""
    table, sound = Table(box=None, show_header=False, pad_edge=False), True
    for name, (is_sound, text) in _findings():
        table.add_row(name, "ok" if is_sound else "[red]fails[/red]", text)
        sound &= is_sound
    output_console().print(table)
    return sound


def _findings() -> Iterator[tuple[str, tuple[bool, str]]]:
    yield "Python", (True, f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield "packages", (True, ", ".join(_versions()))
    yield "processor", (True, f"{len(os.sched_getaffinity(0))} cores for this process, {_level()}")
    try:
        yield "GPU", _gpus()
        yield "kernel cache", _cache()
    except (IKError, OSError) as error:
        yield "kernel cache", (False, str(error))


def _versions() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def _level() -> str:
    info = Path("/proc/cpuinfo")
    flags = info.read_text(errors="replace").split() if info.exists() else []
    return next((level for flag, level in LEVELS.items() if flag in flags), "no vector instructions known")


def _gpus() -> tuple[bool, str]:
    """Return the GPUs; without one solves run on the CPU, which is a failure where a GPU is to be expected."""
    if not resolve_device("auto").is_cuda:
        reason = why_no_gpu() if is_gpu_expected() else None
        return reason is None, reason or "none: solves run on the CPU"
    return True, "; ".join(
        f"{one.name}, {one.total_memory / GIGA:.0f} GB ({one.alias})" for one in wp.get_cuda_devices()
    )


def _cache() -> tuple[bool, str]:
    folder = kernel_cache.folder()
    kernel_cache.check_cache()
    sizes = [one.stat().st_size for one in kernel_cache.entries(folder) if one.is_file(follow_symlinks=False)]
    modules = sum(1 for _ in folder.glob("wp_*"))
    told = f"'{folder}': {modules} modules, {sum(sizes) / MEGA:.0f} MB"
    if os.access(folder, os.W_OK):
        return True, told
    return modules > 0, f"{told}, read-only: missing code cannot be compiled. WARP_CACHE_PATH names another folder."

"""The kernels of a solve on a GPU, compiled into the cache where a process with that GPU will look for them.

No GPU is needed. The modules are those of a solve on any device, and the islands those of `thread_kernel`; each with
the size of block that it is launched with, which is part of its key in the cache.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import warp as wp

from ik_service.solver.intake import SOLVE_EXTRAS
from ik_service.solver.kernel_loading import cached_files
from ik_service.solver.shipped_kernels import note_gpu_code
from ik_service.solver.solver import IKSolver
from ik_service.solver.waves import BLOCK, WAVES

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""One for each generation that Warp compiles for; each serves later minor versions too, but Warp looks for its own."""
LAUNCH_BLOCK = 256  # of launches that ask for none


def gpu_modules(solver: IKSolver, *, orientations: bool = True, polished: bool = False) -> dict[Any, int]:
    """Return the modules that a solve on a GPU loads, each with its size of block.

    Args:
        solver: A solver of pose targets by the compiled engine, on any device.
        orientations: Whether targets have orientations, or are positions alone.
        polished: Whether what `precision="float64"`, `best_of` and `solutions` need is among them.

    Raises:
        EngineError: The islands are too large for a GPU; the staged engine solves there.
    """
    recorded = solver.recorded(orientations=orientations, for_gpus=True, polished=polished)
    found: dict[Any, int] = {WAVES: LAUNCH_BLOCK}
    for step in recorded.steps:
        found[step.kernel.module] = BLOCK if step.phase == "solve" else LAUNCH_BLOCK
    return found | ({SOLVE_EXTRAS: LAUNCH_BLOCK} if polished else {})


def compile_for_gpus(modules: Mapping[Any, int], architectures: Sequence[int]) -> list[Path]:
    """Compile modules into the cache: for each architecture, and PTX of the lowest for all others above it.

    Args:
        modules: Modules with their sizes of block.
        architectures: Such as 90 for compute capability 9.0.

    Returns:
        The files that were not there before.
    """
    ptx = min(architectures)
    work = [(module, block, number) for module, block in modules.items() for number in (*architectures, None)]

    def compile_one(module: Any, block: int, number: int | None) -> Path | None:
        (path,) = wp.compile_aot_module(module, arch=ptx if number is None else number, use_ptx=number is None)
        return path

    for module, block in modules.items():
        module.options["block_dim"] = block  # what it is compiled with where nothing else is said
        module.get_module_hash()
    before = cached_files()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), "ik-compiler") as executor:
        made = [path for path in executor.map(lambda one: compile_one(*one), work) if path is not None]
    note_gpu_code(architectures, ptx)
    return [path for path in made if path not in before]

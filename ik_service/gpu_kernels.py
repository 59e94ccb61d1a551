"""Compilation of the kernels of a solve for GPUs, into the cache used by processes with such a GPU.

No GPU is needed. The modules are the modules of a solve on any device, and the islands of `thread_kernel`; each module
with its launch block size, which is part of its key in the cache.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ik_service.ik_solver import IKSolver
from ik_service.kernels.kernel_cache import note_gpu_code
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, CachedModule, compile_together
from ik_service.solver.arrays.parts import SOLVE_BRANCHES, SOLVE_EXTRAS
from ik_service.solver.compiled.waves import KEEP_BLOCK, WAVE_BLOCK_DIM, WAVES

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""One for each generation that Warp compiles for; each serves later minor versions too, but Warp looks for its own."""


def gpu_modules(solver: IKSolver, *, orientations: bool = True, float64_finish: bool = False) -> dict[Any, int]:
    """Return the modules loaded by a solve on a GPU, each with its block size, for a compiled solver of any device.

    With `float64_finish` also the modules for `precision="float64"`, `best_of` and `solutions`. EngineError if the
    islands are too large for a GPU: the staged engine solves there.
    """
    float64_finish = float64_finish or bool(solver.robot.every_constraint)
    found: dict[Any, int] = {WAVES: KEEP_BLOCK, SOLVE_EXTRAS: LAUNCH_BLOCK, SOLVE_BRANCHES: LAUNCH_BLOCK}
    for collision in (False, True) if solver.robot.collision_model is not None else (False,):
        recorded = solver.recorded(
            orientations=orientations, for_gpus=True, float64_finish=float64_finish, collision=collision
        )
        for step in recorded.steps:
            is_wave = step.phase == "solve" and not step.per_problem
            found[step.kernel.module] = WAVE_BLOCK_DIM if is_wave else LAUNCH_BLOCK
    return found


def compile_for_gpus(modules: Mapping[Any, int], architectures: Sequence[int]) -> list[Path]:
    """Compile modules, each with its block size, into the cache, and return the new files.

    For each architecture, such as 90 for compute capability 9.0; and PTX of the lowest for all higher architectures.
    """
    ptx = min(architectures)
    work = [
        CachedModule(module, block, None, number, use_ptx)
        for module, block in modules.items()
        for number, use_ptx in (*((number, False) for number in architectures), (ptx, True))
    ]
    missing = [one for one in work if not one.is_whole()]
    compile_together(missing)
    note_gpu_code(architectures, ptx)
    return [one.path for one in missing]

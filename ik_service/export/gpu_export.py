"""A solver for GPUs as C: cubins with its kernels, and a source that launches them through the CUDA driver."""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import warp as wp

from ik_service.errors import EngineError
from ik_service.export.call_frame import FrameArray, indented
from ik_service.export.export_files import Export
from ik_service.export.gpu_frame import CONSTANT_ALIGNMENT, GpuConstants, GpuFrame
from ik_service.export.objects import compile_cubins
from ik_service.export.solve_entry import GIVEN, solve_words
from ik_service.export.structs import CLayout
from ik_service.export.template_files import filled
from ik_service.export.words import TAG, checked_prefix, robot_words, tag_of
from ik_service.gpu_kernels import ARCHITECTURES
from ik_service.ik_solver import IKSolver
from ik_service.solver.arrays.kernel_modules import SOLVE_IO
from ik_service.solver.compiled.waves import (
    KEEP_BLOCK,
    THREADS_PER_SM,
    TURNS,
    WAVE_ATTEMPTS_MAX,
    WAVE_BLOCK_DIM,
    WAVES,
    AttemptStorage,
    allocate_storage,
    keep_best,
)
from ik_service.solver.launches.recorded_launches import RecordedStep
from objectives import InputError

STORAGE_PROBES = 2  # problems and seeds of the storage that only its shapes are wanted of


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _count_up(every_out: wp.array[wp.int32]):
    p = wp.tid()
    every_out[p] = p


class GpuSolve:
    """The function `PREFIX_solve` on a GPU.

    Args:
        solver: The solver.
        orientations: Whether targets have orientations, or are positions alone.

    Attributes:
        recorded: Its launches, those of an island once, however many waves it takes.
        modules: The kernels, by the names of their modules.
    """

    def __init__(self, solver: IKSolver, *, orientations: bool = True) -> None:
        if solver.robot.every_constraint:
            raise EngineError("Code for GPUs is exported for robots without constraints.")
        self.orientations = orientations
        recorded = solver.recorded(orientations=orientations, for_gpus=True, collision=False)
        islands = [step for step in recorded.steps if step.phase == "solve"]
        self._storage, self._arrays = _storage(islands)
        steps = [RecordedStep("read", _count_up, (recorded.lines["every"],), True)]
        for step in recorded.steps:
            steps += self._waves(step, islands.index(step)) if step.phase == "solve" else [step]
        self.recorded = replace(recorded, steps=tuple(steps))
        self.island_count = len(islands)
        self.modules: dict[str, list[wp.Kernel]] = {"io": [], "waves": []}
        for step in steps:
            if any(step.kernel in kernels for kernels in self.modules.values()):
                continue
            name = f"island_{len(self.modules) - 2}"
            if step.kernel.module is SOLVE_IO:
                name = "io"
            elif step.kernel.module is WAVES or step.kernel is _count_up:
                name = "waves"
            self.modules.setdefault(name, []).append(step.kernel)

    def _waves(self, step: RecordedStep, island: int) -> list[RecordedStep]:
        """The launches of a wave."""
        task, wave = step.arguments[0], "f->wave"
        arguments = (task, wave, self._storage)
        return [
            RecordedStep(f"solve_{island}", step.kernel, arguments, False, "(size_t)f->busy", WAVE_BLOCK_DIM),
            RecordedStep(f"keep_{island}", keep_best, arguments, False, "(size_t)f->wave.lookers", KEEP_BLOCK),
        ]

    def symbols(self, prefix: str, tag: str) -> dict[wp.Kernel, str]:
        """Return the names of the kernels, module by module."""
        of_islands = [name for name in self.modules if name.startswith("island")]
        found = {}
        for name, kernels in self.modules.items():
            for kernel in kernels:
                found[kernel] = f"{prefix}_{tag}_{name if name in of_islands else kernel.key.strip('_')}"
        return found

    def frame(
        self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: GpuConstants
    ) -> tuple[GpuFrame, list[str]]:
        """Return the frame, and its members besides arrays."""
        frame = GpuFrame("solve", self.recorded, symbols, layout, constants, self._arrays)
        members = ["gpu_call call;", "char *device_numbers;", f"{layout.prefix}_Wave wave;"]
        return frame, [*members, "int32_t busy;", "size_t rows, blocks;"]


def export_for_gpus(
    solver: IKSolver,
    *,
    prefix: str | None = None,
    orientations: bool = True,
    architectures: Sequence[int] = ARCHITECTURES,
) -> Export:
    """Return the C files that solve on a GPU what a solver solves. This needs no GPU.

    Args:
        solver: A solver of pose targets by the compiled engine, on any device.
        prefix: What all names begin with, a C identifier in lower case; None takes the robot's name and `_gpu`.
        orientations: Whether targets have orientations, or are positions alone.
        architectures: For which to compile, such as 90 for compute capability 9.0 and later minor versions.

    Raises:
        InputError: The prefix is no identifier, or an architecture is not one that Warp compiles for.
        EngineError: The solver cannot be exported, or its islands are too large for a GPU.
    """
    prefix = checked_prefix(solver.robot, prefix, "_gpu")
    known = set(wp.get_cuda_supported_archs())
    for architecture in architectures:
        if architecture not in known:
            raise InputError(f"Architecture {architecture} is not known. Allowed: {sorted(known)}.")
    entry = GpuSolve(solver, orientations=orientations)
    draft = _gpu_texts(solver, entry, prefix, TAG, architectures)[0]
    tag = tag_of(entry.recorded.steps, draft)
    texts, layout = _gpu_texts(solver, entry, prefix, tag, architectures)
    files = {name: text.encode() for name, text in texts.items()}
    symbols = entry.symbols(prefix, tag)
    for name, kernels in entry.modules.items():
        cubins = compile_cubins(f"{prefix}_{name}", {symbols[kernel]: kernel for kernel in kernels}, architectures)
        files |= {f"{prefix}_{name}.sm{architecture}.cubin": cubin for architecture, cubin in cubins.items()}
    return Export(prefix, (), layout, files)


def _storage(islands: Sequence[RecordedStep]) -> tuple[Any, dict[str, FrameArray]]:
    """Storage of the attempts, large enough for each of the islands, and its arrays."""
    device = wp.get_device("cpu")
    coordinates = max(step.arguments[0].coordinate.shape[0] for step in islands)
    data = max(2 * step.arguments[0].dof.shape[0] + step.arguments[0].source.shape[0] + 1 for step in islands)
    storage = allocate_storage(device, coordinates, data, STORAGE_PROBES, STORAGE_PROBES * STORAGE_PROBES)
    shapes: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(AttemptStorage.__annotations__, ("f->rows",)),
        "joint_q": (str(coordinates), "f->rows"),
        "data": ("f->blocks",),
        "listed": (str(TURNS), "n"),
        **dict.fromkeys(("next_row", "listed_count", "first_seed"), ()),
    }
    return storage, {f"storage_{name}": FrameArray(getattr(storage, name), shape) for name, shape in shapes.items()}


def _gpu_texts(
    solver: IKSolver, entry: GpuSolve, prefix: str, tag: str, architectures: Sequence[int]
) -> tuple[dict[str, str], CLayout]:
    """All files that are texts, and the structs in the source."""
    layout, constants, symbols = CLayout(prefix), GpuConstants(), entry.symbols(prefix, tag)
    frame, members = entry.frame(symbols, layout, constants)
    functions = frame.source(GIVEN, members)
    words = robot_words(solver.robot, prefix, tag) | solve_words(
        solver, prefix, entry.recorded, orientations=entry.orientations
    )
    phases = ("solve", "keep")
    islands = [[frame.functions(f"{phase}_{k}")[0] for phase in phases] for k in range(entry.island_count)]
    size = f"(sizeof(solve_numbers) + {CONSTANT_ALIGNMENT - 1}) / {CONSTANT_ALIGNMENT} * {CONSTANT_ALIGNMENT}"
    numbers = f"#define NUMBERS_SIZE ({size})"
    words |= {
        "made_for": f"GPUs of compute capability {', '.join(f'{a // 10}.{a % 10}' for a in architectures)}",
        "memory": filled("gpu/memory.h", words),
        "modules": len(entry.modules),
        "kernels": len(symbols),
        "module_names": ",\n".join(f'    "{prefix}_{name}"' for name in entry.modules),
        "module_counts": ", ".join(str(len(kernels)) for kernels in entry.modules.values()),
        "kernel_names": ",\n".join(f'    "{symbol}_cuda_kernel_forward"' for symbol in symbols.values()),
        "architectures": ", ".join(map(str, architectures)),
        "layouts": layout.declarations(),
        "constants": constants.definitions(),
        "constants_size": constants.size,
        "uploads": "\n".join(indented(constants.uploads())),
        "threads_per_processor": THREADS_PER_SM,
        "block": WAVE_BLOCK_DIM,
        "rows_max": WAVE_ATTEMPTS_MAX,
        "turns": TURNS,
        "take": filled("frame/take.c", {}),
        "read": "\n".join(indented(frame.calls("read"))),
        "islands": "\n".join(indented([f"solve_island(&f, {', '.join(names)});" for names in islands])),
        "judge": "\n".join(indented(frame.calls("judge"))),
    }
    words["entries"] = "\n\n".join(filled(name, words) for name in ("gpu/types.h", "solve/types.h", "gpu/functions.h"))
    words["functions"] = "\n\n".join([functions, numbers, filled("solve/checks.c", words)])
    words["solve"] = filled("gpu/solve.c", words)
    names = {f"{prefix}_ik.h": "header.h", f"{prefix}_ik.c": "gpu/source.c"}
    names |= {"CMakeLists.txt": "gpu/CMakeLists.txt", "README.md": "gpu/README.md"}
    return {name: filled(template, words) + "\n" for name, template in names.items()}, layout

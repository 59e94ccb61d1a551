"""A solver as C: a header, a source, objects with its kernels, an example."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import warp as wp

from ik_service.compiler import cpu_target
from ik_service.export.c_layout import CLayout
from ik_service.export.c_values import Constants, c_string
from ik_service.export.example import EXAMPLE, example_problems
from ik_service.export.objects import KernelObject, compile_object
from ik_service.export.solve_source import RESULTS, SolveSource
from ik_service.export.texts import CMAKE, HEADER, README, SOURCE, c_comment
from ik_service.solver import IKSolver, IKStatus
from ik_service.solver.options import ITERATIONS_MAX, SEEDS_MAX
from ik_service.solver.recorded_solve import RecordedSolve
from ik_service.solver.solver import DEFAULT_SEEDS
from objectives import InputError

PROBLEM_COUNT = 1000  # in the file of the example
TAG = "@tag@"  # stands in the source for a hash of all of it
TAG_DIGITS = 8


@dataclass(frozen=True)
class Export:
    """The files of an export.

    Attributes:
        prefix: What all names begin with.
        objects: The objects.
        layout: The structs in the source.
        files: All files by their names.
    """

    prefix: str
    objects: tuple[KernelObject, ...]
    layout: CLayout
    files: dict[str, bytes]

    def write(self, folder: Path) -> None:
        """Write the files.

        Args:
            folder: Where to; made if it is not there.

        Raises:
            InputError: They cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in self.files.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise InputError(f"Cannot write to '{folder}': {error.strerror}.") from error


def export_solver(solver: IKSolver, *, prefix: str | None = None, problem_count: int = PROBLEM_COUNT) -> Export:
    """Return the C files that solve what a solver solves, with the same bytes as answers.

    Args:
        solver: A solver of pose targets by the compiled engine on a CPU. Its options become the defaults in C, those of
            `joint_limits` are fixed. Its code is of the level of CPUs that IK_SERVICE_CPU_TARGET names.
        prefix: What all names begin with, a C identifier in lower case; None takes the robot's name.
        problem_count: Targets in the file of the example.

    Raises:
        InputError: The prefix is no identifier.
        EngineError: The solver is staged, has objectives besides its targets, or data for every problem.
    """
    prefix = _prefix(solver, prefix)
    recorded = solver.recorded()
    draft = HEADER.substitute(_names(solver, prefix, TAG, [])) + _source(solver, recorded, prefix, TAG)[0]
    tag = _tag(recorded, draft)
    source, layout = _source(solver, recorded, prefix, tag)
    objects = tuple(_objects(recorded, prefix, tag))
    names = _names(solver, prefix, tag, [f"{one.name}.o" for one in objects])
    texts = {
        f"{prefix}_ik.h": HEADER.substitute(names),
        f"{prefix}_ik.c": source,
        "example.c": EXAMPLE.substitute(names),
        "CMakeLists.txt": CMAKE.substitute(names),
        "README.md": README.substitute(names),
    }
    files = {name: text.encode() for name, text in texts.items()}
    files |= {f"{one.name}.o": one.content for one in objects}
    files["problems.bin"] = example_problems(solver, problem_count)
    return Export(prefix, objects, layout, files)


def _prefix(solver: IKSolver, prefix: str | None) -> str:
    if prefix is None:
        prefix = re.sub(r"[^a-z0-9]+", "_", solver.robot.name.lower()).strip("_")
        prefix = prefix if prefix[:1].isalpha() else f"robot_{prefix}"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise InputError(f"The prefix is {prefix!r}. Allowed: lower-case letters, digits and _, a letter first.")
    return prefix


def _symbols(recorded: RecordedSolve, prefix: str, tag: str) -> dict[wp.Kernel, str]:
    """Names of the kernels in the objects."""
    found: dict[wp.Kernel, str] = {}
    islands = 0
    for step in recorded.steps:
        if step.kernel not in found:
            name = f"island_{islands}" if step.phase == "solve" else step.kernel.key.strip("_")
            islands += step.phase == "solve"
            found[step.kernel] = f"{prefix}_{tag}_{name}"
    return found


def _objects(recorded: RecordedSolve, prefix: str, tag: str) -> Iterator[KernelObject]:
    """Compile the kernels: those of the islands, and those before and after, which have other module options."""
    symbols = _symbols(recorded, prefix, tag)
    of_islands = {step.kernel for step in recorded.steps if step.phase == "solve"}
    for name, wanted in (("io", False), ("islands", True)):
        kernels = {symbol: kernel for kernel, symbol in symbols.items() if (kernel in of_islands) == wanted}
        yield compile_object(f"{prefix}_{name}", prefix, kernels)


def _source(solver: IKSolver, recorded: RecordedSolve, prefix: str, tag: str) -> tuple[str, CLayout]:
    """The shim, and the structs in it."""
    layout, constants = CLayout(prefix), Constants()
    symbols = _symbols(recorded, prefix, tag)
    solve = SolveSource(recorded, prefix, symbols, layout, constants).text
    kernels = [
        f"void {symbol}_cpu_forward({prefix}_bounds *bounds, {symbol}_arguments *arguments);"
        for symbol in symbols.values()
    ]
    names = _names(solver, prefix, tag, [])
    names |= {"layouts": layout.declarations(), "kernels": "\n".join(kernels)}
    names |= {"constants": constants.definitions(), "solve": solve}
    names["names"] = ",\n".join(f"    {c_string(name)}" for name in solver.robot.coordinate_names)
    return SOURCE.substitute(names), layout


def _tag(recorded: RecordedSolve, texts: str) -> str:
    """What tells this export from others: a hash of its texts and of what its kernels are made from."""
    parts = [texts, wp.__version__, *(str(step.kernel.module.options["cpu_compiler_flags"]) for step in recorded.steps)]
    digest = hashlib.sha256("\0".join(parts).encode())
    for step in recorded.steps:
        digest.update(step.kernel.hash or b"")
    return digest.hexdigest()[:TAG_DIGITS]


def _names(solver: IKSolver, prefix: str, tag: str, objects: Sequence[str]) -> dict[str, object]:
    """What the texts tell of a solver."""
    robot, options, PREFIX = solver.robot, solver.options, prefix.upper()
    types = {"joint_q": "float", "success": "uint8_t", "status": "int8_t", "cost": "float", "active_limits": "uint8_t"}
    types |= {"position_error": "double", "orientation_error": "double"}
    results = [f"    {types.get(name, 'int32_t')} *{name}; /* {text} */" for name, text in RESULTS.items()]
    relative = any(target.reference_link for target in solver.targets)
    return {
        "prefix": prefix,
        "PREFIX": PREFIX,
        "tag": tag,
        "robot": c_comment(robot.name),
        "links": c_comment(", ".join(target.link for target in solver.targets)),
        "version": version("ik-service"),
        "warp": wp.__version__,
        "cpu_target": cpu_target().name,
        "targets": len(solver.targets),
        "coordinates": robot.joint_coord_count,
        "dofs": robot.joint_dof_count,
        "reference": ", or of the target's reference link" if relative else "",
        "statuses": ",\n".join(f"    {PREFIX}_{status.name} = {status.value}" for status in IKStatus),
        "seeds_max": SEEDS_MAX,
        "iterations_max": ITERATIONS_MAX,
        "seeds": options.seeds if options.seeds is not None else DEFAULT_SEEDS,
        "max_iterations": options.max_iterations,
        "random_seed": f"{options.random_seed}u",
        "position_tolerance": repr(options.position_tolerance),
        "orientation_tolerance": repr(options.orientation_tolerance),
        "results": "\n".join(results),
        "objects": " ".join(objects),
        "object_list": ", ".join(f"`{name}`" for name in objects),
    }

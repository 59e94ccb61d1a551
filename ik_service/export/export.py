"""A solver as C: a header, a source, objects with its kernels, an example."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import warp as wp

from ik_service.compiler import cpu_target
from ik_service.export.c_layout import CLayout
from ik_service.export.c_values import Constants, c_string
from ik_service.export.example import EXAMPLE, example_problems
from ik_service.export.frame import TAKE
from ik_service.export.objects import KernelObject, compile_object
from ik_service.export.solve_entry import SolveEntry
from ik_service.export.texts import CMAKE, HEADER, README, SOURCE, c_comment
from ik_service.solver import IKSolver
from ik_service.solver.intake import SOLVE_IO
from ik_service.solver.recorded_launches import RecordedLaunches, RecordedStep
from objectives import InputError

PROBLEM_COUNT = 1000  # in the file of the example
TAG = "@tag@"  # stands in the source for a hash of all of it
TAG_DIGITS = 8
MEMORY = """Nothing here allocates memory, throws, locks, or keeps anything between calls: calls in several threads at
 * once need no more than workspaces and results of their own."""
OBJECTS = {"io": True, "islands": False}
"""Names of the objects, and whether they hold kernels of all solves."""


class Entry(Protocol):
    """A function that an export offers.

    Attributes:
        name: What names of its kernels hold.
        recorded: Its launches.
    """

    name: str
    recorded: RecordedLaunches

    def header(self) -> str:
        """Return its part of the header."""
        ...

    def source(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> str:
        """Return its source, but for the declarations of structs and constants."""
        ...


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


def export_solver(
    solver: IKSolver, *, prefix: str | None = None, orientations: bool = True, problem_count: int = PROBLEM_COUNT
) -> Export:
    """Return the C files that solve what a solver solves, with the same bytes as answers.

    Args:
        solver: A solver of pose targets by the compiled engine on a CPU. Its options become the defaults in C, those of
            `joint_limits` are fixed. Its code is of the level of CPUs that IK_SERVICE_CPU_TARGET names.
        prefix: What all names begin with, a C identifier in lower case; None takes the robot's name.
        orientations: Whether targets have orientations, or are positions alone.
        problem_count: Targets in the file of the example.

    Raises:
        InputError: The prefix is no identifier.
        EngineError: The solver is staged, has objectives besides its targets, or data for every problem.
    """
    prefix = checked_prefix(solver, prefix)
    entries: list[Entry] = [SolveEntry(solver, prefix, orientations=orientations)]
    draft = _texts(solver, prefix, TAG, entries, orientations)[0]
    tag = tag_of([step for entry in entries for step in entry.recorded.steps], draft)
    texts, layout = _texts(solver, prefix, tag, entries, orientations)
    objects = tuple(_objects(_symbols(entries, prefix, tag), prefix))
    files = {name: text.encode() for name, text in texts.items()}
    files |= {f"{one.name}.o": one.content for one in objects}
    files["problems.bin"] = example_problems(solver, problem_count, orientations=orientations)
    return Export(prefix, objects, layout, files)


def checked_prefix(solver: IKSolver, prefix: str | None, end: str = "") -> str:
    """Return what names begin with.

    Args:
        solver: The solver.
        prefix: As asked for; None takes the robot's name and the end.
        end: What comes after the name.

    Raises:
        InputError: It is no identifier in lower case.
    """
    if prefix is None:
        prefix = re.sub(r"[^a-z0-9]+", "_", solver.robot.name.lower()).strip("_")
        prefix = (prefix if prefix[:1].isalpha() else f"robot_{prefix}") + end
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise InputError(f"The prefix is {prefix!r}. Allowed: lower-case letters, digits and _, a letter first.")
    return prefix


def _symbols(entries: Sequence[Entry], prefix: str, tag: str) -> dict[wp.Kernel, str]:
    """Names of the kernels in the objects."""
    found: dict[wp.Kernel, str] = {}
    for entry in entries:
        for step in entry.recorded.steps:
            key = step.kernel.key.strip("_") if step.kernel.module is SOLVE_IO else f"{entry.name}_{len(found)}"
            found.setdefault(step.kernel, f"{prefix}_{tag}_{key}")
    return found


def _objects(symbols: Mapping[wp.Kernel, str], prefix: str) -> Iterator[KernelObject]:
    """Compile the kernels: those of all solves, and those made for islands, which have other module options."""
    for name, wanted in OBJECTS.items():
        kernels = {symbol: kernel for kernel, symbol in symbols.items() if (kernel.module is SOLVE_IO) == wanted}
        yield compile_object(f"{prefix}_{name}", prefix, kernels)


def _texts(
    solver: IKSolver, prefix: str, tag: str, entries: Sequence[Entry], orientations: bool
) -> tuple[dict[str, str], CLayout]:
    """All files that are texts, and the structs in the source."""
    layout, constants, symbols = CLayout(prefix), Constants(), _symbols(entries, prefix, tag)
    functions = [entry.source(symbols, layout, constants) for entry in entries]
    kernels = [
        f"void {symbol}_cpu_forward({prefix}_bounds *bounds, {symbol}_arguments *arguments);"
        for symbol in symbols.values()
    ]
    objects = [f"{prefix}_{name}.o" for name in OBJECTS]
    names = solver_words(solver, prefix, tag, orientations=orientations) | {
        "made_for": f"CPUs of level {cpu_target().name}",
        "memory": MEMORY,
        "entries": "\n".join(entry.header() for entry in entries),
        "layouts": layout.declarations(),
        "kernels": "\n".join(kernels),
        "constants": constants.definitions(),
        "functions": "\n\n".join([TAKE, *functions]),
        "objects": " ".join(objects),
        "object_list": ", ".join(f"`{name}`" for name in objects),
    }
    templates = {
        f"{prefix}_ik.h": HEADER,
        f"{prefix}_ik.c": SOURCE,
        "example.c": EXAMPLE,
        "CMakeLists.txt": CMAKE,
        "README.md": README,
    }
    return {name: template.substitute(names) for name, template in templates.items()}, layout


def solver_words(solver: IKSolver, prefix: str, tag: str, *, orientations: bool) -> dict[str, object]:
    """Return what all texts tell of a solver.

    Args:
        solver: The solver.
        prefix: What all names begin with.
        tag: What tells the export from others.
        orientations: Whether targets have orientations.
    """
    robot = solver.robot
    return {
        "prefix": prefix,
        "PREFIX": prefix.upper(),
        "tag": tag,
        "robot": c_comment(robot.name),
        "links": c_comment(", ".join(target.link for target in solver.targets)),
        "version": version("ik-service"),
        "warp": wp.__version__,
        "targets": len(solver.targets),
        "orientations": int(orientations),
        "coordinates": robot.joint_coord_count,
        "dofs": robot.joint_dof_count,
        "names": ",\n".join(f"    {c_string(name)}" for name in robot.coordinate_names),
    }


def tag_of(steps: Sequence[RecordedStep], texts: Mapping[str, str]) -> str:
    """Return what tells an export from others: a hash of its texts and of what its kernels are made from.

    Args:
        steps: Its launches.
        texts: Its texts, with `TAG` where they hold what this returns.
    """
    kernels = [step.kernel for step in steps]
    parts = [*texts.values(), wp.__version__, *(str(kernel.module.options["cpu_compiler_flags"]) for kernel in kernels)]
    digest = hashlib.sha256("\0".join(parts).encode())
    for kernel in kernels:
        digest.update(kernel.hash or b"")
    return digest.hexdigest()[:TAG_DIGITS]

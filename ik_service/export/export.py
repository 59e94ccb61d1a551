"""Solvers and controllers as C: a header, a source, objects with the kernels, examples."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import warp as wp

from ik_service.compiler import cpu_target
from ik_service.control import IKController
from ik_service.export.c_code.objects import KernelObject, compile_object
from ik_service.export.c_code.structs import CLayout
from ik_service.export.c_code.values import Constants, c_string
from ik_service.export.entries.solve_entry import SolveEntry
from ik_service.export.entries.tick_entry import TickEntry
from ik_service.export.texts.files import CMAKE, HEADER, README, SOURCE, c_comment
from ik_service.robots import RobotModel
from ik_service.solver import IKSolver, IKStatus
from ik_service.solver.problems.input_kernels import SOLVE_IO
from ik_service.solver.recorded_launches import RecordedLaunches, RecordedStep
from objectives import InputError

PROBLEM_COUNT = 1000  # in the file of the example
TICK_COUNT = 2000
TAG = "@tag@"  # stands in the source for a hash of all of it
TAG_DIGITS = 8
MEMORY = """Nothing here allocates memory, throws, locks, or keeps anything of its own between calls: calls in several
 * threads at once need no more than workspaces, controllers and results of their own."""


class Entry(Protocol):
    """Functions that an export offers.

    Attributes:
        name: What names of its kernels hold.
        recorded: Its launches.
        objects: Names of its objects.
        prologue: What comes before all includes of the source.
        example: Name of the example program, and of the file that it reads.
        advice: What a host should know, as a list.
    """

    name: str
    recorded: RecordedLaunches
    objects: tuple[str, ...]
    prologue: str
    example: tuple[str, str]
    advice: str

    def object_of(self, kernel: wp.Kernel) -> str:
        """Return the name of the object that holds a kernel."""
        ...

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source but for the declarations of structs and constants."""
        ...

    def example_files(self, words: Mapping[str, object]) -> dict[str, bytes]:
        """Return the example program and what it reads."""
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

    def __repr__(self) -> str:
        """Say what the files are called and how many they are; their contents are long."""
        return f"<Export '{self.prefix}': {len(self.files)} files, {sum(map(len, self.files.values()))} bytes>"

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
    solver: IKSolver,
    *,
    controller: IKController | None = None,
    prefix: str | None = None,
    orientations: bool = True,
    problem_count: int = PROBLEM_COUNT,
    tick_count: int = TICK_COUNT,
) -> Export:
    """Return the C files that solve what a solver solves, with the same bytes as answers.

    Args:
        solver: A solver of pose targets by the compiled engine on a CPU. Its options become the defaults in C, those of
            `joint_limits` are fixed. Its code is of the level of CPUs that IK_SERVICE_CPU_TARGET names.
        controller: A controller of the same robot that goes into the same files, as from `export_controller`.
        prefix: What all names begin with, a C identifier in lower case; None takes the robot's name.
        orientations: Whether targets have orientations, or are positions alone.
        problem_count: Targets in the file of the solver's example.
        tick_count: Ticks in the file of the controller's example.

    Raises:
        InputError: The prefix is no identifier, or solver and controller have different robots.
        EngineError: The solver is staged, has objectives besides its targets, or data for every problem; or the
            controller cannot be exported.
    """
    robot, prefix = solver.robot, checked_prefix(solver.robot, prefix)
    entries: list[Entry] = [SolveEntry(solver, prefix, orientations=orientations, problem_count=problem_count)]
    if controller is not None:
        if controller.robot is not robot:
            raise InputError("Solver and controller have different robots. Allowed: the same one.")
        entries.append(TickEntry(controller, prefix, tick_count=tick_count))
    return _export(robot, prefix, entries)


def export_controller(controller: IKController, *, prefix: str | None = None, tick_count: int = TICK_COUNT) -> Export:
    """Return the C files that take a robot through ticks as a controller does, with the same bytes as commands.

    Args:
        controller: A controller on a CPU. Its limits, tolerances, posture and weights become defaults in C, where they
            may be changed; which rows it has, and for how many robots, is fixed.
        prefix: What all names begin with, a C identifier in lower case; None takes the robot's name.
        tick_count: Ticks in the file of the example.

    Raises:
        InputError: The prefix is no identifier.
        EngineError: The controller is on a GPU, moves nothing, or has an order of joints or quaternions of its own.
    """
    prefix = checked_prefix(controller.robot, prefix)
    return _export(controller.robot, prefix, [TickEntry(controller, prefix, tick_count=tick_count)])


def checked_prefix(robot: RobotModel, prefix: str | None, end: str = "") -> str:
    """Return what names begin with.

    Args:
        robot: The robot.
        prefix: As asked for; None takes the robot's name and the end.
        end: What comes after the name.

    Raises:
        InputError: It is no identifier in lower case.
    """
    if prefix is None:
        prefix = re.sub(r"[^a-z0-9]+", "_", robot.name.lower()).strip("_")
        prefix = (prefix if prefix[:1].isalpha() else f"robot_{prefix}") + end
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise InputError(f"The prefix is {prefix!r}. Allowed: lower-case letters, digits and _, a letter first.")
    return prefix


def _export(robot: RobotModel, prefix: str, entries: Sequence[Entry]) -> Export:
    draft = _texts(robot, prefix, TAG, entries)[0]
    tag = tag_of([step for entry in entries for step in entry.recorded.steps], draft)
    texts, layout = _texts(robot, prefix, tag, entries)
    objects = tuple(_objects(entries, _symbols(entries, prefix, tag), prefix))
    files = {name: text.encode() for name, text in texts.items()}
    files |= {f"{one.name}.o": one.content for one in objects}
    words = robot_words(robot, prefix, tag)
    for entry in entries:
        files |= entry.example_files(words)
    return Export(prefix, objects, layout, files)


def _symbols(entries: Sequence[Entry], prefix: str, tag: str) -> dict[wp.Kernel, str]:
    """Names of the kernels in the objects."""
    found: dict[wp.Kernel, str] = {}
    for entry in entries:
        for step in entry.recorded.steps:
            key = step.kernel.key.strip("_") if step.kernel.module is SOLVE_IO else f"{entry.name}_{len(found)}"
            found.setdefault(step.kernel, f"{prefix}_{tag}_{key}")
    return found


def _objects(entries: Sequence[Entry], symbols: Mapping[wp.Kernel, str], prefix: str) -> Iterator[KernelObject]:
    """Compile the kernels; those of an object have the same module options."""
    for entry in entries:
        for name in entry.objects:
            own = {step.kernel for step in entry.recorded.steps if entry.object_of(step.kernel) == name}
            kernels = {symbol: kernel for kernel, symbol in symbols.items() if kernel in own}
            yield compile_object(f"{prefix}_{name}", prefix, kernels)


def _texts(robot: RobotModel, prefix: str, tag: str, entries: Sequence[Entry]) -> tuple[dict[str, str], CLayout]:
    """All files that are texts but for the examples, and the structs in the source."""
    layout, constants, symbols = CLayout(prefix), Constants(), _symbols(entries, prefix, tag)
    texts = [entry.texts(symbols, layout, constants) for entry in entries]
    kernels = [
        f"void {symbol}_cpu_forward({prefix}_bounds *bounds, {symbol}_arguments *arguments);"
        for symbol in symbols.values()
    ]
    objects = [f"{prefix}_{name}.o" for entry in entries for name in entry.objects]
    words = robot_words(robot, prefix, tag) | {
        "made_for": f"CPUs of level {cpu_target().name}",
        "memory": MEMORY,
        "prologue": "".join(entry.prologue for entry in entries),
        "entries": "\n".join(header for header, _ in texts),
        "layouts": layout.declarations(),
        "kernels": "\n".join(kernels),
        "constants": constants.definitions(),
        "functions": "\n\n".join(source for _, source in texts),
        "objects": " ".join(objects),
        "object_list": ", ".join(f"`{name}`" for name in objects),
        "advice": "\n".join(entry.advice for entry in entries),
        **_example_words(prefix, objects, [entry.example for entry in entries]),
    }
    templates = {f"{prefix}_ik.h": HEADER, f"{prefix}_ik.c": SOURCE, "CMakeLists.txt": CMAKE, "README.md": README}
    return {name: template.substitute(words) for name, template in templates.items()}, layout


def _example_words(prefix: str, objects: Sequence[str], examples: Sequence[tuple[str, str]]) -> dict[str, str]:
    """What texts tell of the example programs."""
    targets = [
        f"add_executable({prefix}_{program} {program}.c)\ntarget_link_libraries({prefix}_{program} PRIVATE {prefix}_ik)"
        for program, _ in examples
    ]
    sources = f"{prefix}_ik.c {' '.join(objects)} -lm"
    commands = [f"    cc -O2 {program}.c {sources} -o {program} && ./{program} {data}" for program, data in examples]
    told = "a program that repeats what is stored, compares the answers with those of Python and measures"
    return {
        "examples": "\n".join(targets),
        "example_rows": "\n".join(f"| `{program}.c`, `{data}` | {told} |" for program, data in examples),
        "example_commands": "\n".join(commands),
        "example_runs": "".join(f" && build/{prefix}_{program} {data}" for program, data in examples),
    }


def robot_words(robot: RobotModel, prefix: str, tag: str) -> dict[str, object]:
    """Return what all texts tell of a robot.

    Args:
        robot: The robot.
        prefix: What all names begin with.
        tag: What tells the export from others.
    """
    PREFIX = prefix.upper()
    return {
        "prefix": prefix,
        "PREFIX": PREFIX,
        "tag": tag,
        "robot": c_comment(robot.name),
        "version": version("ik-service"),
        "warp": wp.__version__,
        "coordinates": robot.joint_coord_count,
        "dofs": robot.joint_dof_count,
        "names": ",\n".join(f"    {c_string(name)}" for name in robot.coordinate_names),
        "statuses": ",\n".join(f"    {PREFIX}_{status.name} = {status.value}" for status in IKStatus),
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

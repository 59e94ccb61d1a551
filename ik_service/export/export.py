"""Solvers and controllers as C: a header, a source, objects with the kernels, examples; and words for the templates."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import warp as wp

from ik_service.compiler import cpu_target
from ik_service.control import IKController
from ik_service.export.objects import KernelObject, compile_object
from ik_service.export.solve_entry import SolveEntry, joint_q_type
from ik_service.export.tick_entry import EXAMPLE_DT, TickEntry
from ik_service.export.values import CLayout, Constants, c_comment, c_string, filled
from ik_service.ik_solver import IKSolver
from ik_service.robots import RobotModel, World
from ik_service.solver.arrays.parts import SOLVE_IO
from ik_service.solver.lm.status import IKStatus
from objectives import InputError

TAG = "@tag@"  # placeholder in the source for the hash of the source
TAG_DIGITS = 8


def checked_prefix(robot: RobotModel, prefix: str | None) -> str:
    """Return the prefix of all names, by default from the robot's name; InputError for an invalid identifier."""
    if prefix is None:
        prefix = re.sub(r"[^a-z0-9]+", "_", robot.name.lower()).strip("_")
        prefix = prefix if prefix[:1].isalpha() else f"robot_{prefix}"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise InputError(f"The prefix is {prefix!r}. Allowed: lower-case letters, digits and _, a letter first.")
    return prefix


def robot_words(robot: RobotModel, prefix: str, tag: str) -> dict[str, object]:
    """Give words of all templates about a robot."""
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


def tag_of(kernels: Sequence[wp.Kernel], texts: Mapping[str, str]) -> str:
    """Return the tag of an export: a hash of its texts, which contain `TAG`, and of its kernels."""
    parts = [*texts.values(), wp.__version__, *(str(kernel.module.options["cpu_compiler_flags"]) for kernel in kernels)]
    digest = hashlib.sha256("\0".join(parts).encode())
    for kernel in kernels:
        digest.update(kernel.hash or b"")
    return digest.hexdigest()[:TAG_DIGITS]


EXAMPLE_PROBLEMS = 1000  # in the file of the example
EXAMPLE_TICKS = 2000


@dataclass(frozen=True)
class Export:
    """The files of an export.

    Attributes:
        prefix: Prefix of all names.
        objects: Objects with the kernels.
        layout: Structs in the source.
        files: All files by name.
    """

    prefix: str
    objects: tuple[KernelObject, ...]
    layout: CLayout
    files: dict[str, bytes]

    def __repr__(self) -> str:
        """Give prefix, number and size of the files, without their contents."""
        return f"<Export '{self.prefix}': {len(self.files)} files, {sum(map(len, self.files.values()))} bytes>"

    def write(self, folder: str | Path) -> None:
        """Write the files into a folder, made if missing; InputError if the files cannot be written."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in self.files.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise InputError(f"Cannot write to '{folder}': {error.strerror}.") from error


ExportedFunction: TypeAlias = SolveEntry | TickEntry
Functions: TypeAlias = Sequence[ExportedFunction]


def export_solver(
    solver: IKSolver,
    *,
    controller: IKController | None = None,
    prefix: str | None = None,
    orientations: bool = True,
    world: World | None = None,
    problem_count: int = EXAMPLE_PROBLEMS,
    tick_count: int = EXAMPLE_TICKS,
) -> Export:
    """Return C files that solve like a solver, with byte-identical answers.

    C checks answers for collision if the solver does, but does not recombine islands in contact with each other: their
    status is `blocked_by_collision`.

    Args:
        solver: A solver of pose targets by the compiled engine on a CPU. Its options become the defaults in C, except
            `best_of`, `solutions`, `precision`, `sampler` and `deadline_s`, missing in C; `joint_limits` and
            `collision` are fixed. IK_SERVICE_CPU_TARGET sets the CPU level of the code.
        controller: A controller of the same robot for the same files, as in `export_controller`.
        prefix: Prefix of all names, a C identifier in lower case; None takes the robot's name.
        orientations: Targets have orientations, or else only positions.
        world: Obstacles for collision checks, fixed in C; None for none.
        problem_count: Targets in the file of the solver's example.
        tick_count: Ticks in the file of the controller's example.

    Raises:
        InputError: The prefix is invalid, solver and controller have different robots, or a world is given for a robot
            without a collision model or leaves the robot next to no room.
        EngineError: The solver is staged, has objectives besides its targets, or has data per problem; or the
            controller cannot be exported.
    """
    robot, prefix = solver.robot, checked_prefix(solver.robot, prefix)
    entries: list[ExportedFunction] = [
        SolveEntry(solver, prefix, orientations=orientations, problem_count=problem_count, world=world)
    ]
    if controller is not None:
        if controller.robot is not robot:
            raise InputError("Solver and controller have different robots. Allowed: the same one.")
        entries.append(TickEntry(controller, prefix, tick_count=tick_count))
    return _export(robot, prefix, entries)


def export_controller(
    controller: IKController, *, prefix: str | None = None, tick_count: int = EXAMPLE_TICKS
) -> Export:
    """Return C files that take a robot through ticks like a controller, with byte-identical commands.

    Args:
        controller: A controller on a CPU. Its limits, tolerances, posture and weights become defaults in C and may be
            changed there; its rows and its number of robots are fixed.
        prefix: Prefix of all names, a C identifier in lower case; None takes the robot's name.
        tick_count: Ticks in the file of the example.

    Raises:
        InputError: The prefix is invalid.
        EngineError: The controller is on a GPU, moves nothing, or has its own joint order or quaternion order.
    """
    prefix = checked_prefix(controller.robot, prefix)
    return _export(controller.robot, prefix, [TickEntry(controller, prefix, tick_count=tick_count)])


def _export(robot: RobotModel, prefix: str, entries: Functions) -> Export:
    draft = _cpu_texts(robot, prefix, TAG, entries)[0]
    tag = tag_of([step.kernel for entry in entries for step in entry.recorded.steps], draft)
    texts, layout = _cpu_texts(robot, prefix, tag, entries)
    objects = tuple(_objects(entries, _symbols(entries, prefix, tag), prefix))
    files = {name: text.encode() for name, text in texts.items()}
    files |= {f"{one.name}.o": one.content for one in objects}
    words = robot_words(robot, prefix, tag) | {"dt": EXAMPLE_DT, "joint_q_type": joint_q_type(robot)}
    for entry in entries:
        template, program, data = entry.example
        files[f"{program}.c"] = (filled(template, words) + "\n").encode()
        files[data] = entry.example_data()
    return Export(prefix, objects, layout, files)


def _symbols(entries: Functions, prefix: str, tag: str) -> dict[wp.Kernel, str]:
    found: dict[wp.Kernel, str] = {}
    for entry in entries:
        for step in entry.recorded.steps:
            key = step.kernel.key.strip("_") if step.kernel.module is SOLVE_IO else f"{entry.name}_{len(found)}"
            found.setdefault(step.kernel, f"{prefix}_{tag}_{key}")
    return found


def _objects(entries: Functions, symbols: Mapping[wp.Kernel, str], prefix: str) -> Iterator[KernelObject]:
    """Compile the kernels; all kernels of an object have the same module options."""
    for entry in entries:
        for name in entry.objects:
            own = {step.kernel for step in entry.recorded.steps if entry.object_of(step.kernel) == name}
            kernels = {symbol: kernel for kernel, symbol in symbols.items() if kernel in own}
            yield compile_object(f"{prefix}_{name}", prefix, kernels)


def _cpu_texts(robot: RobotModel, prefix: str, tag: str, entries: Functions) -> tuple[dict[str, str], CLayout]:
    """Give all text files except the examples, and the structs in the source."""
    layout, constants, symbols = CLayout(prefix), Constants(), _symbols(entries, prefix, tag)
    texts = [entry.texts(symbols, layout, constants) for entry in entries]
    kernels = [
        f"void {symbol}_cpu_forward({prefix}_bounds *bounds, {symbol}_arguments *arguments);"
        for symbol in symbols.values()
    ]
    objects = [f"{prefix}_{name}.o" for entry in entries for name in entry.objects]
    words = robot_words(robot, prefix, tag) | {
        "made_for": f"CPUs of level {cpu_target().name}",
        "prologue": "".join(entry.prologue for entry in entries),
        "entries": "\n\n".join(header for header, _ in texts),
        "layouts": layout.declarations(),
        "kernels": "\n".join(kernels),
        "constants": constants.definitions(),
        "functions": "\n\n\n".join(source for _, source in texts),
        "objects": " ".join(objects),
        "object_list": ", ".join(f"`{name}`" for name in objects),
        "advice": "\n".join(entry.advice for entry in entries),
        **_example_words(prefix, objects, [entry.example[1:] for entry in entries]),
    }
    names = {f"{prefix}_ik.h": "header.h", f"{prefix}_ik.c": "source.c"}
    names |= {"CMakeLists.txt": "CMakeLists.txt", "README.md": "README.md"}
    return {name: filled(template, words) + "\n" for name, template in names.items()}, layout


def _example_words(prefix: str, objects: Sequence[str], examples: Sequence[tuple[str, str]]) -> dict[str, str]:
    targets = [
        f"add_executable({prefix}_{program} {program}.c)\ntarget_link_libraries({prefix}_{program} PRIVATE {prefix}_ik)"
        for program, _ in examples
    ]
    sources = f"{prefix}_ik.c {' '.join(objects)} -lm"
    commands = [f"    cc -O2 {program}.c {sources} -o {program} && ./{program} {data}" for program, data in examples]
    meaning = "a program that repeats what is stored, compares the answers with those of Python and measures"
    return {
        "examples": "\n".join(targets),
        "example_rows": "\n".join(f"| `{program}.c`, `{data}` | {meaning} |" for program, data in examples),
        "example_commands": "\n".join(commands),
        "example_runs": "".join(f" && build/{prefix}_{program} {data}" for program, data in examples),
    }

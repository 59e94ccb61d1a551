"""`ik-service export`: a robot's solver and controller as C."""

import os
from collections.abc import Sequence
from pathlib import Path

from ik_service.cli.console import message_console, output_console, progress_bar
from ik_service.compiler.code.lanes import CPU_VARIABLE, cpu_target, named_target, portable_target
from objectives.errors import InputError

ENTRIES = ("solve", "tick")
POSITION_ALONE = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)  # weights of rows


def write_export(
    name: str,
    links: Sequence[str],
    folder: Path,
    *,
    entries: Sequence[str],
    prefix: str | None,
    orientations: bool,
    target: str | None,
    world: Path | None,
    problem_count: int,
) -> None:
    """Write the files and print their names; other arguments are as in `export_solver`.

    `links` have a pose target each, by default the only leaf link. `entries` are of ENTRIES, empty for all. `target` is
    a CPU level; None takes IK_SERVICE_CPU_TARGET, else the portable level. InputError for a value that is not allowed;
    EngineError if islands are too large for the compiled engine.
    """
    use_cpu_target(target)
    # Import only now: these modules fix the CPU level of the process.
    from ik_service.cli.default_links import default_links
    from ik_service.control import IKController
    from ik_service.export import export_controller, export_solver
    from ik_service.ik_solver import IKSolver
    from ik_service.robots import load_robot, load_world
    from ik_service.solver.given.targets import Target

    robot = load_robot(name)
    links = default_links(robot, links)
    with progress_bar(f"Exporting {robot.name}"):
        controller = None
        if not entries or "tick" in entries:
            row_weights = None if orientations else POSITION_ALONE
            controller = IKController(robot, [Target(link, row_weights=row_weights) for link in links])
        if controller is not None and entries and "solve" not in entries:
            export = export_controller(controller, prefix=prefix)
        else:
            export = export_solver(
                IKSolver(robot, links, device="cpu", engine="compiled"),
                controller=controller,
                prefix=prefix,
                orientations=orientations,
                world=None if world is None else load_world(world),
                problem_count=problem_count,
            )
    export.write(folder)
    for file_name, content in sorted(export.files.items()):
        output_console().out(f"{folder / file_name} ({len(content)} bytes)", highlight=False)
    message_console().print(f"For CPUs of level {cpu_target().name}. See {folder / 'README.md'}.", markup=False)


def use_cpu_target(asked: str | None) -> None:
    """Make this process generate code for a CPU level; None takes IK_SERVICE_CPU_TARGET, else the portable level.

    InputError if this machine cannot run the level, or the process generates code for another level already.
    """
    try:
        wanted = named_target(asked or os.environ.get(CPU_VARIABLE) or portable_target().name)
    except InputError as error:
        if not asked:
            raise
        raise InputError(str(error).replace(CPU_VARIABLE, "--target", 1)) from error
    os.environ[CPU_VARIABLE] = wanted.name
    if cpu_target() != wanted:
        raise InputError(f"This process generates code for {cpu_target().name}. Export for {wanted.name} in a new one.")

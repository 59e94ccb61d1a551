"""`ik-service export`: a robot's solver and controller as C."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ik_service.cli.console import message_console, output_console, progress_bar
from ik_service.compiler.code.lanes import CPU_VARIABLE, cpu_target, named_target, portable_target
from objectives.errors import InputError

if TYPE_CHECKING:
    from ik_service.export import Export
    from ik_service.robots import RobotModel

ENTRIES = ("solve", "tick")
POSITION_ALONE = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)  # weights of rows


@dataclass(frozen=True)
class ExportJob:
    """An export to make."""

    robot: str  # built-in name or path
    links: tuple[str, ...]  # links with a pose target each; empty for the only leaf link
    folder: Path  # output folder
    entries: tuple[str, ...]  # entry points to export, of ENTRIES; empty for all
    prefix: str | None  # prefix of names in C; None takes the robot's name
    orientations: bool  # whether targets have orientations, or only positions
    target: str | None  # CPU level; None takes IK_SERVICE_CPU_TARGET, else the portable level
    world: Path | None  # file of a world with obstacles; None for none
    problem_count: int  # targets for the example program


def write_export(job: ExportJob) -> None:
    """Write the files and print their names.

    InputError for a value of the job that is not allowed; EngineError if islands are too large for the compiled engine.
    """
    use_cpu_target(job.target)
    # Import only now: these modules fix the CPU level of the process.
    from ik_service.cli.default_links import default_links
    from ik_service.robots import load_robot

    robot = load_robot(job.robot)
    links = default_links(robot, job.links)
    with progress_bar(f"Exporting {robot.name}"):
        export = _export(job, robot, links)
    export.write(job.folder)
    for name, content in sorted(export.files.items()):
        output_console().out(f"{job.folder / name} ({len(content)} bytes)", highlight=False)
    message_console().print(f"For CPUs of level {cpu_target().name}. See {job.folder / 'README.md'}.", markup=False)


def _export(job: ExportJob, robot: "RobotModel", links: tuple[str, ...]) -> "Export":
    from ik_service.control import IKController
    from ik_service.export import export_controller, export_solver
    from ik_service.ik_solver import IKSolver
    from ik_service.robots import load_world
    from ik_service.solver.given.targets import Target

    controller = None
    entries = job.entries or ENTRIES
    if "tick" in entries:
        row_weights = None if job.orientations else POSITION_ALONE
        controller = IKController(robot, [Target(link, row_weights=row_weights) for link in links])
    if controller is not None and "solve" not in entries:
        return export_controller(controller, prefix=job.prefix)
    return export_solver(
        IKSolver(robot, links, device="cpu", engine="compiled"),
        controller=controller,
        prefix=job.prefix,
        orientations=job.orientations,
        world=None if job.world is None else load_world(job.world),
        problem_count=job.problem_count,
    )


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

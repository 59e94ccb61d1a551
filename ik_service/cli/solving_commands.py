"""The command that solves, with its options. Imports are inside the functions, so help is fast."""

from pathlib import Path
from typing import Annotated

import typer

from ik_service.cli import solve_options
from ik_service.cli.console import reported_errors
from ik_service.cli.shared_options import DeviceOption, RobotArgument


def solve(
    robot: RobotArgument,
    targets: solve_options.Targets = None,
    *,
    link: solve_options.Link = None,
    output: solve_options.Output = None,
    random: solve_options.Random = None,
    seed: solve_options.Seed = None,
    seeds: solve_options.Seeds = None,
    max_iterations: Annotated[int | None, typer.Option(help="Iterations from one start.")] = None,
    position_tolerance: solve_options.PositionTolerance = None,
    orientation_tolerance: solve_options.OrientationTolerance = None,
    world: solve_options.World = None,
    collision: solve_options.Collision = None,
    margin: solve_options.Margin = None,
    repair: solve_options.Repair = None,
    joint_limits: solve_options.JointLimits = None,
    approximate: solve_options.Approximate = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="With --random: report as JSON.")] = False,
    ray: solve_options.Ray = None,
    workers: solve_options.Workers = None,
    result_format: solve_options.Format = None,
    column: solve_options.Column = None,
    part_rows: solve_options.PartRows = 1_048_576,
    mark_faulty: solve_options.MarkFaulty = False,
) -> None:
    """Solve a file of targets, files of millions of them into a folder, or random reachable ones."""
    with reported_errors():
        from ik_service.cli.bulk_command import BulkOptions, is_bulk, solve_bulk
        from ik_service.cli.solve_command import Job, solve_file, solve_random

        given = {
            "random_seed": seed,
            "seeds": seeds,
            "max_iterations": max_iterations,
            "position_tolerance": position_tolerance,
            "orientation_tolerance": orientation_tolerance,
            "collision": collision,
            "margin": margin,
            "repair": repair,
            "approximate": approximate,
        }
        options = {name: value for name, value in given.items() if value is not None}
        job = Job(robot, tuple(link or ()), device, options, world, tuple(joint_limits or ()))
        bulk = BulkOptions(ray, workers, result_format, tuple(column or ()), part_rows, mark_faulty)
        files, in_bulk = targets or [], is_bulk(targets or [], output, bulk)
        _check_form(files, output, random, in_bulk=in_bulk, as_json=as_json)
        if random is not None:
            solved = solve_random(job, random, seed or 0, as_json=as_json)
        elif in_bulk:
            for name, value in (("--world", world), ("--joint-limits", joint_limits)):
                if value:
                    raise typer.BadParameter(f"{name} does not go with bulk jobs.")
            solved = solve_bulk(job, files, output, bulk)
        else:
            solved = solve_file(job, files[0], output)
    raise typer.Exit(0 if solved else 1)


def _check_form(files: list[Path], output: Path | None, random: int | None, *, in_bulk: bool, as_json: bool) -> None:
    """Refuse options of the other form of the command: files of targets, or random targets."""
    if (not files) == (random is None):
        raise typer.BadParameter("Give either files of targets or --random N.")
    if random is not None and (output is not None or in_bulk):
        raise typer.BadParameter("--output goes with a file of targets; with --random use --json.")
    if random is None and as_json:
        raise typer.BadParameter("--json goes with --random; with a file of targets use --output OUT.json.")

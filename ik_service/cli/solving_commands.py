"""The command that solves, with its options. Imports are inside the functions, so help is fast."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ik_service.cli.console import reported_errors
from ik_service.cli.shared_options import DeviceOption, LinksOption, RobotArgument, WorldOption

_bulk_option = partial(typer.Option, rich_help_panel="Bulk jobs")


def solve(
    robot: RobotArgument,
    targets: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Targets: .csv (x,y,z,qx,qy,qz,qw), .npz (positions, orientations_xyzw) or .json (HTTP body). In a "
            "bulk job: .parquet or .npz, one or several."
        ),
    ] = None,
    *,
    link: LinksOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Results: .csv, .npz or .json, or a folder, which makes it a bulk job. Default: CSV on standard "
            "output.",
        ),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(min=1, help="Solve N random reachable targets and report, instead of a file."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**32 - 1, help="Seed of everything random. Default: that of a .json file, else 0."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Start configurations per problem. Default: the engine's own.")
    ] = None,
    max_iterations: Annotated[int | None, typer.Option(help="Iterations from one start.")] = None,
    position_tolerance: Annotated[float | None, typer.Option(help="Largest position error of a success \\[m].")] = None,
    orientation_tolerance: Annotated[
        float | None, typer.Option(help="Largest orientation error of a success \\[rad].")
    ] = None,
    world: WorldOption = None,
    collision: Annotated[
        str | None,
        typer.Option(
            help="self, world or off. Default: world where one is given, else self where the robot has a model."
        ),
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Least distance from contact of a success \\[m].")] = None,
    repair: Annotated[
        bool | None, typer.Option("--repair", help="Move answers in contact out of it, as far as tolerances allow.")
    ] = None,
    joint_limits: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOWER:UPPER",
            help="Limits of a joint within those of the robot and the file \\[rad or m]; may be repeated.",
        ),
    ] = None,
    approximate: Annotated[
        str | None,
        typer.Option(help="nearest: where a problem is not solved, the minimum to which its first start leads."),
    ] = None,
    criterion: Annotated[
        str | None,
        typer.Option(
            help="Choose the best of candidates, one for each group (columns group and cost of the file): first, "
            "nearest, clearance, manipulability or limit_margin."
        ),
    ] = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="With --random: report as JSON.")] = False,
    ray: Annotated[
        str | None,
        _bulk_option(
            metavar="ADDRESS",
            help="Bulk job on a Ray cluster: its address, auto for the one that runs here, local to start one. "
            "Default: in this process.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _bulk_option(
            min=1,
            help="With --ray: workers at most, each with a core or a GPU. Default: all that are free. Without: "
            "threads.",
        ),
    ] = None,
    result_format: Annotated[
        str | None,
        _bulk_option("--format", help="Of the results: parquet, which is the default, or npz."),
    ] = None,
    column: Annotated[
        list[str] | None,
        _bulk_option(
            help="Column to read: positions, orientations_xyzw, initial_joint_q; may be repeated. Others are passed "
            "over. Default: those that are there, and no others may be.",
        ),
    ] = None,
    part_rows: Annotated[
        int,
        _bulk_option(min=1, help="Most problems of a file of results; what is redone after an end."),
    ] = 1_048_576,
    mark_faulty: Annotated[
        bool,
        _bulk_option(
            "--mark-faulty",
            help="Give problems with numbers that are not allowed the status invalid. Default: their part fails.",
        ),
    ] = False,
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
        job = Job(robot, tuple(link or ()), device, options, world, tuple(joint_limits or ()), criterion)
        bulk = BulkOptions(ray, workers, result_format, tuple(column or ()), part_rows, mark_faulty)
        files, in_bulk = targets or [], is_bulk(targets or [], output, bulk)
        _check_form(files, output, random, in_bulk=in_bulk, as_json=as_json)
        if random is not None:
            solved = solve_random(job, random, seed or 0, as_json=as_json)
        elif in_bulk:
            for name, value in (("--world", world), ("--joint-limits", joint_limits), ("--criterion", criterion)):
                if value:
                    raise typer.BadParameter(f"{name} does not go with bulk jobs.")
            solved = solve_bulk(job, files, output, bulk)
        else:
            solved = solve_file(job, files[0], output)
    raise typer.Exit(0 if solved else 1)


def motion(
    context: typer.Context,
    robot: RobotArgument,
    targets: Annotated[Path, typer.Argument(help="Targets, a row each, as for 'solve': .csv, .npz or .json.")],
    *,
    dt: Annotated[float | None, typer.Option(help="Time from row to row \\[s].")] = None,
    velocity: Annotated[float | None, typer.Option(help="Largest speed of joints \\[rad/s or m/s].")] = None,
    acceleration: Annotated[float | None, typer.Option(help="Largest acceleration \\[rad/s^2 or m/s^2].")] = None,
    link: Annotated[str | None, typer.Option("--link", "-l", help="Link to move. Default: the only leaf.")] = None,
    world: WorldOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Motion: .csv, .npz or .json.")] = None,
    device: DeviceOption = "auto",
) -> None:
    """Fit a clip or follow a path, by the name of the command."""
    with reported_errors():
        from ik_service.cli.solve_command import Job, solve_file
        from ik_service.service.queue.solve_request import MotionCall

        given = {"dt": dt, "velocity": velocity, "acceleration": acceleration}
        own = {name: value for name, value in given.items() if value is not None}
        call = MotionCall("fit_clip" if context.info_name == "clip" else "follow", own)
        solved = solve_file(Job(robot, (link,) if link else (), device, {}, world, motion=call), targets, output)
    raise typer.Exit(0 if solved else 1)


def _check_form(files: list[Path], output: Path | None, random: int | None, *, in_bulk: bool, as_json: bool) -> None:
    """Refuse options of the other form of the command: files of targets, or random targets."""
    if (not files) == (random is None):
        raise typer.BadParameter("Give either files of targets or --random N.")
    if random is not None and (output is not None or in_bulk):
        raise typer.BadParameter("--output goes with a file of targets; with --random use --json.")
    if random is None and as_json:
        raise typer.BadParameter("--json goes with --random; with a file of targets use --output OUT.json.")

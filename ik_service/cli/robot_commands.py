"""The commands about a robot and collision, with their options. Imports are inside the functions, so help is fast."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ik_service.cli.console import reported_errors
from ik_service.cli.shared_options import DeviceOption, LinksOption, PositionOnlyOption, RobotArgument, WorldOption

ConfigurationsArgument = Annotated[
    list[str],
    typer.Argument(
        help="A .csv or .npz file of configurations, such as results of solve; or one configuration: its numbers, zero "
        "or middle (of the limits)."
    ),
]


def robots(
    name: Annotated[
        str | None, typer.Argument(help="A built-in robot, or a path to a file. Default: list them.")
    ] = None,
    *,
    tree: Annotated[bool, typer.Option("--tree", help="Draw the tree of joints and links.")] = False,
) -> None:
    """List the built-in robots, or show one."""
    with reported_errors():
        from ik_service.cli.robot_views import print_robot, print_robots, print_tree

        if name is None:
            if tree:
                raise typer.BadParameter("--tree needs the name of a robot.")
            print_robots()
        elif tree:
            print_tree(name)
        else:
            print_robot(name)


def islands(
    robot: RobotArgument,
    *,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="LINK[:REFERENCE_LINK]",
            help="Link with a target, seen from the world or from another link; may be repeated. Default: show the "
            "kinematic trees.",
        ),
    ] = None,
    lock: Annotated[
        list[str] | None,
        typer.Option("--lock", metavar="JOINT=VALUE", help="Hold a joint at a value \\[rad or m]; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which joints targets couple: each island is solved by itself."""
    with reported_errors():
        from ik_service.cli.islands_command import print_islands

        print_islands(robot, target or (), lock or (), as_json=as_json)


def constraints(
    robot: RobotArgument,
    *,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="JOINT=FIRST:LAST:STEP",
            help="Move a coordinate, of the tree or of a closing joint \\[rad or m], and close the loops at each step.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what closes the loops of a robot, and what drives it."""
    with reported_errors():
        from ik_service.cli.constraints_command import print_constraints, print_sweep

        if sweep is None:
            print_constraints(robot, as_json=as_json)
        else:
            print_sweep(robot, sweep, as_json=as_json)


def fk(
    robot: RobotArgument,
    configurations: ConfigurationsArgument,
    *,
    link: LinksOption = None,
) -> None:
    """Print the poses of links in configurations, as CSV."""
    with reported_errors():
        from ik_service.cli.check_command import print_poses

        print_poses(robot, configurations, link or ())


def check(
    robot: RobotArgument,
    configurations: ConfigurationsArgument,
    *,
    world: WorldOption = None,
) -> None:
    """Check configurations: joint limits, contact of the robot with itself and a world. Exit code 1 if one fails."""
    with reported_errors():
        from ik_service.cli.check_command import print_check

        sound = print_check(robot, configurations, world)
    raise typer.Exit(0 if sound else 1)


def warmup(
    robots: Annotated[
        list[str] | None, typer.Argument(metavar="[ROBOT]...", help="Built-in robots or paths. Default: all built in.")
    ] = None,
    *,
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link", "-l", help="Link with a target; several together. Default: each leaf link, then all of them."
        ),
    ] = None,
    position_only: PositionOnlyOption = False,
    float64: Annotated[
        bool, typer.Option("--float64", help='Also what precision="float64", best_of and solutions need.')
    ] = False,
    device: DeviceOption = "auto",
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER,...",
            help="With --device cuda: architectures to compile for, such as 80,90, of which none is needed here; and "
            "PTX of the lowest for others.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compile kernels for pose targets into the cache, so that later processes start at once."""
    with reported_errors():
        from ik_service.cli.warmup_command import WarmUpJob, print_warm_up

        numbers = [word.strip() for word in (arch or "").split(",") if word.strip()]
        if numbers and (device != "cuda" or not all(map(str.isdecimal, numbers))):
            raise typer.BadParameter("--arch goes with --device cuda, and is numbers such as 80,90.")
        architectures = tuple(map(int, numbers))
        job = WarmUpJob(robots or (), link or (), device, architectures, position_only=position_only, float64=float64)
        print_warm_up(job, as_json=as_json)


def export(
    robot: RobotArgument,
    *,
    link: LinksOption = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; made if it is not there.")],
    prefix: Annotated[
        str | None, typer.Option(help="What all names in C begin with. Default: the robot's name.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="CPUs to compile for: x86-64-v4, x86-64-v3, x86-64-v2, generic (64-bit Arm). Default: "
            "IK_SERVICE_CPU_TARGET, else the highest of this machine without AVX-512."
        ),
    ] = None,
    position_only: PositionOnlyOption = False,
    world: WorldOption = None,
    problems: Annotated[int, typer.Option(min=1, help="Random reachable targets for the example program.")] = 1000,
    entry: Annotated[
        list[str] | None,
        typer.Option(help="Function to write: solve, or tick of a controller; may be repeated. Default: both."),
    ] = None,
) -> None:
    """Write a solver and a controller for programs in C and C++: objects, header, source, examples."""
    with reported_errors():
        from ik_service.cli.export_command import ENTRIES, write_export

        if not set(entry or ()) <= set(ENTRIES):
            raise typer.BadParameter("--entry is solve or tick.")
        write_export(
            robot,
            link or (),
            output,
            entries=entry or (),
            prefix=prefix,
            orientations=not position_only,
            target=target,
            world=world,
            problem_count=problems,
        )


def bench(
    robot: RobotArgument,
    *,
    link: LinksOption = None,
    count: Annotated[int, typer.Option(min=1, help="Random reachable targets.")] = 10_000,
    batch: Annotated[int | None, typer.Option(min=1, help="Targets of a call. Default: all at once.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the targets.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to try. Default: one per core.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measurements of each figure.")] = 7,
    plot: Annotated[bool, typer.Option("--plot", help="Plot targets per second over the targets of a call.")] = False,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a robot on this machine: time per target, success, latency, threads."""
    with reported_errors():
        from ik_service.cli.bench_command import bench_robot

        plan = {"count": count, "batch": batch, "random_seed": seed, "threads": threads, "by_batch": plot}
        solved = bench_robot(robot, link or (), as_json=as_json, repeats=repeats, device=device, **plan)
    raise typer.Exit(0 if solved else 1)


def spheres(
    robot: RobotArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of spheres to write, such as NAME.collision.json.")
    ],
    per_link: Annotated[float, typer.Option(metavar="NUMBER", help="Spheres of a link, on average.")] = 12.0,
    fit: Annotated[
        Literal["balanced", "outer", "inner"],
        typer.Option(help="balanced, outer (links are inside their spheres) or inner (spheres are inside links)."),
    ] = "balanced",
    stands_out: Annotated[
        float | None,
        typer.Option(metavar="LENGTH", help=r"Instead: spheres proven to cover the links, standing out by this \[m]."),
    ] = None,
    looks_out: Annotated[
        float,
        typer.Option(metavar="LENGTH", help="With a covering: how far a link may look out of its spheres \\[m]."),
    ] = 0.0,
    package_dir: Annotated[
        list[Path] | None, typer.Option(help="Folder that has packages of package:// addresses; may be repeated.")
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(
            metavar="Q1,Q2,...",
            help="Configuration that is known to be free, or 'zero' or 'middle' (of the limits): pairs in contact "
            "there are left out; may be repeated.",
        ),
    ] = None,
) -> None:
    """Cover the links of a robot by spheres, and choose the pairs of links that are checked for collision."""
    with reported_errors():
        from ik_service.cli.spheres_command import SpheresJob, write_spheres

        folders, configurations = tuple(package_dir or ()), tuple(free or ())
        write_spheres(SpheresJob(robot, output, per_link, fit, stands_out, looks_out, folders, configurations))


def grid(
    mesh: Annotated[Path, typer.Argument(help="File of a mesh, in any format that trimesh reads.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, such as NAME.npz.")],
    spacing: Annotated[float, typer.Option(metavar="LENGTH", help=r"Between the nodes of the grid \[m].")] = 0.01,
    padding: Annotated[
        float, typer.Option(metavar="LENGTH", help=r"How far the grid goes beyond the mesh \[m].")
    ] = 0.1,
    scale: Annotated[float, typer.Option(metavar="NUMBER", help="Metres in a unit of the mesh.")] = 1.0,
) -> None:
    """Sample the signed distance from a mesh on a grid, an obstacle of any form for worlds."""
    with reported_errors():
        from ik_service.cli.grid_command import print_grid

        print_grid(mesh, output, spacing=spacing, padding=padding, scale=scale)

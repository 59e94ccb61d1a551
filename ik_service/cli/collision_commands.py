"""The commands about collision, with their options. Imports are inside the functions, so help is fast."""

from pathlib import Path
from typing import Annotated

import typer

from ik_service.cli.console import reported_errors
from ik_service.cli.shared_options import RobotArgument


def spheres(
    robot: RobotArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of spheres to write, such as NAME.collision.json.")
    ],
    stands_out: Annotated[
        float | None,
        typer.Option(
            metavar="LENGTH",
            help=r"By how much a sphere may stand out \[m]. Default: 15 % of the least width of a link.",
        ),
    ] = None,
    looks_out: Annotated[
        float,
        typer.Option(metavar="LENGTH", help="How far a link may look out of its spheres \\[m]; fewer are needed."),
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
    picture: Annotated[Path | None, typer.Option(help="SVG file to write: spheres over what they cover.")] = None,
) -> None:
    """Cover the links of a robot by spheres, and choose the pairs of links that are checked for collision."""
    with reported_errors():
        from ik_service.cli.spheres_command import SpheresJob, write_spheres

        folders, configurations = tuple(package_dir or ()), tuple(free or ())
        write_spheres(SpheresJob(robot, output, stands_out, looks_out, folders, configurations, picture))


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

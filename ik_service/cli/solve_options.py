"""The options of `ik-service solve`."""

from pathlib import Path
from typing import Annotated

import typer

Targets = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Targets: .csv (x,y,z,qx,qy,qz,qw), .npz (positions, orientations_xyzw) or .json (HTTP body). In a bulk "
        "job: .parquet or .npz, one or several."
    ),
]
Link = Annotated[
    list[str] | None,
    typer.Option("--link", "-l", help="Link that is to reach the targets. Default: the only leaf link."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Results: .csv, .npz or .json, or a folder, which makes it a bulk job. Default: CSV on standard output.",
    ),
]
Random = Annotated[
    int | None,
    typer.Option("--random", min=1, help="Solve N random reachable targets and report, instead of a file."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, max=2**32 - 1, help="Seed of everything random. Default: that of a .json file, else 0."
    ),
]
Seeds = Annotated[int | None, typer.Option(help="Start configurations per problem. Default: the engine's own.")]
PositionTolerance = Annotated[float | None, typer.Option(help="Largest position error of a success \\[m].")]
OrientationTolerance = Annotated[float | None, typer.Option(help="Largest orientation error of a success \\[rad].")]
World = Annotated[
    Path | None,
    typer.Option(help="Objects around the robot, a .json or .yaml file; the robot needs a collision model."),
]
Collision = Annotated[
    str | None,
    typer.Option(help="self, world or off. Default: world where one is given, else self where the robot has a model."),
]
Margin = Annotated[float | None, typer.Option(help="Least distance from contact of a success \\[m].")]
Repair = Annotated[
    bool | None, typer.Option("--repair", help="Move answers in contact out of it, as far as tolerances allow.")
]
JointLimits = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=LOWER:UPPER",
        help="Limits of a joint within those of the robot and the file \\[rad or m]; may be repeated.",
    ),
]
Approximate = Annotated[
    str | None,
    typer.Option(help="nearest: where a problem is not solved, the minimum to which its first start leads."),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Bulk job on a Ray cluster: its address, auto for the one that runs here, local to start one. Default: "
        "in this process.",
        rich_help_panel="Bulk jobs",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="With --ray: workers at most, each with a core or a GPU. Default: all that are free. Without: threads.",
        rich_help_panel="Bulk jobs",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="Of the results: parquet, which is the default, or npz.", rich_help_panel="Bulk jobs"
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to read: positions, orientations_xyzw, initial_joint_q; may be repeated. Others are passed over. "
        "Default: those that are there, and no others may be.",
        rich_help_panel="Bulk jobs",
    ),
]
PartRows = Annotated[
    int,
    typer.Option(
        min=1, help="Most problems of a file of results; what is redone after an end.", rich_help_panel="Bulk jobs"
    ),
]
MarkFaulty = Annotated[
    bool,
    typer.Option(
        "--mark-faulty",
        help="Give problems with numbers that are not allowed the status invalid. Default: their part fails.",
        rich_help_panel="Bulk jobs",
    ),
]

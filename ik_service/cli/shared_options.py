"""Arguments and options that several commands have."""

from typing import Annotated

import typer

RobotArgument = Annotated[str, typer.Argument(help="A built-in robot, or a path to a .urdf or MJCF .xml file.")]
PositionOnlyOption = Annotated[
    bool, typer.Option("--position-only", help="Targets are positions alone, without orientations.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, or one CUDA device such as cuda:1.")]

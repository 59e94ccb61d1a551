"""Arguments and options of several commands."""

from pathlib import Path
from typing import Annotated

import typer

RobotArgument = Annotated[str, typer.Argument(help="A built-in robot, or a path to a .urdf or MJCF .xml file.")]
LinksOption = Annotated[
    list[str] | None,
    typer.Option("--link", "-l", help="Link with a target, or to look at; may be repeated. Default: the leaf link."),
]
WorldOption = Annotated[Path | None, typer.Option(help="Objects around the robot, a .json or .yaml file.")]
PositionOnlyOption = Annotated[
    bool, typer.Option("--position-only", help="Targets are positions alone, without orientations.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, or one CUDA device such as cuda:1.")]


def _prefer_variable(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Warn of an API key on the command line, and return this key."""
    source = context.get_parameter_source(str(parameter.name))
    if source is not None and source.name == "COMMANDLINE":
        typer.echo("Every user of this machine can read --api-key; set IK_SERVICE_API_KEY instead.", err=True)
    return value


ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        envvar="IK_SERVICE_API_KEY", callback=_prefer_variable, help="Key of the service; better by variable."
    ),
]

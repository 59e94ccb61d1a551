"""The command line: the commands of all files, in the order of the help.

Exit codes: 0 if at least one problem was solved, 1 if none was or the service could not start, 2 for bad input.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ik_service.cli.console import print_versions, reported_output
from ik_service.cli.robot_commands import bench, check, constraints, export, fk, grid, islands, robots, spheres, warmup
from ik_service.cli.service_commands import config, doctor, health, openapi, page, serve, serve_with_options
from ik_service.cli.solving_commands import motion, solve


class CommandGroup(TyperGroup):
    """The commands; the options of `serve` are made on the first call, because loading the settings is slow."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command named by the arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, serve_with_options() if name == "serve" else command, rest


app = typer.Typer(
    name="ik-service",
    cls=CommandGroup,
    help="Batched inverse kinematics: robots and pose targets in, joint configurations out.",
    epilog="Exit codes: 0 solved, 1 nothing could be solved, 2 bad input.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)


def _version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the versions and end.")
    ] = False,
) -> None:
    """Batched inverse kinematics: robots and pose targets in, joint configurations out."""


def version() -> None:
    """Print the versions of this program and of what it stands on."""
    with reported_output():
        print_versions()


_PANELS = {
    "Solve": (solve, bench),
    "Robots": (robots, fk, check, islands, constraints, spheres, grid),
    "Service": (serve, page, config, health, openapi),
    "Machine and programs": (doctor, warmup, export, version),
}
_MOTIONS = {
    "clip": "Fit a recorded motion within limits of speed and acceleration.",
    "follow": "Follow a path of poses without jumps of the joints.",
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        numbers = {"ignore_unknown_options": _command in (fk, check)}  # a negative number is no option
        app.command(rich_help_panel=_panel, context_settings=numbers)(_command)
for _name, _help in _MOTIONS.items():
    app.command(_name, help=_help, rich_help_panel="Solve")(motion)

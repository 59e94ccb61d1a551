"""The commands about the service, with their options. Imports are inside the functions, so help is fast."""

from typing import Annotated, Any

import orjson
import typer

from ik_service.cli.console import reported_errors
from ik_service.cli.shared_options import ApiKeyOption, DeviceOption


def serve() -> None:
    """Serve the robots over HTTP and print a request to try."""
    # Only for the list of commands: `CommandGroup` of `app` replaces this command with the command with options.


def serve_with_options() -> Any:
    """Return the command `serve` with an option for every setting."""
    from ik_service.cli.setting_options import EPILOG, with_setting_options

    def run(**options: Any) -> None:
        with reported_errors():
            from ik_service.cli.serve import run_server

            run_server(**options)

    single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False, rich_markup_mode="rich")
    single.command("serve", help=serve.__doc__, epilog=EPILOG)(with_setting_options(run))
    return typer.main.get_command(single)


def config(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the settings of the service, and where each comes from."""
    with reported_errors():
        from ik_service.cli.setting_options import print_config

        print_config(as_json=as_json)


def health(
    url: Annotated[
        str | None,
        typer.Argument(help="Where the service listens, such as http://127.0.0.1:8000. Default: as the settings say."),
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live", help="Ask whether it lives, not whether it is ready.")] = False,
    timeout: Annotated[float, typer.Option(min=0.0, help=r"Longest time for the answer \[s].")] = 3.0,
) -> None:
    """Tell whether a running service is ready, for containers and supervisors: exit code 0, else 1."""
    from ik_service.cli.health_command import print_health

    raise typer.Exit(0 if print_health(url, live=live, timeout_s=timeout) else 1)


def doctor() -> None:
    """Check this machine: versions, processor, GPUs, kernel cache. Exit code 0 if a solve can run, else 1."""
    with reported_errors():
        from ik_service.cli.doctor import print_findings

        if not print_findings():
            raise typer.Exit(1)


def page(
    robot: Annotated[
        str | None, typer.Argument(help="Robot to begin with, or a path to a .urdf or MJCF .xml file. Default: panda.")
    ] = None,
    *,
    url: Annotated[
        str | None, typer.Option(help="Service that solves, such as http://127.0.0.1:8000. Default: this process.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is a free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on; whoever reaches it may use the page.")] = "127.0.0.1",
    dark: Annotated[bool, typer.Option("--dark", help="Begin dark.")] = False,
    device: DeviceOption = "auto",
    api_key: ApiKeyOption = None,
) -> None:
    """Show a page on which targets are dragged and the robot follows."""
    with reported_errors():
        from ik_service.cli.page_command import run_page

        run_page(robot, url=url, host=host, port=port, is_dark=dark, device=device, api_key=api_key)


def openapi() -> None:
    """Print the OpenAPI document of the service."""
    with reported_errors():
        from ik_service.service import create_app
        from ik_service.settings import ServiceSettings

        document = create_app(ServiceSettings(insecure=True)).openapi()  # opens no port
        # sorted, so versions can be compared
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))

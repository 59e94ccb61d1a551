"""`ik-service page`: a page with draggable targets and a robot that follows."""

import signal
import threading
from contextlib import closing

import typer

from ik_service.cli.console import message_console
from ik_service.robots import builtin_robot_names

DEFAULT_ROBOT = "panda"
ENDING = (signal.SIGINT, signal.SIGTERM)


def run_page(
    robot: str | None,
    *,
    url: str | None,
    host: str,
    port: int,
    is_dark: bool,
    device: str,
    api_key: str | None,
    says: bool = True,
) -> None:
    """Serve the page at an address until interrupted; `says` prints the address.

    The first robot is built in, or a path to a file. A service at `url` solves, with its API key; without one, solvers
    of this process on a device. PageError if the service does not answer, the robot does not exist, or the address
    cannot be used; RobotFileError or UnknownNameError for the file of a robot.
    """
    try:
        from ik_service.page import LocalSolving, Page, RemoteSolving
    except ModuleNotFoundError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
    is_file = url is None and robot is not None and robot not in builtin_robot_names()
    solving = RemoteSolving(url, api_key) if url is not None else LocalSolving(device, robot if is_file else None)
    first = DEFAULT_ROBOT if robot is None and DEFAULT_ROBOT in solving.robots else robot
    ended = threading.Event()
    with closing(solving), Page(solving, None if is_file else first, host=host, port=port, is_dark=is_dark) as page:

        def end(*_: object) -> None:
            for number in ENDING:
                signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
            ended.set()

        for number in ENDING:
            signal.signal(number, end)
        if says:
            message_console().print(f"The page is at {page.url} - stop with Ctrl+C.", markup=False)
        ended.wait()

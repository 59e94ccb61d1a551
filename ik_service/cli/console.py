"""Output of the command line: results on standard output, progress and errors on standard error, plain when piped."""

import errno
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PIPED_WIDTH = 160  # columns of a table that goes into a pipe or a file, where no terminal says how wide it is
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def output_console() -> Console:
    """Return the console for results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)


def print_json(document: object) -> None:
    """Print a document as indented JSON, without line breaks at the terminal width."""
    output_console().out(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode(), highlight=False)


def message_console() -> Console:
    """Return the console for progress and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def reported_errors() -> Iterator[None]:
    """Run a command with Warp quiet; an `IKError` prints one line and exits with 2 for bad input, otherwise 1."""
    import warp as wp  # not above: help and version do without

    from objectives.errors import IKError, InputError

    wp.config.log_level = wp.LOG_WARNING  # Warp's notes on loaded kernels go to standard output
    try:
        with reported_output():
            yield
    except IKError as error:
        _print_error(str(error))
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


@contextmanager
def reported_output() -> Iterator[None]:
    """Run a block with output; an unwritable standard output, such as a full disk, prints one line and exits with 2."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _print_error(f"Cannot write to standard output: {error.strerror}.")
        with suppress(OSError):  # the rest of the buffer must not fail again at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(2) from error


@contextmanager
def progress_bar(text: str, total: int | None = None, *, is_still: bool = False) -> Iterator[Callable[..., None]]:
    """Show progress on a terminal, on standard error; nothing elsewhere or where IK_SERVICE_QUIET is set.

    Without a total amount of work, a spinner with seconds is shown. `is_still` draws only at new values, without
    a thread that would disturb measurements. Yields a function for new values of `description`, `total`, `completed`
    and `advance`.
    """
    from ik_service.kernels.kernel_loading import QUIET_VARIABLE  # not above: help and version do without

    console = message_console()
    amount = () if total is None else (BarColumn(), MofNCompleteColumn())
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *amount, TimeElapsedColumn())
    is_off = not console.is_terminal or bool(os.environ.get(QUIET_VARIABLE))
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=False, disable=is_off, auto_refresh=not is_still
    ) as progress:
        yield partial(progress.update, progress.add_task(text, total=total), refresh=is_still)


def _print_error(text: str) -> None:
    message_console().print(f"[bold red]Error:[/] {escaped(text)}")


def escaped(text: str) -> str:
    """Return text with escaped square brackets, so they are not markup."""
    return text.replace("[", r"\[")


def print_versions() -> None:
    """Print the versions of this package, Python, Warp and NumPy, from their metadata."""
    below = ", ".join(f"{name} {version(name)}" for name in ("warp-lang", "numpy"))
    output_console().print(f"ik-service {version('ik-service')} (Python {platform.python_version()}, {below})")

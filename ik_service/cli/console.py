"""How the command line talks: results on standard output, progress and errors on standard error, plain when piped."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PIPED_WIDTH = 160
"""Columns of a table that goes into a pipe or a file, where no terminal says how wide it is."""


def output_console() -> Console:
    """Return the console for results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)


def message_console() -> Console:
    """Return the console for progress and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def reported_errors() -> Iterator[None]:
    """Run a command with Warp quiet; an error of ours is one line and exit code 2 for bad input, 1 for others."""
    import warp as wp  # not above: help and version do without

    from objectives.errors import IKError, InputError

    wp.config.log_level = wp.LOG_WARNING  # its notes on loading kernels go to standard output
    try:
        yield
    except IKError as error:
        message_console().print(f"[bold red]Error:[/] {escaped(str(error))}")
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


@contextmanager
def problem_progress(description: str, total: int) -> Iterator[Progress]:
    """Show a bar while problems are solved; nothing when standard error is not a terminal.

    Args:
        description: What is going on.
        total: Number of problems.
    """
    console = message_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(description, total=total)
        yield progress


def escaped(text: str) -> str:
    """Return text in which square brackets are no markup."""
    return text.replace("[", r"\[")


def print_versions() -> None:
    """Print our version and those of Python, Warp and NumPy, from their metadata."""
    below = ", ".join(f"{name} {version(name)}" for name in ("warp-lang", "numpy"))
    output_console().print(f"ik-service {version('ik-service')} (Python {platform.python_version()}, {below})")

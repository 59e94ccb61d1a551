"""How the command line talks: results on standard output, progress and errors on standard error, plain when piped."""

import errno
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PIPED_WIDTH = 160
"""Columns of a table that goes into a pipe or a file, where no terminal says how wide it is."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def output_console() -> Console:
    """Return the console for results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)


def print_json(document: object) -> None:
    """Print a document as indented JSON, which no width of a terminal breaks."""
    output_console().out(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode(), highlight=False)


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
        with reported_output():
            yield
    except IKError as error:
        _print_error(str(error))
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


@contextmanager
def reported_output() -> Iterator[None]:
    """Run what prints; where standard output takes no more, a full disk, that is one line and exit code 2."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _print_error(f"Cannot write to standard output: {error.strerror}.")
        with suppress(OSError):  # what is left in its buffer must not fail once more at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(2) from error


class _TerminalNotes(logging.Handler):
    """Prints messages above a progress bar.

    Args:
        console: Of the bar.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        self._console.print(record.getMessage(), markup=False)


@contextmanager
def _compile_notes(console: Console) -> Iterator[None]:
    """Say on a terminal that kernels are compiled, which is why a first solve takes seconds."""
    logger, notes = logging.getLogger("ik_service.solver.launches.kernel_loading"), _TerminalNotes(console)
    if not console.is_terminal:
        yield
        return
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(notes)


@contextmanager
def problem_progress(description: str, total: int) -> Iterator[Progress]:
    """Show a bar while problems are solved; nothing when standard error is not a terminal.

    Args:
        description: What is going on.
        total: Number of problems.
    """
    console = message_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress_bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with _compile_notes(console), progress_bar as progress:
        progress.add_task(description, total=total)
        yield progress


def _print_error(text: str) -> None:
    message_console().print(f"[bold red]Error:[/] {escaped(text)}")


def escaped(text: str) -> str:
    """Return text in which square brackets are no markup."""
    return text.replace("[", r"\[")


def print_versions() -> None:
    """Print our version and those of Python, Warp and NumPy, from their metadata."""
    below = ", ".join(f"{name} {version(name)}" for name in ("warp-lang", "numpy"))
    output_console().print(f"ik-service {version('ik-service')} (Python {platform.python_version()}, {below})")

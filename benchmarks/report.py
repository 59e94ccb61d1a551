"""Figures with their bounds: printed while they are measured, and kept as a Markdown file."""

import argparse
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import warp as wp
from numpy.typing import NDArray


class Report:
    """Lines of Markdown, printed as they come.

    Attributes:
        missed: Claims whose bound was missed.
        lines: What it says so far.
    """

    def __init__(self, title: str) -> None:
        self.missed: list[str] = []
        self.lines: list[str] = []
        self.line(f"# {title}")

    def line(self, text: str) -> None:
        """Add a line."""
        print(text, flush=True)
        self.lines.append(text)

    def section(self, title: str, explanation: str) -> None:
        """Begin a section."""
        for text in ("", f"## {title}", "", explanation, ""):
            self.line(text)

    def table(self, *heads: str) -> None:
        """Begin a table."""
        self.row(*heads)
        self.line("|" + "---|" * len(heads))

    def row(self, *cells: object) -> None:
        """Add a row to a table."""
        self.line("| " + " | ".join(str(cell) for cell in cells) + " |")

    def claim(self, what: str, figure: str, bound: str, passed: bool | np.bool_) -> None:
        """Add a line with a figure, its bound, and whether it keeps to it."""
        self.line(f"- **{'PASS' if passed else 'MISS'}** {what}: {figure}, bound {bound}")
        if not passed:
            self.missed.append(what)

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def measured(title: str, doc: str, show: Callable[[Report], None]) -> None:
    """Measure with an empty kernel cache as a program whose option --write names a file for the report.

    Args:
        title: Of the report.
        doc: The module's docstring; its first line describes the program.
        show: Measures, and adds to the report.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--write", type=Path, help="also write the report to this file")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    report = Report(title)
    with tempfile.TemporaryDirectory() as cache:
        wp.config.kernel_cache_dir = cache
        show(report)
    report.line("")
    report.line(f"Bounds missed: {', '.join(report.missed) or 'none'}.")
    if arguments.write:
        report.save(arguments.write)


def machine() -> str:
    """Return the processor and the versions that the figures hold for."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{names[0]}, Python {platform.python_version()}, Warp {wp.__version__}"


def microseconds(times: NDArray[np.float64]) -> str:
    """Return median and range of times [s] in microseconds."""
    us = 1e6 * np.asarray(times)
    return f"{np.median(us):.2f} ({us.min():.2f}-{us.max():.2f})"

"""Figures with their bounds: printed while they are measured, and kept as a Markdown file."""

import platform
from pathlib import Path

import numpy as np
import warp as wp


class Report:
    """Lines of Markdown, printed as they come; claims wait for the end of their table."""

    def __init__(self, title: str) -> None:
        self.missed: list[str] = []  # claims whose bound was missed
        self.lines: list[str] = []
        self._claims: list[str] = []
        self._put(f"# {title}")

    def _put(self, *texts: str) -> None:
        print(*texts, sep="\n", flush=True)
        self.lines += texts

    def line(self, text: str) -> None:
        """Add a line; one that is no part of a list becomes a paragraph."""
        self.end()
        is_item = text.startswith(("- ", "1. ")) and self.lines[-1].startswith(("- ", "1. "))
        self._put(*[""] * (not is_item), text)

    def section(self, title: str, explanation: str, *heads: str) -> None:
        """Begin a section, and its table where it has heads."""
        self.end()
        self._put("", f"## {title}", *["", explanation] * bool(explanation))
        if heads:
            self.table(*heads)

    def table(self, *heads: str) -> None:
        """Begin a table."""
        self.end()
        self._put("")
        self.row(*heads)
        self._put("|" + "---|" * len(heads))

    def row(self, *cells: object) -> None:
        """Add a row to a table."""
        self._put("| " + " | ".join(str(cell) for cell in cells) + " |")

    def claim(self, what: str, figure: object, bound: object, passed: bool | np.bool_) -> None:
        """Add a line with a figure, its bound, and whether it keeps to it."""
        self._claims.append(f"- **{'PASS' if passed else 'MISS'}** {what}: {figure}, bound {bound}")
        if not passed:
            self.missed.append(what)

    def end(self) -> None:
        """End a table: add the claims that wait."""
        if self._claims:
            self._put(*[""] * (not self.lines[-1].startswith("- ")), *self._claims)
            self._claims.clear()

    def save(self, path: Path) -> None:
        """Write the file."""
        self.end()
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def machine() -> str:
    """Return the processor and the versions that the figures hold for."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{names[0]}, Python {platform.python_version()}, Warp {wp.__version__}"

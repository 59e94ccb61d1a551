"""The environment in which the page is tried: viser beside the packages of this one."""

import subprocess
from pathlib import Path

from tests.other_environments import python_with

VISER, PLAYWRIGHT = "viser==1.1.1", "playwright==1.65.2"
NEWER = ("rich", "websockets")
"""Packages of which viser asks for older versions than the locks have; it is tried with those of the locks."""


def page_python() -> Path:
    """Return the Python of an environment with viser and Playwright; it is made on first use."""
    python = python_with("page", VISER, PLAYWRIGHT)
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    if any((packages / name).exists() for name in NEWER):
        subprocess.run([python, "-m", "pip", "uninstall", "-qq", "--yes", *NEWER], check=True)
    return python

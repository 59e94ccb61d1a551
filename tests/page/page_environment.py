"""The environment in which the page is tried: viser holds back packages of which the service has newer ones."""

from pathlib import Path

from tests.other_environments import python_with

VISER, PLAYWRIGHT = "viser==1.1.1", "playwright==1.65.2"


def page_python() -> Path:
    """Return the Python of an environment with viser and Playwright; it is made on first use."""
    return python_with("page", VISER, PLAYWRIGHT)

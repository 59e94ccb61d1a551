"""The page, in an environment of its own."""

from pathlib import Path

import pytest

from tests.other_environments import run_checks
from tests.page.page_environment import page_python

BROWSER = "browser_checks.py"  # minutes of clicking and dragging
CHECKS = sorted(f"page/{path.name}" for path in Path(__file__).parent.glob("*_checks.py") if path.name != BROWSER)


@pytest.fixture(scope="module", name="page_python")
def page_python_fixture():
    return page_python()


def test_the_page_without_a_browser(page_python):
    assert "skipped" not in run_checks(page_python, *CHECKS)


@pytest.mark.evidence
def test_the_page_in_a_browser(page_python):
    report = run_checks(page_python, f"page/{BROWSER}")
    if "skipped" in report:
        pytest.skip("There is no Chromium on PATH or in CHROMIUM.")

"""The page, in an environment of its own: viser holds back packages of which the service has newer ones."""

from pathlib import Path

import pytest

from tests.other_environments import python_with, run_checks

VISER, PLAYWRIGHT = "viser==1.1.1", "playwright==1.65.2"
BROWSER = "browser_checks.py"  # minutes of clicking and dragging
CHECKS = sorted(path.name for path in Path(__file__).parent.glob("*_checks.py") if path.name != BROWSER)


@pytest.fixture(scope="module")
def page_python():
    return python_with("page", VISER, PLAYWRIGHT)


@pytest.mark.parametrize("file", CHECKS)
def test_the_page_without_a_browser(page_python, file):
    assert "skipped" not in run_checks(page_python, f"page/{file}")


@pytest.mark.evidence
def test_the_page_in_a_browser(page_python):
    report = run_checks(page_python, f"page/{BROWSER}")
    if "skipped" in report:
        pytest.skip(report.partition("SKIPPED")[2].splitlines()[0])

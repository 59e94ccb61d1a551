"""The page in a browser, which is driven from an environment of its own."""

import pytest

from tests.other_environments import python_with, run_checks

PLAYWRIGHT = "playwright==1.65.2"


@pytest.mark.evidence  # minutes of clicking and dragging
def test_the_page_in_a_browser():
    report = run_checks(python_with("page", PLAYWRIGHT), "page/browser_checks.py")
    if "skipped" in report:
        pytest.skip("There is no Chromium on PATH or in CHROMIUM.")

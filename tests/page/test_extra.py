"""The extra of the page has all that the page imports; `tests/project/test_extras.py` tries the others."""

import pytest

from tests.project.test_extras import APPLICATION, PAGE, run


def test_the_extra_has_all_that_the_page_imports():
    done = run(PAGE, "page")
    assert done.returncode == 0, done.stderr


@pytest.mark.evidence
def test_all_extras_together_have_it_too():
    done = run(f"{APPLICATION}\n{PAGE}", "all")
    assert done.returncode == 0, done.stderr

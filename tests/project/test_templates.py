"""Templates of generated code: all are used, and written as C is in this project."""

from pathlib import Path

import pytest

import ik_service

LINE_LENGTH = 120
ROOT = Path(ik_service.__file__).parent
TEMPLATES = sorted(ROOT.rglob("*.in"))
each_template = pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))


def folder_of(path):
    return next(parent for parent in path.parents if parent.name == "templates")


@each_template
def test_a_template_is_used_by_its_name(path):
    folder = folder_of(path)
    sources = "".join(file.read_text() for file in folder.parent.rglob("*.py"))
    name = str(path.relative_to(folder)).removesuffix(".in")
    assert f'"{name}"' in sources or f'"{name.removesuffix(".cpp")}"' in sources


@each_template
def test_a_template_is_tidy(path):
    text = path.read_text()
    assert text.strip("\n") + "\n" == text, "empty lines at an end"
    lines = text.splitlines()
    assert [line for line in lines if "\t" in line or line != line.rstrip() or len(line) > LINE_LENGTH] == []

"""Templates of the exported files: all are used, and written as C is in this project."""

from pathlib import Path

import pytest

import ik_service.export
from ik_service.export.template_files import FOLDER

LINE_LENGTH = 120
PACKAGE = Path(ik_service.export.__file__).parent
NAMES = sorted(str(path.relative_to(str(FOLDER))) for path in Path(str(FOLDER)).rglob("*.in"))


def test_there_are_templates():
    assert len(NAMES) > 20


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_used_by_its_name(name):
    sources = "".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    assert f'"{name.removesuffix(".in")}"' in sources


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_tidy(name):
    text = (FOLDER / name).read_text()
    assert text.strip("\n") + "\n" == text, "empty lines at an end"
    lines = text.splitlines()
    assert [line for line in lines if "\t" in line or line != line.rstrip() or len(line) > LINE_LENGTH] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith((".c.in", ".h.in"))])
def test_c_is_indented_by_four(name):
    lines = (FOLDER / name).read_text().splitlines()
    assert [line for line in lines if not line.startswith(" *") and (len(line) - len(line.lstrip())) % 4] == []

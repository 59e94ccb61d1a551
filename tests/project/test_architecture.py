"""What docs/architecture.md says of the code is so: paths and names exist, and the rooms are the packages there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = sorted(path.parent for top in ("ik_service", "objectives") for path in (ROOT / top).rglob("__init__.py"))


def test_the_rooms_are_the_packages_in_the_words_of_their_docstrings():
    told = dict(re.findall(r"^\| `([\w/]+)` \| (.+) \|$", DOCUMENT, re.MULTILINE))
    rooms = {}
    for package in PACKAGES:
        docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
        assert docstring, package
        rooms[str(package.relative_to(ROOT))] = " ".join(docstring.partition("\n\n")[0].split())
    del rooms["ik_service"]  # the house
    assert told == rooms


def test_every_path_exists():
    paths = re.findall(r"(?:ik_service|objectives|tests|docs|benchmarks)/[\w./]*[\w/]", DOCUMENT)
    assert len(paths) > 20
    assert sorted({path for path in paths if not (ROOT / path).exists()}) == []


def test_every_name_is_defined():
    names = set(re.findall(r"`([A-Z]\w+)`", DOCUMENT))
    assert len(names) > 3
    code = "\n".join(path.read_text() for package in PACKAGES for path in package.glob("*.py"))
    assert (
        sorted(name for name in names if not re.search(rf"^ *(?:class |)?{name}\b(?: =|\(|:)", code, re.MULTILINE))
        == []
    )


def test_every_search_finds_something():
    code = "\n".join(path.read_text() for package in PACKAGES for path in package.glob("*.py"))
    words = [
        word for found in re.findall(r"`git grep (?:-n )?\"?([^`\"]+)\"?`", DOCUMENT) for word in found.split("\\|")
    ]
    assert len(words) > 5
    assert [word for word in words if word not in code] == []

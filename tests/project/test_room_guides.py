"""The README of a room says what is so: its paths exist, its names and the words of its searches occur in the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted(path for top in ("ik_service", "objectives") for path in (ROOT / top).rglob("README.md"))
CODE, TESTS = (
    "\n".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    for folders in (("ik_service", "objectives"), ("tests",))
)
SEARCH = r"`git grep -n \"([^`\"]+)\"`"


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide.parent.relative_to(ROOT)))
def test_what_a_guide_names_exists(guide):
    quoted = re.findall(r"`([^`]+)`", guide.read_text())
    paths = [word for word in quoted if re.fullmatch(r"[\w./-]+(?:/|\.(?:py|in|md|json))", word)]
    names = [word for word in quoted if re.fullmatch(r"\w+", word)]
    assert len(paths) > 5
    assert len(names) > 3
    assert [path for path in paths if not (ROOT / path).exists() and not (guide.parent / path).exists()] == []
    assert [name for name in names if not re.search(rf"\b{name}\b", CODE + TESTS)] == []


def test_every_search_of_a_guide_finds_something():
    words = {word for guide in GUIDES for found in re.findall(SEARCH, guide.read_text()) for word in found.split("\\|")}
    assert len(words) > 10
    assert sorted(word for word in words if word not in CODE) == []

"""docs/architecture.md tells the truth: its paths exist, and its picture shows the packages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = sorted(path.parent for top in ("ik_service", "objectives") for path in (ROOT / top).rglob("__init__.py"))


def test_the_picture_shows_the_packages():
    picture = DOCUMENT.split("```")[1]
    shown, above = set(), {}
    for line in picture.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for room in re.findall(r"(?:^| {2,})([a-z_]+)/(?= |$)", line):
            shown.add("/".join([*(above[k] for k in range(depth)), room]))
            if line.strip().startswith(f"{room}/"):
                above[depth] = room
    assert shown == {str(package.relative_to(ROOT)) for package in PACKAGES}


def test_every_path_exists():
    paths = re.findall(r"(?:ik_service|objectives|tests|docs|benchmarks)/[\w./]*[\w/]", DOCUMENT)
    assert len(paths) > 15
    assert sorted({path for path in paths if not (ROOT / path).exists()}) == []

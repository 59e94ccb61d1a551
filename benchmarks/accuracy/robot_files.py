"""Robot files that others wrote: how many load, and why the others do not.

python -m benchmarks.accuracy.robot_files [FOLDER ...]

Every URDF and every MJCF file below the folders is loaded; without folders, those of two packages that tests install.
Scenes and fragments of robots are counted too: they are files of that format, whatever they are for.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ik_service.errors import IKError
from ik_service.robots import load_robot

PACKAGES = ("example-robot-data", "frax")
LONGEST = 110  # characters of a reason
MJCF = re.compile(rb"<mujoco[\s>]")


class FileOutcome(NamedTuple):
    """What became of a file."""

    path: Path
    reason: str | None
    loop_count: int = 0
    warnings: Sequence[str] = ()


def robot_files(folder: Path) -> Iterator[Path]:
    """Find robot files; an .xml that is no MJCF is none."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.suffix == ".urdf" or (path.suffix == ".xml" and MJCF.search(path.read_bytes()))):
            yield path


def installed(package: str) -> Iterator[Path]:
    """Find robot files of an installed package."""
    for file in sorted(metadata.files(package) or []):
        if file.suffix == ".urdf":
            yield Path(str(file.locate()))


def load(path: Path) -> FileOutcome:
    """Load a file."""
    try:
        robot = load_robot(path)
    except IKError as error:
        return FileOutcome(path, str(error))
    return FileOutcome(path, None, len(robot.loops), getattr(robot, "warnings", ()))


def general(reason: str) -> str:
    """Put a mark for what differs from file to file."""
    text = re.sub(r"'[^']*'", "'...'", " ".join(reason.split()))
    text = re.sub(r"-?\d+(\.\d*)?(e[-+]?\d+)?", "N", re.sub(r"^line \d+, [^:]*: |\[.*\]", "", text))
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def show_reasons(title: str, reasons: Sequence[tuple[str, Path]]) -> None:
    """Print each reason with its count and a file that it is about."""
    found = Counter(general(reason) for reason, _ in reasons)
    examples = {general(reason): path for reason, path in reversed(reasons)}
    print(f"\n## {title}\n\n| count | reason | for example |\n|---|---|---|")
    for reason, count in found.most_common():
        print(f"| {count} | {reason} | {'/'.join(examples[reason].parts[-3:])} |")


def main() -> None:
    """Load the files and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    folders = parser.parse_args().folders
    files = {folder.name: robot_files(folder) for folder in folders} or {name: installed(name) for name in PACKAGES}
    outcomes: dict[tuple[str, str], list[FileOutcome]] = defaultdict(list)
    for name, paths in files.items():
        for path in paths:
            outcomes[name, "URDF" if path.suffix == ".urdf" else "MJCF"].append(load(path))
    print("| folder | format | files | load | with loops | with warnings |\n|---|---|---|---|---|---|")
    for (name, kind), found in outcomes.items():
        loaded = [one for one in found if one.reason is None]
        counts = (len(loaded), sum(one.loop_count > 0 for one in loaded), sum(bool(one.warnings) for one in loaded))
        print(f"| {name} | {kind} | {len(found)} | {' | '.join(map(str, counts))} |")
    everything = [one for found in outcomes.values() for one in found]
    show_reasons("Files that do not load", [(one.reason, one.path) for one in everything if one.reason])
    show_reasons("Constraints left out", [(text, one.path) for one in everything for text in one.warnings])


if __name__ == "__main__":
    main()

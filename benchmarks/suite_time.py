"""How long `make test` takes, cold and warm, which rooms and tests take longest, and how much memory it needs.

Cold is a copy of the repository with an empty home: nothing is installed, downloaded or compiled. Warm is the next run
there. The bounds are for two cores that have nothing else to do.
"""

import os
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from benchmarks.report import Report
from benchmarks.run import benchmark

ROOT = Path(__file__).resolve().parents[1]
COLD_S, WARM_S = 360.0, 180.0
SLOWEST, ROOMS = 10, 16
SAMPLE_S = 0.5
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes(group: int) -> int:
    """Resident memory of all processes of a session, shared pages counted once for each."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getsid(int(folder.name)) == group:
                    total += int((folder / "statm").read_text().split()[1]) * PAGE_BYTES
            except (OSError, ValueError, IndexError):
                continue  # it has ended
    return total


def run(tree: Path, home: Path) -> tuple[float, float, list[tuple[float, str]]]:
    """Run `make test` in a tree; return seconds, the most memory [GB], and seconds and name of each test."""
    report = home / "report.xml"
    dropped = ("WARP_", "XDG_CACHE", "UV_", "PYTHON", "VIRTUAL_ENV", "IK_SERVICE_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    variables |= {"HOME": str(home)}
    begin, most = time.monotonic(), 0
    with subprocess.Popen(
        ["make", "test", f"ARGS=--junitxml={report}"], cwd=tree, env=variables, start_new_session=True
    ) as process:
        while process.poll() is None:
            most = max(most, memory_bytes(process.pid))
            time.sleep(SAMPLE_S)
    seconds = time.monotonic() - begin
    if process.returncode:
        raise SystemExit(f"make test ended with exit status {process.returncode}.")
    cases = ElementTree.parse(report).iter("testcase")
    tests = [(float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}") for case in cases]
    return seconds, most / 1e9, sorted(tests, reverse=True)


def show(report: Report) -> None:
    """Run both, and add them to the report."""
    with tempfile.TemporaryDirectory() as folder:
        tree, home = Path(folder, "tree"), Path(folder, "home")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
        for name, bound in (("cold", COLD_S), ("warm", WARM_S)):
            seconds, memory_gb, tests = run(tree, home)
            own = f"{len(tests)} tests in {sum(one for one, _ in tests):.0f} s of all processes together; "
            report.section(name.capitalize(), f"{own}most memory {memory_gb:.1f} GB; {os.cpu_count()} cores.")
            report.claim(f"make test, {name}", f"{seconds:.0f} s", f"{bound:.0f} s", seconds <= bound)
            rooms = Counter[str]()
            for one, test in tests:
                rooms[test.split(".")[1]] += one
            report.table("room", "time of its tests [s]")
            for room, one in rooms.most_common(ROOMS):
                report.row(f"`tests/{room}`", f"{one:.0f}")
            report.table("slowest tests", "time [s]")
            for one, test in tests[:SLOWEST]:
                report.row(f"`{test.partition('@')[0].removeprefix('tests.')}`", f"{one:.1f}")


if __name__ == "__main__":
    benchmark("The test suite", show, core=None)

"""A plain installation into other Pythons: its size, the first solves of two processes, and the code of all documents.

python -m benchmarks.engines.installed [--write benchmarks/engines/installed.md]

Pythons are looked for in $PATH and among those of pyenv; PYTHON_3_10 and the like name others.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Report, machine

ROOT = Path(__file__).resolve().parents[2]
VERSIONS: Mapping[str, tuple[str, ...]] = {"3.10": ("numpy==1.26.*",), "3.13": ()}
"""Pythons, and what is asked for besides the package."""
LARGEST = ("warp", "numpy", "ik_service")
ONE_PROGRAM = [  # documents whose blocks are one program each
    "adding_an_objective",
    "closed-chains",
    "collision",
    "conventions",
    "embedding",
    "from_mink",
    "from_moveit",
    "from_newton",
    "gradients",
    "http_api",
    "python",
    "robots",
]
FIRST_SOLVES = """
import json, time
clocks, times = (time.perf_counter, time.process_time), []
for _ in range(2):
    begin = [clock() for clock in clocks]
    if not times:
        import ik_service
        solver = ik_service.IKSolver(ik_service.load_robot("panda"), ["panda_hand"])
    result = solver.solve([[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]])
    times += [clock() - start for clock, start in zip(clocks, begin, strict=True)]
print(json.dumps([*times, bool(result.success[0])]))
"""


class Installation:
    """An environment with the package.

    Args:
        folder: Where it is made.
        interpreter: The Python that it is made with.
    """

    def __init__(self, folder: Path, interpreter: str) -> None:
        self._folder, self._source = folder, folder / "source"
        for name in ("ik_service", "objectives"):
            shutil.copytree(ROOT / name, self._source / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, self._source / name)
        subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
        self.python = folder / "venv" / "bin" / "python"
        self._variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._variables["WARP_CACHE_PATH"] = str(folder / "cache")

    def install(self, extras: str, *further: str) -> None:
        """Install the package with extras such as "[cli]", and further packages."""
        command = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-warn-conflicts"]
        subprocess.run([*command, f"{self._source}{extras}", *further], env=self._variables, check=True)

    def run(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run its Python."""
        return subprocess.run(
            [self.python, *arguments],
            cwd=self._folder,
            env=self._variables | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def sizes(self) -> dict[str, float]:
        """Return sizes of packages [MB], of all as "all", bytecode aside."""
        (packages,) = (self._folder / "venv").glob("lib/python*/site-packages")
        ours = {one.name: _bytes(one) / 1e6 for one in packages.iterdir() if not one.name.startswith(("pip", "_"))}
        return {name: ours[name] for name in LARGEST} | {"all": sum(ours.values())}

    @contextmanager
    def service(self) -> Iterator[str]:
        """Run the service, and give its address."""
        command = [self.python.with_name("ik-service"), "serve", "--port", "0", "--log-format", "json"]
        with subprocess.Popen(
            command, env=self._variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as server:
            try:
                assert server.stdout is not None
                found = next(match for line in server.stdout if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))
                yield found[0]
            finally:
                server.terminate()
                server.communicate()

    def document(self, name: str, programs: list[str], **variables: str) -> str:
        """Run programs of a document; return "" or the last line of what went wrong."""
        for number, program in enumerate(programs):
            file = self._folder / f"{name.replace('-', '_')}_{number}.py"
            file.write_text(program)
            done = self.run(file, **variables)
            if done.returncode:
                return f"{name}: {done.stderr.strip().splitlines()[-1]}"
        return ""


def blocks(document: str) -> list[str]:
    """Return the Python blocks of a document."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def measure(report: Report, installation: Installation, version: str, further: tuple[str, ...]) -> None:
    """Add the rows of one Python."""
    installation.install("", *further)
    sizes = installation.sizes()
    numpy = installation.run("-c", "import numpy; print(numpy.__version__)").stdout.strip()
    cells = []
    for _ in range(2):  # the second process finds the code that the first has compiled
        done = installation.run("-c", FIRST_SOLVES)
        *seconds, solved = json.loads(done.stdout)
        assert solved
        walls, cpus = ([f"{value:.2f}" if value > 0.05 else f"{value:.5f}" for value in seconds[k::2]] for k in (0, 1))
        cells += [f"{wall} / {cpu}" for wall, cpu in zip(walls, cpus, strict=True)]
    installation.install("[cli,client,mujoco,xacro,yaml]", *further)
    programs = {"README": blocks("README.md")}
    programs |= {name: ["\n\n".join(blocks(f"docs/{name}.md"))] for name in ONE_PROGRAM}
    with installation.service() as url:
        wrong = [installation.document(name, own, SERVICE_URL=url) for name, own in programs.items()]
    count = len(wrong)
    failed = [one for one in wrong if one]
    megabytes = ", ".join(f"{sizes[name]:.0f}" for name in ("all", *LARGEST))
    report.row(version, numpy, megabytes, *cells, f"{count - len(failed)} of {count}")
    report.missed += failed


def _bytes(place: Path) -> int:
    files = [place] if place.is_file() else [one for one in place.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files if one.suffix != ".pyc")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="also write the report to this file")
    arguments = parser.parse_args()
    sys.path.append(str(ROOT / ".ci"))
    from interpreters import find_interpreter

    report = Report("Installed into other Pythons")
    report.line("")
    report.line(
        f"`pip install .` into an environment made anew; {machine().partition(', Python')[0]}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}. Sizes of installed packages [MB] without bytecode. Seconds, by the wall / of "
        "CPU: from the start to the first answer (import, robot, solver, and one solve with the default check for "
        "collision), then of the next solve; in a first process, which compiles, and in a second. "
        "Documents: those whose Python blocks run there, with the extras cli, client, mujoco, xacro and yaml."
    )
    report.line("")
    sizes = f"MB: all, {', '.join(LARGEST)}"
    solves = [f"{process} process, {solve} [s]" for process in ("first", "second") for solve in ("first", "next")]
    report.table("Python", "NumPy", sizes, *solves, "documents")
    for version, further in VERSIONS.items():
        interpreter = find_interpreter(version, f"PYTHON_{version.replace('.', '_')}")
        if interpreter is None:
            report.row(version, "not here", *[""] * 6)
            continue
        with tempfile.TemporaryDirectory() as folder:
            measure(report, Installation(Path(folder), interpreter), version, further)
    report.line("")
    report.line(f"Documents that failed: {'; '.join(report.missed) or 'none'}.")
    if arguments.write:
        report.save(arguments.write)


if __name__ == "__main__":
    main()

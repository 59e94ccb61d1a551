"""See what the suite notices: its coverage, and which mutations drawn at random make a test fail.

    pip install --target build/coverage coverage
    export PYTHONPATH=$PWD:build/coverage
    python tests/mutations/try_suite.py cover build/reached [PYTEST'S ARGUMENTS]   # which test reaches which line
    python tests/mutations/try_suite.py report build/reached [PYTEST'S ARGUMENTS]  # lines and branches, of these tests
    python tests/mutations/try_suite.py mutate build/reached build/noticed.jsonl [--count 100] [--seed 55]
        [--limit-s 90] [--tests-from COMMIT] [--suite-args "-m 'not evidence'"] [--only-unnoticed-of FILE]

A mutation is written into a worktree of its own in the temporary folder, with kernels of its own. The tests that reach
the line run there: those nearest to the file and the quickest first, until one fails that passes without the mutation,
or until the limit of seconds; where they would take longer, some are drawn. Lines of kernels and of functions whose
results are kept run once for several tests: there count all tests that reach the functions of the file, or else
those of the files that import it. What was found stands in the file of results, and a run that is begun again goes on.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutations.drawn_mutations import FOLDERS, DrawnMutation, drawn, function_lines  # noqa: E402  # found by the line above

COVERAGE = """[run]
branch = True
parallel = True
relative_files = True
data_file = {folder}/data/coverage
source = ik_service,objectives
context = ${{REACHED_BY-}}
patch = _exit
disable_warnings = no-data-collected,module-not-imported,module-not-measured
"""
PLUGIN = ("-p", "tests.mutations.reached_lines", "-p", "no:cacheprovider")
WORKERS = ("--numprocesses", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
NEAREST = 12  # files of tests that run before the others
MESSAGE = 300  # characters that are kept
TIMEOUT = "Failed: Timeout"  # of pytest-timeout
PATIENCE = 4  # limits that one test may take
END_S = 60.0  # for starting and cleaning up
MANY = 20  # tests that take less than this part of the limit come before slower ones
OUT_OF_TIME = "not noticed within the limit"
FAILED, NO_TESTS = 1, 5  # pytest's exit statuses


def cover(folder: Path, arguments: list[str]) -> int:
    import coverage  # noqa: F401  # where it is missing, that is said before the run

    (folder / "data").mkdir(parents=True)
    (folder / "start").mkdir()
    (folder / "coveragerc").write_text(COVERAGE.format(folder=folder.absolute()))
    (folder / "start/sitecustomize.py").write_text("import coverage; coverage.process_startup()")
    path = os.pathsep.join([str(folder.absolute() / "start"), os.environ.get("PYTHONPATH", str(ROOT))])
    variables = {"COVERAGE_PROCESS_START": str(folder.absolute() / "coveragerc"), "REACHED_TO": str(folder.absolute())}
    command = [sys.executable, "-m", "pytest", "-q", *PLUGIN, *WORKERS, *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | variables | {"PYTHONPATH": path}, check=False).returncode


def report(folder: Path, arguments: list[str]) -> None:
    """Print the lines and branches that tests reach: all, or those that pytest collects with arguments."""
    import coverage

    names = {"", *collected(ROOT, arguments)} if arguments else None
    merged = coverage.CoverageData(str(folder / "merged"))
    merged.erase()
    for data in data_files(folder):
        arcs: dict[str, set[tuple[int, int]]] = {}
        for path, begin, end, name in rows(data, ""):
            if names is None or name in names:
                arcs.setdefault(path, set()).add((begin, end))
        merged.add_arcs(arcs)
    merged.write()
    measured = coverage.Coverage(data_file=str(folder / "merged"), config_file=str(folder / "coveragerc"))
    measured.load()
    measured.json_report(outfile=str(folder / "report.json"))
    totals = json.loads((folder / "report.json").read_text())["totals"]
    for what, of in (("covered_lines", "num_statements"), ("covered_branches", "num_branches")):
        say(f"{what}: {totals[what]} of {totals[of]}, {100 * totals[what] / totals[of]:.2f} %")


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "data").glob("coverage.*") if path.stat().st_size)


def rows(data: Path, where: str, *values: object) -> Iterator[tuple[str, int, int, str]]:
    """Steps from line to line in a file of coverage: file, line, next line, test."""
    tables = "arc join file on file.id = file_id join context on context.id = context_id"
    with closing(sqlite3.connect(data)) as table:
        if table.execute("select count(*) from sqlite_master where name = 'arc'").fetchone()[0]:
            for path, *step in table.execute(f"select path, fromno, tono, context from {tables} {where}", values):
                yield path.removeprefix(f"{ROOT}/"), *step  # whole where a process ran in another folder


def collected(root: Path, arguments: list[str]) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    found = subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    return {line for line in found.stdout.splitlines() if "::" in line}


def reaching(folder: Path, mutations: Iterable[DrawnMutation]) -> list[set[str]]:
    sought = [lines_of(mutation) for mutation in mutations]
    reached: list[set[str]] = [set() for _ in sought]
    by_path: dict[str, list[tuple[set[int], set[str]]]] = {}
    for lines, names in zip(sought, reached, strict=True):
        for path, numbers in lines.items():
            by_path.setdefault(path, []).append((numbers, names))
    for data in data_files(folder):
        for path, wanted in by_path.items():
            for _, _, line, name in rows(data, "where path in (?, ?) and context != ''", path, f"{ROOT}/{path}"):
                for numbers, names in wanted:
                    if line in numbers:
                        names.add(name)
    return reached


def lines_of(mutation: DrawnMutation) -> dict[str, set[int]]:
    if mutation.function is None:
        return {mutation.path: set(range(mutation.lines[0], mutation.lines[1] + 1))}
    if lines := function_lines(ROOT / mutation.path):
        return {mutation.path: lines | {mutation.lines[0]}}
    module = mutation.path.removesuffix(".py").replace("/", ".")
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    importing = [path for path in files if f"from {module} import" in path.read_text()]
    return {path.relative_to(ROOT).as_posix(): function_lines(path) for path in importing}


class Tree:
    """A copy of the code for mutations, with the tests of a commit."""

    def __init__(self, folder: Path, cache: Path, tests_from: str, suite_args: list[str]) -> None:
        self.root, self._folder, self._suite_args = folder / "tree", folder, suite_args
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", self.root, "HEAD"], cwd=ROOT, check=True)
        if tests_from:
            shutil.rmtree(self.root / "tests")
            subprocess.run(
                ["git", "checkout", "--quiet", tests_from, "--", "tests", "pyproject.toml"], cwd=self.root, check=True
            )
        for file in Path(__file__).parent.glob("*.py"):
            shutil.copy(file, self.root / "tests/mutations")
        if (environments := ROOT / "benchmarks/.environments").exists():
            (self.root / "benchmarks/.environments").symlink_to(environments)
        self._stamp = int(time.time())
        self._variables = {
            "PYTHONPATH": str(self.root),
            "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
            "CHOSEN_TESTS": str(folder / "chosen"),
        }
        self._variables |= {"WARP_CACHE_PATH": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
        self.sound: dict[str, bool] = {}

    def write(self, path: str, content: bytes) -> None:
        """Change a file, so that Python sees that it is another one."""
        (self.root / path).write_bytes(content)
        self._stamp += 1
        os.utime(self.root / path, (self._stamp, self._stamp))

    def run(self, names: list[str], limit_s: float) -> tuple[str, str, str]:
        """Run tests until one fails: what became of them, the test that failed, and its message."""
        chosen, failed = self._folder / "chosen", self._folder / "chosen.failed"
        chosen.write_text(json.dumps(names))
        failed.unlink(missing_ok=True)
        files = dict.fromkeys(name.partition("::")[0] for name in names)
        files = [file for file in files if (self.root / file).exists()]
        limits = [f"--session-timeout={limit_s}", f"--timeout={PATIENCE * limit_s}"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", *PLUGIN, *limits, *self._suite_args, *files]
        if not files:
            return "not reached", "", ""
        output = self._folder / "output"
        variables = os.environ | self._variables
        with output.open("w") as out:
            process = subprocess.Popen(
                command, cwd=self.root, env=variables, stdout=out, stderr=out, start_new_session=True
            )
            try:
                status = process.wait((1 + PATIENCE) * limit_s + END_S)
            except subprocess.TimeoutExpired:
                return "timed out", "", ""
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # and what a test has left
                process.wait()
        if failed.exists():
            name, message = json.loads(failed.read_text())
            return ("timed out" if TIMEOUT in message else "noticed"), name, message
        if status in (0, FAILED):  # the latter without a test that failed: the limit of the session
            return "not noticed" if status == 0 else OUT_OF_TIME, "", ""
        if status == NO_TESTS:
            return "not reached", "", ""
        said = output.read_text()
        return ("timed out" if TIMEOUT in said else "noticed"), f"exit status {status}", said[-MESSAGE:]

    def is_sound(self, name: str, limit_s: float) -> bool:
        """Whether a test, or the import of its file, passes without the mutation, which has been taken away."""
        if name not in self.sound:
            self.sound[name] = self.run([name], limit_s)[0] in ("not noticed", "not reached")
        return self.sound[name]


def kernels(cache: Path) -> Path:
    """A cache of kernels that starts as a copy of the usual one, and is kept with the map of lines."""
    usual = Path(os.environ.get("WARP_CACHE_PATH", Path.home() / ".cache/warp"))
    if usual.exists() and not cache.exists():
        shutil.copytree(usual, cache)
    return cache.absolute()


def batches(mutation: DrawnMutation, names: set[str], seconds: dict[str, float], limit_s: float) -> list[list[str]]:
    """Tests in the order in which they run: of the nearest files, then of the others, as many as the limit allows.

    The quickest test of each file comes first.
    """
    words = set(mutation.path.removesuffix(".py").split("/"))
    files: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (seconds[name], name)):
        files.setdefault(name.partition("::")[0], []).append(name)

    def far(file: str) -> tuple[int, float]:
        shared = words & set(file.removesuffix(".py").replace("test_", "").split("/"))
        return -len(shared), seconds[files[file][0]]

    generator, ordered, parts = random.Random(mutation.start), sorted(files, key=far), []
    for part in (ordered[:NEAREST], ordered[NEAREST:]):
        first, more = [files[file][0] for file in part], [name for file in part for name in files[file][1:]]
        left_s = limit_s - sum(seconds[name] for name in first)
        if sum(seconds[name] for name in more) > left_s:
            chosen = set()
            for name in sorted(generator.sample(more, len(more)), key=lambda name: seconds[name] > limit_s / MANY):
                if seconds[name] <= left_s:
                    left_s -= seconds[name]
                    chosen.add(name)
            more = [name for name in more if name in chosen]
        parts.append([*first, *more])
    return [part for part in parts if part]


def tried(
    tree: Tree, mutation: DrawnMutation, names: set[str], seconds: dict[str, float], limit_s: float
) -> dict[str, object]:
    source, begin, count = (tree.root / mutation.path).read_bytes(), time.monotonic(), 0
    outcome, name, message = "not reached", "", ""
    parts = batches(mutation, names, seconds, limit_s)
    while parts and outcome in ("not reached", "not noticed", OUT_OF_TIME):
        tests = parts.pop(0)
        tree.write(mutation.path, mutation.written(source))
        try:
            found, name, message = tree.run(tests, limit_s)
        finally:
            tree.write(mutation.path, source)
        if found == "noticed" and name.startswith("tests/") and not tree.is_sound(name, limit_s):
            parts.insert(
                0, [test for test in tests if test != name and not test.startswith(f"{name}::")]
            )  # it fails in any case
            parts = [part for part in parts if part]
            continue
        count += len(tests)
        if found != "not reached" and (outcome, found) != (OUT_OF_TIME, "not noticed"):
            outcome = found
    told = {"outcome": outcome, "by": name, "message": message, "tests": count, "of": len(names)}
    return mutation._asdict() | told | {"seconds": round(time.monotonic() - begin, 1)}


def mutate(folder: Path, arguments: list[str]) -> None:
    """Try mutations, and append what became of each to the file of results."""
    parser = argparse.ArgumentParser(prog="try_suite.py mutate FOLDER")
    parser.add_argument("results", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=55)
    parser.add_argument("--limit-s", type=float, default=90.0)
    parser.add_argument("--tests-from", default="")
    parser.add_argument("--suite-args", default="")
    parser.add_argument("--only-unnoticed-of", type=Path)
    asked = parser.parse_args(arguments)
    mutations = drawn(ROOT, asked.count, asked.seed)
    if asked.only_unnoticed_of:
        unnoticed = {key for key, record in recorded(asked.only_unnoticed_of).items() if record["outcome"] != "noticed"}
        mutations = [mutation for mutation in mutations if key_of(mutation._asdict()) in unnoticed]
    done = recorded(asked.results)
    mutations = [mutation for mutation in mutations if key_of(mutation._asdict()) not in done]
    seconds = dict(json.loads(line) for file in folder.glob("seconds.*") for line in file.open())
    reached = reaching(folder, mutations)
    with tempfile.TemporaryDirectory() as place:
        tree = Tree(Path(place), kernels(folder / "kernels"), asked.tests_from, shlex.split(asked.suite_args))
        try:
            there = collected(tree.root, shlex.split(asked.suite_args))
            for mutation, names in zip(mutations, reached, strict=True):
                record = tried(tree, mutation, names & there & set(seconds), seconds, asked.limit_s)
                with asked.results.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                place_of_it = f"{mutation.path}:{mutation.lines[0]} {mutation.operator}"
                say(f"{record['outcome']}: {place_of_it} {record['by']} {record['seconds']} s")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree.root], cwd=ROOT, check=True)
    say(dict(Counter(record["outcome"] for record in recorded(asked.results).values())))


def key_of(record: dict[str, object]) -> tuple[object, ...]:
    return record["path"], record["start"], record["operator"]


def recorded(results: Path) -> dict[tuple[object, ...], dict[str, object]]:
    records = [json.loads(line) for line in results.open()] if results.exists() else []
    return {key_of(record): record for record in records}


if __name__ == "__main__":
    command, where, *others = sys.argv[1:]
    sys.exit({"cover": cover, "report": report, "mutate": mutate}[command](Path(where), others))

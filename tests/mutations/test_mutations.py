"""Each fault of the table is put into a copy of the code, and the tests beside it have to fail there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]
COPIED = ("ik_service", "objectives", "tests", "pyproject.toml", "README.md", "docs", "examples", "benchmarks")
TIMEOUT_S = 1500.0
SOME_FAILED = 1  # pytest's exit status; others say that nothing was tested
CLOSING_LINE = re.compile(r"(\d+ (?:passed|failed).*?) in [\d.]+s")


def run_tests(root: Path, *files: str) -> tuple[int, str]:
    """Run files of tests on the code below a root; return pytest's exit status and its output."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    # Compiled files are told apart by the second in which their source was written, and faults come faster than that.
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(
        command, cwd=root, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def summary(output: str) -> str:
    found = CLOSING_LINE.findall(output)
    return found[-1] if found else output[-500:]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_dir():
            leave_out = shutil.ignore_patterns("__pycache__", ".environments")
            shutil.copytree(ROOT / name, root / name, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, root / name)
    status, output = run_tests(root, *sorted({mutation.tests for mutation in MUTATIONS}))
    assert status == 0, output
    return root


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.what for mutation in MUTATIONS])
def test_the_place_of_a_fault_is_there(mutation):
    assert (ROOT / mutation.path).read_text().count(mutation.before) == 1
    assert mutation.before != mutation.after
    assert (ROOT / mutation.tests).is_file()


@pytest.mark.evidence
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.what for mutation in MUTATIONS])
def test_a_fault_is_noticed(copy, mutation):
    path = copy / mutation.path
    text = path.read_text()
    try:
        path.write_text(text.replace(mutation.before, mutation.after))
        status, output = run_tests(copy, mutation.tests)
    finally:
        path.write_text(text)
    sys.stdout.write(f"{mutation.what}: {summary(output)}\n")
    assert status == SOME_FAILED, output
    assert "failed" in summary(output)

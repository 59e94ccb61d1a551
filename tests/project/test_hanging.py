"""A test that hangs costs its own time limit and its own failure, nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 2
WAIT_S = 240.0  # for the limit, and for the process that hangs to be ended

TESTS = """
import threading
from concurrent.futures import ThreadPoolExecutor

def test_whose_thread_never_ends():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(threading.Event().wait).result()  # where this is ended, the end of the block waits as well

def test_after_it():
    pass
"""


ALONE = pytest.param([], id="alone", marks=pytest.mark.evidence)
SIDE_BY_SIDE = pytest.param(["--numprocesses", "1", "--dist", "loadgroup"], id="xdist", marks=pytest.mark.evidence)


@pytest.mark.parametrize("side_by_side", [ALONE, SIDE_BY_SIDE])
def test_a_test_that_hangs_fails_and_the_others_run(tmp_path, side_by_side):
    (tmp_path / "test_written.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    command += ["--rootdir", str(tmp_path), str(tmp_path), "--timeout", str(LIMIT_S), *side_by_side]
    command += ["-p", "pytest_timeout", "-p", "xdist.plugin"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["TIMEOUT_AGAIN_S"] = "1"
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others take seconds to be imported
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert done.returncode == 1, done.stdout
    assert re.search(r"^FAILED \S+::test_whose_thread_never_ends", done.stdout, re.MULTILINE), done.stdout
    assert "1 failed, 1 passed" in done.stdout

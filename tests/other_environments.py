"""Programs that run beside packages of their own: in environments which have this one's packages too."""

import os
import subprocess
import sysconfig
from pathlib import Path

from benchmarks.peers.environments import environment

ROOT = Path(__file__).parents[1]


def python_with(name, *requirements, alone=""):
    python = environment(name, *requirements, alone=alone)
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    (packages / "this_one.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    return python


def run(python, *arguments):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run([python, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_checks(python, *files):
    """Run files of tests in one process, and return what pytest reports, with the reasons of those that are skipped."""
    names = [f"tests/{file}" for file in files]
    report = run(python, "-m", "pytest", "-q", "-rs", "-W", "default", "-p", "no:cacheprovider", *names)
    assert " passed" in report or " skipped" in report
    return report

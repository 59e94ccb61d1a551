"""Run some of the tests with the oldest of everything: Python 3.10 and the least versions that pyproject.toml takes.

Usage: oldest.py. The package is installed from a copy of its files into an environment of its own, whose pins are in
requirements-oldest.lock; 'make lock' writes it. PYTHON_OLDEST names the interpreter where none is found.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from interpreters import find_interpreter  # beside this file

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = "3.10"
TESTS = [
    "tests/service/documents/test_bad_input.py",
    "tests/service/documents/test_columns.py",
    "tests/service/documents/test_fields.py",
    "tests/service/routes/test_stream.py",
    "tests/client",
    "tests/objectives/test_data.py",
    "tests/objectives/test_manipulability.py",
    "tests/solver/given",
]
NOISE = "ignore:Support for Python 3.10 is deprecated:FutureWarning"  # Warp's, of its next series


def main() -> int:
    """Install, and run the tests; return the exit status."""
    python = find_interpreter(VERSION, "PYTHON_OLDEST")
    if python is None:
        print(f"There is no Python {VERSION} here: its tests are left out. PYTHON_OLDEST may name one.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        source, work = pathlib.Path(folder, "source"), pathlib.Path(folder, "work")
        for name in ("ik_service", "objectives"):
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE", "requirements-oldest.lock"):
            shutil.copy(ROOT / name, source / name)
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        own = f"{folder}/venv/bin/python"
        install = [own, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*install, "--require-hashes", "-r", source / "requirements-oldest.lock"], check=True)
        subprocess.run([*install, "--no-build-isolation", source], check=True)
        work.mkdir()
        for name in ("tests", "docs"):  # without the package: the installed one is tried
            shutil.copytree(ROOT / name, work / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, work / name)
        arguments = ["-q", "--numprocesses", "auto", "--maxprocesses", "4", "-W", NOISE, "-p", "no:cacheprovider"]
        environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        return subprocess.run(
            [own, "-m", "pytest", *arguments, *TESTS], cwd=work, env=environment, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())

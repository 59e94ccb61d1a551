"""Pythons of other versions on this machine; the standard library alone."""

import glob
import os
import shutil
import subprocess


def find_interpreter(version: str, variable: str) -> str | None:
    """Return the command of a Python of a version such as "3.10", or None where there is none.

    Args:
        version: The version.
        variable: Variable of the environment that may name one.
    """
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    candidates = [os.environ.get(variable), shutil.which(f"python{version}"), shutil.which("python3")]
    candidates += sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"))
    for candidate in filter(None, candidates):
        command = [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None

"""Make the virtual environment that the Makefile's commands run in, or bring it up to date.

Usage: environment.py FOLDER run|test. It runs before anything is installed, so it uses the standard library alone and
stays readable for older Pythons, which it refuses. What stands in FOLDER already and matches its lock is kept; an
environment whose lock or Python has changed is made again; one that it did not make is never touched.

uv installs, since uv is faster than pip; where uv is missing or fails, pip installs the same packages.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCKS = {"run": "requirements-page.lock", "test": "requirements-dev.lock"}  # what both name has one version
UV_LOCK = "requirements-uv.lock"
PIP_SETTINGS = {  # variables of pip, and what uv calls them
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
OLDEST_PYTHON = (3, 11)


def digest(name):
    """The SHA-256 digest of a file of the project."""
    with open(os.path.join(ROOT, name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read_record(folder):
    """What was installed into the folder, or None where no environment of ours stands."""
    try:
        with open(os.path.join(folder, "installed.json")) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_record(folder, record):
    """Note what is installed in the folder."""
    with open(os.path.join(folder, "installed.json"), "w") as file:
        json.dump(record, file)


def pip(folder, *arguments):
    """Run `pip install` inside the environment; return the exit status."""
    options = ["--disable-pip-version-check", "--no-input", "--no-compile", "-q"]  # most modules are never imported
    command = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--no-deps"]
    return subprocess.run(command + options + list(arguments), cwd=ROOT, check=False).returncode


def uv(folder, *arguments):
    """Run `uv pip install` for the environment, with bars of progress on a terminal; return the exit status."""
    program, python = (os.path.join(folder, "bin", name) for name in ("uv", "python"))
    if not os.path.exists(program):
        return 1
    variables = {uvs: os.environ[pips] for pips, uvs in PIP_SETTINGS.items() if pips in os.environ}
    command = [program, "pip", "install", "--python", python, "--no-deps"]
    command += [] if sys.stderr.isatty() else ["--quiet"]
    return subprocess.run(command + list(arguments), cwd=ROOT, env={**variables, **os.environ}, check=False).returncode


def install(folder, *arguments):
    """Install something with uv, else with pip; without success the process ends."""
    if uv(folder, *arguments) and pip(folder, *arguments):
        sys.exit(f"Neither uv nor pip could install {arguments[-1]}.")


def create(folder):
    """Make an empty environment in the folder."""
    try:
        venv.create(folder, clear=True, with_pip=True)
    except BaseException as error:  # Ctrl-C too: half an environment would be refused the next time
        shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(error, subprocess.CalledProcessError):
            raise
        sys.exit(f"{sys.executable} cannot make virtual environments. Debian and Ubuntu: apt-get install python3-venv")
    pip(folder, "--only-binary", ":all:", "--require-hashes", "-r", UV_LOCK)
    record = {"python": sys.version, "root": ROOT, "locks": {}, "project": None}
    write_record(folder, record)
    return record


def is_current(folder, record):
    """Whether what is installed is what the locks say, for this Python and this place of the project."""
    return (
        record["python"] == sys.version
        and record["root"] == ROOT
        and os.path.exists(os.path.join(folder, "bin", "python"))
        and all(digest(LOCKS[kind]) == installed for kind, installed in record["locks"].items())
    )


def install_lock(folder, lock):
    """Install all packages that a lock names, each with its hash checked."""
    with open(os.path.join(ROOT, lock)) as file:
        count = sum("==" in line for line in file)
    print(f"Installing {count} packages of {lock} into {folder} ...", flush=True)
    started = time.monotonic()
    install(folder, "--only-binary", ":all:", "--require-hashes", "-r", lock)
    print(f"... done in {time.monotonic() - started:.0f} s.", flush=True)


def main(folder, kind):
    """Bring the environment in the folder up to date for running the service or for testing it."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        sys.exit(
            f"Python {oldest} or newer is needed; {sys.executable} is {sys.version.split()[0]}. "
            f"Name another one: make PYTHON=python{oldest} ..."
        )
    record = read_record(folder)
    if record is None and os.path.isdir(folder) and os.listdir(folder):
        sys.exit(f"{folder} was not made by this project. Remove it, or name another folder: make VENV=...")
    if record is None or not is_current(folder, record):
        record = create(folder)
    if kind not in record["locks"]:
        install_lock(folder, LOCKS[kind])
        record["locks"][kind] = digest(LOCKS[kind])
        record["project"] = None
    if record["project"] != digest("pyproject.toml"):
        install(folder, "--no-build-isolation", "--editable", ROOT)
        record["project"] = digest("pyproject.toml")
    write_record(folder, record)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in LOCKS:
        sys.exit("usage: environment.py FOLDER " + "|".join(LOCKS))
    main(os.path.abspath(sys.argv[1]), sys.argv[2])

"""Write the lock files from pyproject.toml, or check that they are in step with it.

Usage: lock.py write [--upgrade], lock.py check. A lock pins every package with the hashes of all its wheels and names
no index. Writing keeps the pins that still fit, unless told to upgrade. The check needs no network: it walks the
requirements of the installed packages, so it runs in the environment that was made from requirements-dev.lock.
"""

import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXTRAS = {
    "requirements.lock": [],
    "requirements-page.lock": ["page"],  # what 'make run' installs
    "requirements-ray.lock": ["ray"],
    "requirements-dev.lock": ["bulk", "page", "mujoco", "test", "dev"],
}
COMPILER, COMPILER_LOCK = "uv==0.13.8", "requirements-uv.lock"  # it also installs: .ci/environment.py
LOCK_OPTIONS = ["--generate-hashes", "--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet"]
COMPILE_OPTIONS = [
    *("--universal", "--python-version", "3.11", "--fork-strategy", "fewest"),  # one set for all Pythons
    *LOCK_OPTIONS,
]
OLDEST_LOCK, OLDEST_EXTRAS = "requirements-oldest.lock", ["client", "oldest"]  # for .ci/oldest.py
OLDEST_OPTIONS = ["--python-version", "3.10", "--resolution", "lowest-direct", *LOCK_OPTIONS]


def write(upgrade: bool) -> None:
    """Resolve pyproject.toml and write each lock, small ones first: each holds the pins of those before it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "-qq", COMPILER], check=True)
        written: list[str] = []
        for lock, extras in EXTRAS.items():
            command = [f"{folder}/bin/uv", "pip", "compile", *COMPILE_OPTIONS, "pyproject.toml", "-", "-o", lock]
            command += [word for extra in extras for word in ("--extra", extra)]
            command += [word for smaller in written for word in ("--constraint", smaller)]
            command += ["--upgrade"] if upgrade else []
            build_backend = "\n".join(project["build-system"]["requires"])
            subprocess.run(command, cwd=ROOT, input=build_backend, text=True, check=True, stdout=subprocess.DEVNULL)
            written.append(lock)
            print(f"Wrote {lock}.")
        command = [f"{folder}/bin/uv", "pip", "compile", *COMPILE_OPTIONS, "-", "-o", COMPILER_LOCK]
        subprocess.run(command, cwd=ROOT, input=COMPILER, text=True, check=True, stdout=subprocess.DEVNULL)
        print(f"Wrote {COMPILER_LOCK}.")
        command = [f"{folder}/bin/uv", "pip", "compile", *OLDEST_OPTIONS, "pyproject.toml", "-", "-o", OLDEST_LOCK]
        command += [word for extra in OLDEST_EXTRAS for word in ("--extra", extra)]
        command += ["--upgrade"] if upgrade else []
        subprocess.run(command, cwd=ROOT, input=build_backend, text=True, check=True, stdout=subprocess.DEVNULL)
        print(f"Wrote {OLDEST_LOCK}.")


def read_pins(lock: str) -> dict[str, str]:
    """The version of each package that a lock names and that this platform installs."""
    from packaging.requirements import Requirement

    lines = [line.removesuffix(" \\") for line in (ROOT / lock).read_text().splitlines() if "==" in line]
    requirements = [Requirement(line) for line in lines]
    pinned = [r for r in requirements if r.marker is None or r.marker.evaluate()]
    return {r.name: str(r.specifier).removeprefix("==") for r in pinned}


def find_faults(lock: str, extras: list[str]) -> list[str]:
    """What is missing from a lock, does not fit, or is no longer needed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    excluded = set(project["tool"]["uv"]["exclude-dependencies"])
    overrides = {one.name: one for one in map(Requirement, project["tool"]["uv"]["override-dependencies"])}
    pins = read_pins(lock)
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += [line for extra in extras for line in project["project"]["optional-dependencies"][extra]]
    waiting = [(Requirement(line), "pyproject.toml", "") for line in wanted]
    needed: set[tuple[str, str]] = set()
    faults = []
    while waiting:
        requirement, source, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        requirement = overrides.get(name, requirement)
        if name == project["project"]["name"]:  # an extra that holds another
            lines = [line for own in requirement.extras for line in project["project"]["optional-dependencies"][own]]
            waiting += [(Requirement(line), source, extra) for line in lines]
            continue
        if name in excluded or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        if name not in pins:
            faults.append(f"{lock}: {source} needs {requirement}, which is not there")
        elif not requirement.specifier.contains(pins[name], prereleases=True):
            faults.append(f"{lock}: {source} needs {requirement}, but {pins[name]} is there")
        for wanted_extra in {"", *requirement.extras}:
            if name in pins and (name, wanted_extra) not in needed:
                needed.add((name, wanted_extra))
                try:
                    lines = importlib.metadata.requires(name) or []
                except importlib.metadata.PackageNotFoundError:  # the packages of the page: what they need is unknown
                    return faults
                waiting += [(Requirement(line), name, wanted_extra) for line in lines]
    unused = set(pins) - {name for name, _ in needed}
    return faults + [f"{lock}: {name} is there, but nothing needs it" for name in sorted(unused)]


def check() -> None:
    """End with an exit status of 1 where a lock is not in step with pyproject.toml."""
    faults = [fault for lock, extras in EXTRAS.items() for fault in find_faults(lock, extras)]
    if read_pins(COMPILER_LOCK) != {"uv": COMPILER.removeprefix("uv==")}:
        faults.append(f"{COMPILER_LOCK}: is not of {COMPILER}")
    if faults:
        sys.exit("\n".join([*faults, "Run 'make lock'."]))
    print("The lock files are in step with pyproject.toml.")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", *options] if options in ([], ["--upgrade"]):
            write(upgrade=bool(options))
        case ["check"]:
            check()
        case _:
            sys.exit("usage: lock.py write [--upgrade] | check")

"""Tests of the project as a whole: what its files may say, what it may import, what a built package holds."""

import ast
import fnmatch
import functools
import importlib
import importlib.metadata
import math
import operator
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

import ik_service

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_FILE = 400  # lines, the house limit
PUBLIC_TWICE = {"LinkPoses", "SolveTarget", "StreamTarget"}  # names of the HTTP schema, and of Python's interface
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = ("requirements.lock", "requirements-ray.lock", "requirements-dev.lock")  # each holds those before it
PAGE_LOCK = "requirements-page.lock"

# Written in halves, so that this file does not hold what it forbids.
PLACES = "/wo|rk/ /ro|ot/ /ho|me/ /tm|p/ pypi|.org python|hosted.org npmjs|.org deb.deb|ian --index|-url --find|-links"
FORBIDDEN_TEXTS = PLACES.replace("|", "").split()

# Floors that may import more than Warp and NumPy. A floor of ik_service that is not named here may not.
KERNEL_IMPORTS = {"warp", "numpy"}
FURTHER_IMPORTS = {
    "ik_service.robots": "mujoco trimesh xacro yaml",
    "ik_service.settings": "pydantic pydantic_settings",
    "ik_service.service": "fastapi pydantic pydantic_core starlette orjson uvicorn msgpack prometheus_client structlog"
    " async_timeout",
    "ik_service.torch": "torch",
    "ik_service.jax": "jax",
    "ik_service.client": "httpx2 msgpack websockets",
    "ik_service.page": "trimesh viser",
    "ik_service.integrations": "ray pyarrow fastapi starlette orjson",  # it runs the service and its solver on Ray
    "ik_service.integrations.ros": "rclpy geometry_msgs moveit_msgs sensor_msgs std_msgs trajectory_msgs",
    "ik_service.cli": "typer rich orjson fastapi uvicorn",  # it starts the service
}


def is_ignored(path: pathlib.Path, patterns: list[str]) -> bool:
    return (
        path.name == ".git"
        or (path / "pyvenv.cfg").exists()
        or any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)
    )


@functools.cache
def project_files() -> list[pathlib.Path]:
    """Every file of the project, found without git, which a machine need not have."""
    patterns = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    files = []
    waiting = [ROOT]
    while waiting:
        kept = [path for path in waiting.pop().iterdir() if not is_ignored(path, patterns)]
        waiting += [path for path in kept if path.is_dir()]
        files += [path for path in kept if path.is_file()]
    return sorted(files)


def files_like(*patterns: str) -> list[pathlib.Path]:
    """The files of the project whose path from its root is like one of the patterns, at least one."""
    files = [f for f in project_files() if any(fnmatch.fnmatch(str(f.relative_to(ROOT)), p) for p in patterns)]
    assert files, f"no file of the project is like {patterns}"
    return files


def imported_packages(file: pathlib.Path) -> set[str]:
    """The top-level packages outside the standard library that a source file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names


def copied(files: list[pathlib.Path], folder: pathlib.Path) -> pathlib.Path:
    """Copy files of the project to their places below a folder, and return the folder."""
    for file in files:
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The project built as a stranger would build it, from a copy of its files."""
    folder = tmp_path_factory.mktemp("wheel")
    patterns = ("ik_service/*", "objectives/*", "pyproject.toml", "LICENSE", "README.md", "MANIFEST.in")
    copied(files_like(*patterns), folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "-w", str(folder), str(folder / "source")], check=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_no_file_names_a_place_on_a_machine_or_a_registry():
    found = []
    for file in files_like("*"):
        text = file.read_text(errors="replace")
        found += [f"{file.relative_to(ROOT)}: {word}" for word in FORBIDDEN_TEXTS if word in text]
    assert not found


def test_no_source_file_is_longer_than_the_house_limit():
    lengths = {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in files_like("*.py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_every_class_has_a_name_of_its_own():
    files: dict[str, set[str]] = {}
    for file in (*files_like("ik_service/*.py"), *files_like("objectives/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, set()).add(str(file.relative_to(ROOT)))
    assert len(files) > 200
    assert {name: sorted(places) for name, places in files.items() if len(places) > 1}.keys() == PUBLIC_TWICE


def number_of(node: ast.expr | None) -> float | None:
    """The number that an expression is: written out, or made of such by arithmetic or a type of Warp."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Attribute):
        return {"math.pi": math.pi, "np.pi": math.pi, "math.inf": math.inf}.get(ast.unparse(node))
    if isinstance(node, ast.Call) and len(node.args) == 1:  # wp.constant(3), wp.float64(2.0)
        return number_of(node.args[0])
    if isinstance(node, ast.BinOp):
        sides = number_of(node.left), number_of(node.right)
        return None if None in sides else OPERATORS[type(node.op)](*sides)
    return None


def test_no_two_constants_of_one_name_have_different_values():
    values: dict[str, dict[float, str]] = {}
    for file in (*files_like("ik_service/*.py"), *files_like("objectives/*.py")):
        for node in ast.parse(file.read_text()).body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(name := targets[0], ast.Name):
                number = number_of(node.value)
                if number is not None and name.id.isupper():
                    values.setdefault(name.id, {})[number] = str(file.relative_to(ROOT))
    assert len(values) > 400
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


@pytest.mark.evidence_cases("ik_service")
@pytest.mark.parametrize("package", ["objectives", "ik_service"])
def test_each_floor_imports_only_the_packages_it_may(package):
    found = []
    for file in files_like(f"{package}/*.py"):
        floor = ".".join(file.relative_to(ROOT).with_suffix("").parts[:2])
        allowed = KERNEL_IMPORTS | {"objectives"}
        if package == "ik_service":
            allowed = allowed | {"ik_service"} | set(FURTHER_IMPORTS.get(floor, "").split())
        found += [f"{file.relative_to(ROOT)} imports {name}" for name in sorted(imported_packages(file) - allowed)]
    assert not found


def test_every_benchmark_finds_what_it_imports():
    apart = ("benchmarks/peers/[!e]*", "benchmarks/scale/ray_cluster_start.py")  # programs that run on their own
    files = set(files_like("benchmarks/*.py")) - set(files_like(*apart))
    assert len(files) > 30
    for file in files:
        importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def test_version_is_the_same_wherever_it_is_told():
    versions = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert versions[0] == PROJECT["version"]
    assert importlib.metadata.version("ik-service") == PROJECT["version"]
    assert ik_service.__version__ == PROJECT["version"]


def test_locks_pin_every_package_with_its_hashes():
    for lock in (*LOCKS, PAGE_LOCK):
        blocks = re.split(r"\n(?=\S)", (ROOT / lock).read_text().strip())
        assert len(blocks) > 10, f"{lock} is nearly empty"
        assert [block for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []


def pins_of(lock):
    return dict(re.findall(r"^([^\s=]+)==(\S+)", (ROOT / lock).read_text(), flags=re.MULTILINE))


def test_each_lock_holds_every_pin_of_the_smaller_ones_and_that_of_the_page_agrees():
    service, ray, tests = (pins_of(lock).items() for lock in LOCKS)
    assert service, "no pin was read"
    assert service < ray < tests
    page = pins_of(PAGE_LOCK)
    assert service < page.items()  # 'make run' installs the service with the page
    assert "viser" in page
    common = page.keys() & dict(tests).keys()
    assert common
    assert {name: page[name] for name in common} == {name: dict(tests)[name] for name in common}


def test_built_package_holds_all_sources_and_nothing_else(wheel):
    sources = {str(file.relative_to(ROOT)) for file in files_like("ik_service/*.py", "objectives/*.py")}
    templates = {str(file.relative_to(ROOT)) for file in files_like("ik_service/*.in")}
    typed = {"ik_service/py.typed", "objectives/py.typed"}
    robots = {str(file.relative_to(ROOT)) for file in files_like("ik_service/robots/builtin/*")}
    robots |= {"ik_service/page/first_poses.json", "ik_service/page/page.css"}
    robots |= {str(file.relative_to(ROOT)) for file in files_like("ik_service/service/routes/first_page/*")}
    built = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert built == sources | templates | typed | robots


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The source archive, unpacked."""
    tmp_path = tmp_path_factory.mktemp("archive")
    folder = copied(project_files(), tmp_path / "source")
    build = "from setuptools.build_meta import build_sdist; build_sdist('.')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        held.extractall(tmp_path / "unpacked", filter="data")
    return next((tmp_path / "unpacked").iterdir())


def test_source_archive_holds_all_files(unpacked):
    files = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    made = {name for name in files if name.startswith("ik_service.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert files - made == {str(file.relative_to(ROOT)) for file in project_files()}


@pytest.mark.evidence
def test_the_tests_of_the_source_archive_pass(unpacked):
    tests = ["tests/test_result_schema.py", "tests/solver/given", "-k", "not evidence", "-x"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    variables |= {"PYTHONPATH": str(unpacked), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=unpacked, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.evidence  # twine is fetched
def test_the_archives_pass_the_check_of_the_index(tmp_path):
    folder = copied(project_files(), tmp_path / "source")
    command = ["make", "dist", f"VENV={sys.prefix}", "environment=true"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file.suffix for file in (folder / "dist").iterdir()} >= {".whl", ".gz"}
    assert done.stdout.count("PASSED") == 2


def test_built_package_declares_its_licence_and_command(wheel):
    names = {pathlib.PurePosixPath(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(names["LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert "ik-service = ik_service.cli:main" in wheel.read(names["entry_points.txt"]).decode()

"""What is installed decides what can be imported: a solve takes the plain dependencies, all else names its extra."""

import importlib.metadata
import re
import subprocess
import sys
from functools import cache

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PLAIN = {
    *("warp-lang", "numpy", "fastapi", "uvicorn", "pydantic", "uvloop", "httptools", "websockets", "pydantic-settings"),
    *("orjson", "msgpack", "prometheus-client", "structlog", "fastapi-offline", "typer", "rich"),
}
SOLVE = """
from ik_service import IKSolver, load_robot
result = IKSolver(load_robot("panda"), ["panda_hand"], device="cpu").solve([[0.4, 0.1, 0.5]], [[1, 0, 0, 0]])
assert result.success.all()
"""
CONTROL = """
from ik_service.control import IKController
from ik_service import load_robot
"""
APPLICATION = "from ik_service.service import create_app"
COMMAND = """
import sys
from ik_service.cli import main
sys.argv = ["ik-service", "--version"]
main()
"""
CLIENT = "import ik_service.client"
PAGE = "import ik_service.page"
BLOCK = """
import sys
blocked = set({names!r})
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""


@cache
def distributions():
    return {canonicalize_name(one.name): one for one in importlib.metadata.distributions()}


@cache
def owners():
    return importlib.metadata.packages_distributions()


@cache
def declared(extra):
    """What pyproject.toml asks for in an extra, '' for the plain dependencies; extras in extras are followed."""
    found = set()
    for line in importlib.metadata.requires("ik-service") or []:
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            if one.name == "ik-service":
                found |= {name for further in one.extras for name in declared(further)}
            elif extra == "" or "extra ==" in str(one.marker):
                found.add(canonicalize_name(one.name))
    return found


def installed_with(*extras):
    """All distributions that come with some extras, by the requirements of those that are installed."""
    known = distributions()
    waiting, found = [name for extra in ("", *extras) for name in declared(extra)], set()
    while waiting:
        name = waiting.pop()
        if name not in found and name in known:
            found.add(name)
            needed = map(Requirement, known[name].requires or [])
            waiting += [
                canonicalize_name(one.name)
                for one in needed
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return found


def run(program, *extras):
    """Run a program in which nothing but these extras can be imported."""
    allowed = installed_with(*extras)
    names = sorted(
        module
        for module, of in owners().items()
        if module not in {"ik_service", "objectives"} and not {canonicalize_name(name) for name in of} & allowed
    )
    assert {"pytest", "hypothesis"} <= set(names)
    text = BLOCK.format(names=names) + program
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False)


def test_the_plain_dependencies_are_these_and_the_extras_of_former_days_are_empty():
    assert declared("") == PLAIN
    assert declared("service") == declared("cli") == set()


@pytest.mark.parametrize("program", [APPLICATION, COMMAND], ids=["service", "command"])
def test_the_plain_dependencies_serve(program):
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", [pytest.param(SOLVE, id="solve", marks=pytest.mark.evidence), CONTROL])
def test_the_library_takes_the_plain_dependencies_and_prints_nothing(program):
    done = run(program)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


HELP = """
from typer.testing import CliRunner
from ik_service.cli.app import app
for arguments in (["--help"], ["solve", "--help"], ["version"]):
    assert CliRunner().invoke(app, arguments).exit_code == 0, arguments
"""
LIGHT = {  # a program, and what it must not load
    "solve": (SOLVE, "fastapi uvicorn pydantic starlette"),
    "help": (HELP, "warp numpy fastapi objectives ik_service.robots"),
    "health": ("import ik_service.cli.health_command", "warp pydantic numpy"),
    "client": (CLIENT, "warp fastapi pydantic objectives"),
    "proxy": ("import ik_service.integrations.proxy_layer", "warp numpy ray"),
}


@pytest.mark.parametrize(("program", "heavy"), LIGHT.values(), ids=LIGHT)
def test_what_is_light_loads_nothing_heavy(program, heavy):
    text = f"{program}\nimport sys; print(sorted(set({heavy.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.quick_cases("page")
@pytest.mark.parametrize(
    ("program", "extra"),
    [
        pytest.param(CLIENT, "client", id="client"),
        pytest.param(PAGE, "page", id="page"),
        pytest.param(f"{APPLICATION}\n{PAGE}", "all", id="all"),
    ],
)
def test_an_extra_has_all_that_its_part_imports(program, extra):
    done = run(program, extra)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("program", "extra"),
    [(CLIENT, "client"), (PAGE, "page"), ("import ik_service.torch", "torch"), ("import ik_service.jax", "jax")],
)
def test_what_is_missing_is_named_with_its_extra(program, extra):
    done = run(program)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(rf" needs \w+\. Install the extra '{extra}': pip install '\.\[{extra}\]'", last), done.stderr

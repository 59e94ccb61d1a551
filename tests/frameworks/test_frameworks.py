"""What runs beside PyTorch and JAX: in environments of their own, which have this one's packages too."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from benchmarks.peers.environments import environment

ROOT = Path(__file__).parents[2]
TORCH, JAX = "torch==2.13.0", "jax==0.10.2"


def python_with(name, requirement):
    """The Python of an environment that has a package."""
    python = environment(name, requirement)
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    (packages / "this_one.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    return python


@pytest.fixture(scope="module")
def torch_python():
    return python_with("torch", TORCH)


def run(python, *arguments):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run([python, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_checks(python, file):
    report = run(python, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", f"tests/frameworks/{file}")
    assert " passed" in report
    assert "skipped" not in report


def documented(section):
    """The block of code under a heading of the page on gradients."""
    page = (ROOT / "docs" / "gradients.md").read_text()
    return page.partition(f"\n## {section}\n")[2].partition("```py\n")[2].partition("```")[0]


def test_the_page_on_gradients_shows_how_torch_is_used(torch_python):
    assert "True" in run(torch_python, "-c", documented("PyTorch"))


def test_the_page_on_gradients_shows_how_jax_is_used():
    report = run(python_with("jax", JAX), "-c", documented("JAX"))
    assert "Array(" in report


def test_solves_are_operations_of_torch(torch_python):
    run_checks(torch_python, "torch_checks.py")


def test_solves_are_functions_of_jax():
    run_checks(python_with("jax", JAX), "jax_checks.py")


def test_a_tool_offset_is_learnt(torch_python):
    report = run(torch_python, "examples/learn_tool_offset.py")
    assert float(report.split()[-2]) < 0.1, report


def test_a_base_finds_its_place(torch_python):
    report = run(torch_python, "examples/place_base.py")
    first, last = (float(line.split()[-2]) for line in report.splitlines())
    assert last < 0.8 * first, report

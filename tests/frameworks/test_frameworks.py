"""Programs beside PyTorch, JAX, LeRobot, toppra and ruckig, in environments with the packages of the tests, too."""

import re
from pathlib import Path

import pytest

from benchmarks.peers.environments import LEROBOT
from benchmarks.problems.compared_robots import FOREIGN, installed
from tests.other_environments import python_with, run, run_checks

pytestmark = pytest.mark.evidence  # PyTorch and JAX take gigabytes
ROOT = Path(__file__).parents[2]
TORCH, JAX = "torch==2.13.0", "jax==0.10.2"
TRAJECTORIES = ("toppra==0.6.10", "ruckig==0.19.4")


@pytest.fixture(scope="module")
def torch_python():
    return python_with("torch", TORCH)


def documented(heading, page="gradients.md"):
    """The block of code under a heading of a page, by default that on gradients."""
    return (ROOT / "docs" / page).read_text().partition(f"{heading}\n")[2].partition("```py\n")[2].partition("```")[0]


def test_solves_are_operations_of_torch_as_the_page_on_gradients_shows(torch_python):
    assert "True" in run(torch_python, "-c", documented("\n## PyTorch"))
    assert "skipped" not in run_checks(torch_python, "frameworks/torch_checks.py", "frameworks/torch_device_checks.py")


def test_solves_are_functions_of_jax_as_the_page_on_gradients_shows():
    python = python_with("jax", JAX)
    assert "Array(" in run(python, "-c", documented("\n## JAX"))
    assert "skipped" not in run_checks(python, "frameworks/jax_checks.py")


def test_a_tool_offset_is_learnt(torch_python):
    report = run(torch_python, "examples/learn_tool_offset.py")
    assert float(report.split()[-2]) < 0.1, report


def test_a_base_finds_its_place(torch_python):
    report = run(torch_python, "examples/place_base.py")
    first, last = (float(line.split()[-2]) for line in report.splitlines())
    assert last < 0.8 * first, report


def test_the_gripper_of_an_so101_is_led_through_a_pipeline_of_lerobot():
    python = python_with("lerobot", *LEROBOT, alone="lerobot==0.4.4")
    report = run(python, "examples/lerobot_so101.py", installed(FOREIGN, "so_arm_description/urdf/so101.urdf"))
    errors = list(map(float, re.findall(r"[\d.]+(?=[ ,])", report)))
    assert len(errors) == 4, report
    assert 0.0 < errors[1] < 0.05, report  # [mm]
    assert errors[3] < 0.1, report  # [degrees]: the gripper points downwards, where no axis is missing


def test_a_path_becomes_a_trajectory_by_toppra_and_ruckig():
    code = documented("# From a path to a trajectory", "recipes/from-a-path-to-a-trajectory.md")
    assert len(code.splitlines()) <= 60
    report = run(python_with("trajectories", *TRAJECTORIES), "-c", code)
    approach_s, path_s, speed, acceleration = map(float, report.split())
    assert 0.0 < approach_s < path_s < 0.01 * 199  # faster than the guess of the path
    assert max(speed, acceleration) > 0.9  # a limit is used
    assert max(speed, acceleration) < 1.01

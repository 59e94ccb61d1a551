"""What only a GPU runs, on a pretended one: all files of checks in one process of their own, and what they leave out.

`docs/gpu.md` says what that proves and what it does not.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.kept_code import kept_folder, processor
from tests.pretended_cuda.branches import asking_places
from tests.pretended_cuda.plugin import device_folder, run_on_device

CHECKS = sorted(str(path) for path in Path(__file__).parent.glob("*_checks.py"))
PASSED = re.compile(r"(\d+) passed")
LEAST_PASSED, LEAST_PASSED_ALL = 50, 85  # checks there are; fewer would mean that some were not found
ALL = ("-m", "evidence or not evidence")
FIRST_RUN_S = 1800.0  # all kernels are compiled in the first test
pytestmark = pytest.mark.timeout(FIRST_RUN_S)
UNREACHED = {  # places that ask no GPU here, each with its reason
    "ik_service/torch/operators.py:90": "PyTorch has no tensors on the pretended device; an H100 has run it"
}


@pytest.fixture(scope="module")
def on_device():
    """Runs tests on the device, which is kept from run to run; they pass, and no kernel has an address of the host."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed, and the pretended device and its kernels have to be compiled.")
    if sys.platform != "linux":
        pytest.skip("The pretended device closes its memory by the means of Linux.")
    folder = device_folder(kept_folder(), processor())

    def run(*arguments, **chosen):
        status, said, report = run_on_device(folder, *arguments, **chosen)
        sys.stdout.write(f"{PASSED.findall(said)} passed, {report.get('counts')}\n")
        assert status == 0, said
        assert report["counts"]["launches"] > 0
        assert report["counts"]["host_addresses"] == 0
        return said, report

    return run


def require_all(said, report, least):
    assert int(PASSED.search(said)[1]) >= least
    assert "skipped" not in said
    for name in ("launches", "graphs", "graph_launches", "waits"):
        assert report["counts"][name] > 100, name


def test_the_quick_checks_pass(on_device):
    require_all(*on_device(*CHECKS), LEAST_PASSED)


@pytest.mark.evidence
def test_all_checks_pass_and_every_place_that_asks_what_a_device_is_asks_a_gpu(on_device):
    said, report = on_device(*CHECKS, *ALL)
    require_all(said, report, LEAST_PASSED_ALL)
    places, asked = asking_places(), set(report["places"])
    assert len(places) > 15
    assert {place for place, lines in places.items() if not asked & lines} == set(UNREACHED)


@pytest.mark.evidence
@pytest.mark.parametrize("seed", range(2, 4))
def test_checks_pass_in_other_random_orders(on_device, seed):
    on_device(*CHECKS, *ALL, numbers={"seed": seed, "pause_each": 4 * seed})


INSTEAD_OF_CPUS = (  # files of tests that run on the device as they are
    *("control/test_controller", "control/test_faults", "control/test_first_tick", "control/test_floating"),
    *("control/paths/test_follow", "kernels/test_deadline", "solver/arrays/test_batch_laws"),
    *("solver/compiled/test_functions", "solver/given/test_target_data", "solver/lm/test_minima"),
    *("solver/second_tries/test_collision_repair", "solver/test_loops", "solver/verdict/test_choices"),
    "solver/verdict/test_target_errors",
)
LEFT_OUT = (
    # A GPU makes the first wave of attempts in any case.
    *(f"kernels/test_deadline.py::test_what_is_not_done_by_then_says_so[1e-09-options{k}]" for k in range(4)),
    "kernels/test_deadline.py::test_objectives_alone_are_at_no_minimum_that_nobody_looked_for",
    # A GPU has a plan for each power of two of problems.
    "solver/given/test_target_data.py::test_values_record_nothing_anew",
    "solver/given/test_target_data.py::test_other_data_of_objectives_record_nothing_anew",
)


@pytest.mark.evidence
@pytest.mark.parametrize("tests", INSTEAD_OF_CPUS)
def test_tests_of_a_cpu_pass_on_the_device(on_device, tests):
    left_out = [argument for name in LEFT_OUT for argument in ("--deselect", f"tests/{name}")]
    on_device(f"tests/{tests}.py", *left_out, "--tb=short", instead=True)

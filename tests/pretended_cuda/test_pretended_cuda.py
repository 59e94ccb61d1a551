"""What only a GPU runs, on a pretended one: all files of checks in one process of their own, and what they leave out.

`docs/gpu.md` says what that proves and what it does not.
"""

import functools
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.kept_code import kept_folder, processor
from tests.pretended_cuda.branches import asking_places
from tests.pretended_cuda.plugin import device_folder, run_on_device

HERE = Path(__file__).parent
CHECKS = sorted(str(path) for path in HERE.glob("*_checks.py"))
PASSED = re.compile(r"(\d+) passed")
LEAST_PASSED, LEAST_PASSED_ALL = 90, 130  # checks there are; fewer would mean that some were not found
ALL = ("-m", "evidence or not evidence")
FIRST_RUN_S = 1800.0  # all kernels are compiled in the first test
pytestmark = pytest.mark.timeout(FIRST_RUN_S)
UNREACHED = {  # places that ask no GPU here, each with its reason
    "ik_service/torch/operators.py:90": "PyTorch has no tensors on the pretended device; an H100 has run it",
}


@pytest.fixture(scope="module")
def folder():
    """The folder of the device and its kernels, kept from run to run."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed, and the pretended device and its kernels have to be compiled.")
    if sys.platform != "linux":
        pytest.skip("The pretended device closes its memory by the means of Linux.")
    return device_folder(kept_folder(), processor())


def require_passed(status, said, report, least):
    sys.stdout.write(said)
    assert status == 0, said
    assert int(PASSED.search(said)[1]) >= least
    assert "skipped" not in said
    counts = report["counts"]
    assert counts["host_addresses"] == 0
    for name in ("launches", "graphs", "graph_launches", "waits"):
        assert counts[name] > 100, counts


def test_the_quick_checks_pass(folder):
    require_passed(*run_on_device(folder, *CHECKS), LEAST_PASSED)


@pytest.mark.evidence
def test_all_checks_pass_and_every_place_that_asks_what_a_device_is_asks_a_gpu(folder):
    status, said, report = run_on_device(folder, *CHECKS, *ALL)
    require_passed(status, said, report, LEAST_PASSED_ALL)
    places, asked = asking_places(), set(report["places"])
    assert len(places) > 15
    not_asked = set()
    for place, lines in places.items():
        path = place.partition(":")[0]
        if not asked & {f"{path}:{line}" for line in lines}:
            not_asked.add(place)
    assert not_asked == set(UNREACHED)


def test_this_process_has_no_such_device():
    import warp as wp

    wp.init()
    assert "pretended device" not in {device.name for device in wp.get_devices()}
    assert not any(name.startswith("PRETENDED_CUDA") for name in os.environ)
    assert not isinstance(wp._src.build.build_cuda, functools.partial)


@pytest.mark.evidence
@pytest.mark.parametrize("seed", range(2, 6))
def test_checks_pass_in_other_random_orders(folder, seed):
    files = [check for check in CHECKS if "device_checks" not in check]
    status, said, report = run_on_device(folder, *files, *ALL, numbers={"seed": seed, "pause_each": 4 * seed})
    sys.stdout.write(f"seed {seed}: {PASSED.findall(said)} passed, {report.get('counts')}\n")
    assert status == 0, said


INSTEAD_OF_CPUS = {  # files of tests that run on the device as they are, and tests that cannot, each with its reason
    "tests/control/test_controller.py": {},
    "tests/control/test_faults.py": {},
    "tests/control/test_first_tick.py": {},
    "tests/control/test_floating.py": {},
    "tests/control/paths/test_follow.py": {},
    "tests/solver/arrays/test_batch_laws.py": {},
    "tests/solver/compiled/test_functions.py": {},
    "tests/solver/verdict/test_target_errors.py": {},
    "tests/kernels/test_deadline.py": dict.fromkeys(
        [
            *(f"test_what_is_not_done_by_then_says_so[1e-09-options{k}]" for k in range(4)),
            "test_objectives_alone_are_at_no_minimum_that_nobody_looked_for",
        ],
        "a GPU makes the first wave of attempts in any case",
    ),
    "tests/solver/lm/test_minima.py": {},
    "tests/solver/given/test_target_data.py": {
        "test_values_record_nothing_anew": "a GPU has a plan for each power of two of problems",
        "test_other_data_of_objectives_record_nothing_anew": "the same",
    },
}


@pytest.mark.evidence
@pytest.mark.parametrize("tests", INSTEAD_OF_CPUS)
def test_tests_of_a_cpu_pass_on_the_device(folder, tests):
    left_out = [argument for name in INSTEAD_OF_CPUS[tests] for argument in ("--deselect", f"{tests}::{name}")]
    status, said, report = run_on_device(folder, tests, *left_out, "--tb=short", instead=True)
    sys.stdout.write(f"{tests}: {PASSED.findall(said)}, {report.get('counts')}\n")
    assert status == 0, said
    assert report["counts"]["launches"] > 0
    assert report["counts"]["host_addresses"] == 0

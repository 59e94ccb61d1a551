"""PTX of the kernels for GPUs, as NVRTC writes it, run on a CPU: its answers are those of the CPU engine.

`docs/gpu.md` says what that proves and what it does not.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from ik_service import builtin_robot_names
from ik_service.solver.compiled import island_launches
from ik_service.solver.compiled.island_launches import ThreadLaunches
from tests.pretended_cuda.plugin import run_on_device
from tests.ptx.plugin import ptx_folder
from tests.ptx.problems import FOREIGN, LINKS, Course, draw, explained, solve, solver_of

HERE = Path(__file__).parent
CHECKS = sorted(str(path) for path in HERE.glob("*_checks.py"))
FIRST_RUN_S = 1800.0  # all kernels are compiled in the first test
pytestmark = pytest.mark.timeout(FIRST_RUN_S)
ROBOTS = ("panda", "ur5e")
SAME_SEEDS = 0.98  # of the problems, if nothing is off: the rest is decided by rounding


def run(course, *files):
    """Run checks in a process with the device."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed, and PTX becomes code of this machine by it.")
    if sys.platform != "linux":
        pytest.skip("The pretended device closes its memory by the means of Linux.")
    with pytest.MonkeyPatch.context() as patch:
        course.put(patch)
        status, said, report = run_on_device(ptx_folder(), *files, plugin="tests.ptx.plugin")
    assert status == 0, said
    assert "skipped" not in said
    assert report["counts"]["host_addresses"] == 0


def compared(course, name):
    """Compare the answers of a robot with the CPU engine's; return lines that say what was found."""
    problems, lines = draw(name, course.count), list[str]()
    with pytest.MonkeyPatch.context() as patch:  # a step in the space of rows rounds otherwise than one in that of DOFs
        patch.setattr(island_launches.PacketLaunches, "step_entries_max", ThreadLaunches.step_entries_max)
        patch.setattr(island_launches, "_packet_kernel", island_launches._packet_kernel.__wrapped__)
        solver = solver_of(problems, "cpu")
        expected = solve(solver, problems)
    with np.load(course.file(name)) as found:
        listed = json.loads(str(found["opcodes"]))
        names = {opcode.split(".")[0] for opcode in listed}
        lines.append(
            f"{name}: {sum(listed.values())} instructions of PTX, {len(names)} names, {len(listed)} with types"
        )
        for noise, executed in zip(course.noises, found["executed"], strict=True):
            success, seeds = found[f"success_{noise}"], found[f"seeds_{noise}"]
            np.testing.assert_array_equal(success, expected.success)
            others = np.flatnonzero((seeds != expected.islands.seed_index).any(axis=1))
            assert len(others) <= (1 - SAME_SEEDS) * course.count
            unexplained = [row for row in others if not explained(solver, problems, row, seeds[row])]
            lines.append(
                f"  noise {noise}: {executed / 1e6:.0f} M executed; solved {success.sum()} of {len(success)}, true in "
                f"float64, as by the CPU engine; other winners {len(others)}, without explanation {len(unexplained)}"
            )
            assert not unexplained, lines
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The short course, run."""
    course = Course(ROBOTS, 200, 4, (0, 1), tmp_path_factory.mktemp("answers"))
    run(course, *CHECKS)
    return course


@pytest.mark.parametrize("name", ROBOTS)
def test_winners_are_those_of_the_cpu(name, course):
    sys.stdout.write(compared(course, name))


def test_the_evidence_has_all_built_in_robots():
    assert set(LINKS) == set(builtin_robot_names())


@pytest.mark.evidence
@pytest.mark.parametrize("name", [*LINKS, *FOREIGN])
def test_ten_thousand_targets_in_a_hundred_schedules(name, tmp_path):
    course = Course((name,), 10_000, 100, (0, 1), tmp_path)
    run(course, *(check for check in CHECKS if "answer_checks" in check))
    sys.stdout.write(compared(course, name))

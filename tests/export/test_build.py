"""How an export builds: by GCC and Clang, as C99 and C++17, with nothing of Warp, Python or an allocator in it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ik_service
from ik_service.control import IKController
from ik_service.export import export_solver
from tests.export.c_library import C99, CLANG, CXX17, WARNINGS, run, symbols
from tests.export.conftest import PANDA_COUNT
from tests.kept_code import compiled_anew

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "embedding.md"
EXAMPLE = ROOT / "examples" / "control_loop"
EXAMPLES = {"example": "problems.bin", "tick_example": "ticks.bin"}
SAME = "same bytes as in Python: yes"
# What a program with an export may take from libc and libm.
FROM_LIBRARIES = {
    *("memcpy", "memmove", "memset", "clock_gettime"),
    *("asin", "asinf", "atan2", "nextafterf", "sin", "sincos", "sincosf", "sqrt"),
}
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
BAD_INPUT = """
#include "panda_ik.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    double positions[6] = {0.4, 0.1, 0.5, 0.4, 0.1, 0.5}, orientations[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    double bad[4] = {NAN, INFINITY, 1e300, -1e10};
    double lower[14] = {0}, upper[14] = {0}, change[14] = {0}, start[14] = {0};
    uint8_t frozen[14] = {0};
    float joint_q[14];
    size_t size = panda_workspace_size(2), limits_size = panda_limits_workspace_size(2);
    void *workspace = malloc(size), *limits_workspace = malloc(limits_size);
    panda_problems problems;
    panda_results results;
    panda_controller controller;
    panda_tick_input input;
    panda_tick_result result;
    double pose[7] = {0.4, 0.1, 0.5, 1, 0, 0, 0};
    int k, wrong = 0;
    memset(&problems, 0, sizeof problems);
    memset(&results, 0, sizeof results);
    problems.count = 2;
    problems.positions = positions;
    problems.orientations_xyzw = orientations;
    results.joint_q = joint_q;
    for (k = 0; k < 4; ++k) {
        positions[k] = bad[k];
        wrong += panda_solve(&problems, NULL, &results, workspace, size) != PANDA_BAD_NUMBER;
        positions[k] = 0.4;
        orientations[k] = bad[k];
        wrong += panda_solve(&problems, NULL, &results, workspace, size) != PANDA_BAD_NUMBER;
        orientations[k] = k == 0;
    }
    memset(orientations, 0, sizeof orientations);
    wrong += panda_solve(&problems, NULL, &results, workspace, size) != PANDA_BAD_NUMBER;
    orientations[0] = orientations[4] = 1.0;
    wrong += panda_solve(&problems, NULL, &results, workspace, size) != PANDA_OK;
    wrong += panda_solve(&problems, NULL, &results, workspace, size - 1) != PANDA_SMALL_WORKSPACE;
    for (k = 0; k < 14; ++k) {
        lower[k] = -2.0;
        upper[k] = change[k] = 2.0;
        start[k] = k % 7 == 3 ? -1.0 : 0.1;
    }
    problems.joint_limit_lower = lower;
    problems.joint_limit_upper = upper;
    problems.initial_joint_q = start;
    problems.max_change = change;
    problems.frozen = frozen;
    problems.initial_joint_q_count = problems.joint_limit_count = 2;
    wrong += panda_solve(&problems, NULL, &results, limits_workspace, limits_size) != PANDA_OK;
    wrong += panda_solve(&problems, NULL, &results, limits_workspace, size) != PANDA_SMALL_WORKSPACE;
    for (k = 0; k < 4; ++k) {
        lower[13] = bad[k];
        wrong += panda_solve(&problems, NULL, &results, limits_workspace, limits_size)
            != (k == 3 ? PANDA_OK : PANDA_BAD_LIMITS);
        lower[13] = -2.0;
        start[13] = bad[k];
        wrong += panda_solve(&problems, NULL, &results, limits_workspace, limits_size) != PANDA_BAD_NUMBER;
        start[13] = 0.1;
    }
    problems.initial_joint_q_count = problems.joint_limit_count = 1;
    wrong += panda_solve(&problems, NULL, &results, limits_workspace, limits_size) != PANDA_OK;
    free(limits_workspace);
    memset(&input, 0, sizeof input);
    input.targets = pose;
    input.dt = 1e-3;
    wrong += panda_controller_init(&controller, NULL) != PANDA_OK;
    wrong += panda_tick(&controller, &input, &result) != PANDA_NOT_RESET || result.status != PANDA_INVALID;
    wrong += panda_tick(&controller, &input, NULL) != PANDA_NOT_RESET;
    wrong += panda_controller_reset(&controller, NULL, NULL) != PANDA_OK;
    for (k = 0; k < 4; ++k) {
        pose[k] = bad[k];
        input.deadline_ns = k % 2; /* or long past */
        wrong += panda_tick(&controller, &input, &result) != PANDA_OK || (k < 2 && result.status != PANDA_INVALID);
        pose[k] = k == 3;
    }
    wrong += panda_tick(&controller, &input, NULL) != PANDA_OK;
    free(workspace);
    return wrong;
}
"""
TWO_ROBOTS = """
#include "panda_ik.h"
#include "dual_panda_ik.h"
int main() { return panda_workspace_size(1) < dual_panda_workspace_size(1) ? 0 : 1; }
"""


@pytest.fixture
def folder(panda, tmp_path):
    """A copy of the files of the Panda."""
    panda.export.write(tmp_path)
    return tmp_path


def objects(folder):
    ends = ("io", "islands", "tick")
    return sorted(path.name for end in ends for path in folder.glob(f"*_{end}.o"))


@pytest.mark.evidence_cases("clang", "clang++", "g++")
@pytest.mark.parametrize(
    ("compiler", "language"),
    [(["gcc"], C99), (["g++"], CXX17), ([*CLANG, "cc"], C99), ([*CLANG, "c++"], CXX17)],
    ids=["gcc", "g++", "clang", "clang++"],
)
def test_it_compiles_without_a_warning_and_gives_the_same_bytes(folder, compiler, language):
    for name in ("panda_ik", *EXAMPLES):
        run([*compiler, "-O2", *language, *WARNINGS, "-c", f"{name}.c", "-o", f"{name}.o"], folder)
    linker = (
        compiler if compiler[0] in ("gcc", "g++") else ["gcc"]
    )  # the one that comes with it wants a libc of its own
    for name, data in EXAMPLES.items():
        run([*linker, f"{name}.o", "panda_ik.o", *objects(folder), "-lm", "-o", name], folder)
        assert run([f"./{name}", data], folder).splitlines()[-1] == SAME


def test_the_programs_of_the_document_run(folder):
    programs = re.findall(r"^```c\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    run(["gcc", "-c", "panda_ik.c"], folder)
    for program, said in zip(programs, ("solved, joint 1 at ", "there, "), strict=True):
        (folder / "program.c").write_text(program)
        for compiler, language in (("gcc", C99), ("g++", CXX17)):
            run([compiler, *language, *WARNINGS, "-c", "program.c"], folder)
            run(["gcc", "program.o", "panda_ik.o", *objects(folder), "-lm", "-o", "program"], folder)
            assert run(["./program"], folder).startswith(said)


@pytest.mark.evidence
def test_a_small_stack_is_enough(exported, tmp_path):
    dual = exported("dual_panda")
    dual.export.write(tmp_path)
    for name, data in EXAMPLES.items():
        run(["gcc", "-O0", f"{name}.c", "dual_panda_ik.c", *objects(tmp_path), "-lm", "-o", name], tmp_path)
        assert SAME in run(["sh", "-c", f"ulimit -s 64 && ./{name} {data}"], tmp_path)


@pytest.mark.evidence_cases("dual_panda", "floating")
@pytest.mark.parametrize("name", ["panda", "dual_panda", "floating"])
def test_it_takes_nothing_but_mathematics_from_libraries(exported, tmp_path, name):
    exported(name).export.write(tmp_path)
    run(["gcc", "-O0", "-c", f"{name}_ik.c"], tmp_path)
    together = [symbol for path in tmp_path.glob(f"{name}_*.o") for symbol in symbols(path)]
    defined = {text for kind, text in together if kind in "TDRBV"}
    wanted = {text for kind, text in together if kind == "U"} - defined - {"_GLOBAL_OFFSET_TABLE_"}
    assert {f"{name}_solve", f"{name}_tick"} <= defined
    assert wanted <= FROM_LIBRARIES


def test_it_needs_no_other_library(panda):
    needed = run(["ldd", "library.so"], panda.folder)
    assert {re.split(r"[.-]", line.split("/")[-1].split()[0])[0] for line in needed.splitlines()} <= {
        "linux",
        "libm",
        "libc",
        "ld",
    }


@pytest.mark.evidence
def test_two_robots_go_into_one_program(exported, tmp_path):
    for name in ("panda", "dual_panda"):
        exported(name).export.write(tmp_path)
    (tmp_path / "two.cpp").write_text(TWO_ROBOTS)
    for name in ("panda", "dual_panda"):
        run(["gcc", "-c", f"{name}_ik.c"], tmp_path)
    run(["g++", "two.cpp", "panda_ik.o", "dual_panda_ik.o", *objects(tmp_path), "-lm", "-o", "two"], tmp_path)
    run(["./two"], tmp_path)


def test_objects_of_another_export_do_not_link(panda, folder):
    source = (folder / "panda_ik.c").read_text()
    (folder / "panda_ik.c").write_text(source.replace(f"panda_{panda.linked.abi:08x}_", "panda_00000000_"))
    with pytest.raises(AssertionError, match="undefined reference"):
        run(["gcc", "example.c", "panda_ik.c", *objects(folder), "-lm", "-o", "example"], folder)


@pytest.mark.evidence
def test_an_export_is_the_same_each_time(panda):
    again = ik_service.IKSolver(panda.solver.robot, ["panda_hand"], device="cpu")
    again.solve(*panda.targets(20))  # arrays of other sizes at other addresses
    controller = IKController(panda.solver.robot, ["panda_hand"])
    controller.reset(panda.solver.robot.mid_joint_q)
    controller.step(np.array([0.4, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]))
    with compiled_anew():
        files = export_solver(again, controller=controller, problem_count=PANDA_COUNT).files
    assert files == panda.export.files


@pytest.mark.evidence
def test_sanitizers_find_nothing(folder):
    (folder / "bad_input.c").write_text(BAD_INPUT)
    run(["gcc", *SANITIZERS, "-c", "panda_ik.c"], folder)
    for name in (*EXAMPLES, "bad_input"):
        run(["gcc", *SANITIZERS, f"{name}.c", "panda_ik.o", *objects(folder), "-lm", "-o", name], folder)
    for name, data in EXAMPLES.items():
        assert SAME in run([f"./{name}", data], folder)
    run(["./bad_input"], folder)


@pytest.mark.evidence
def test_the_control_loop_follows_its_circle(folder):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed, and what is exported has to be built with it.")
    run(["cmake", "-S", str(EXAMPLE), "-B", "build", f"-DPANDA_EXPORT={folder}"], folder)
    run(["cmake", "--build", "build", "--target", "control_loop"], folder)
    said = run(["build/control_loop", "0.5"], folder)
    assert re.fullmatch(r"500 ticks: .*\nthe command was 0\.\d+ mm from .*\noverruns: \d+\n", said)


@pytest.mark.evidence
def test_cmake_builds_and_installs_it(folder):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed, and what is exported has to be built with it.")
    run(["cmake", "-S", ".", "-B", "build", "-DCMAKE_INSTALL_PREFIX=installed"], folder)
    run(["cmake", "--build", "build"], folder)
    for name, data in EXAMPLES.items():
        assert SAME in run([f"build/panda_{name}", data], folder)
    run(["cmake", "--install", "build"], folder)
    installed = {path.name for path in (folder / "installed").rglob("*") if path.is_file()}
    assert {"libpanda_ik.a", "panda_ik.h", "panda_ik-config.cmake"} <= installed

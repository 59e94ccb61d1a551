"""How an export builds: by GCC and Clang, as C99 and C++17, with nothing of Warp, Python or an allocator in it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ik_service
from ik_service.control import IKController
from ik_service.export import export_solver
from tests.export.c_library import C99, CLANG, CXX17, EXAMPLES, PROGRAMS, SAME, WARNINGS, run, run_example, symbols
from tests.export.conftest import PANDA_COUNT
from tests.kept_code import compiled_anew

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "embedding.md"
EXAMPLE = ROOT / "examples" / "control_loop"
# What a program with an export may take from libc and libm.
FROM_LIBRARIES = {
    *("memcpy", "memmove", "memset", "clock_gettime"),
    *("asin", "asinf", "atan2", "nextafterf", "sin", "sincos", "sincosf", "sqrt"),
}
WORD_OF_WARP = "_ZZN2wp21tile_shared_storage_t13get_smem_baseEvE9smem_base"  # set to 0 by each kernel, for tiles
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture
def folder(panda, tmp_path):
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
    linker = compiler if compiler[0] != CLANG[0] else ["gcc"]  # the one of Clang wants a libc of its own
    for name, data in EXAMPLES.items():
        run([*linker, f"{name}.o", "panda_ik.o", *objects(folder), "-lm", "-o", name], folder)
        assert run([f"./{name}", data], folder).splitlines()[-1] == SAME


def test_the_program_of_the_document_runs(folder):
    (program,) = re.findall(r"^```c\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    run(["gcc", "-c", "panda_ik.c"], folder)
    (folder / "program.c").write_text(program)
    for compiler, language in (("gcc", C99), ("g++", CXX17)):
        run([compiler, *language, *WARNINGS, "-c", "program.c"], folder)
        run(["gcc", "program.o", "panda_ik.o", *objects(folder), "-lm", "-o", "program"], folder)
        assert run(["./program"], folder).startswith("solved, joint 1 at ")


@pytest.mark.evidence
def test_a_small_stack_is_enough(exported, tmp_path):
    dual = exported("dual_panda")
    dual.export.write(tmp_path)
    for name in EXAMPLES:
        run_example(tmp_path, "dual_panda", name, limit="ulimit -s 64 &&", optimised="-O0")


@pytest.mark.evidence_cases("dual_panda", "floating")
@pytest.mark.parametrize("name", ["panda", "dual_panda", "floating"])
def test_it_takes_nothing_but_mathematics_from_libraries_and_threads_share_nothing(exported, tmp_path, name):
    exported(name).export.write(tmp_path)
    run(["gcc", "-O0", "-c", f"{name}_ik.c"], tmp_path)
    together = [symbol for path in tmp_path.glob(f"{name}_*.o") for symbol in symbols(path)]
    defined = {text for kind, text in together if kind in "TDRBV"}
    wanted = {text for kind, text in together if kind == "U"} - defined - {"_GLOBAL_OFFSET_TABLE_"}
    assert {f"{name}_solve", f"{name}_tick"} <= defined
    assert wanted <= FROM_LIBRARIES
    written = {text for kind, text in together if kind in "bBdDcCV"}  # kinds of static data that may be written
    assert written == {WORD_OF_WARP, *(f"{name}_{of}_names" for of in ("active_dof", "coordinate", "dof"))}


@pytest.mark.evidence
def test_two_robots_go_into_one_program(exported, tmp_path):
    for name in ("panda", "dual_panda"):
        exported(name).export.write(tmp_path)
        run(["gcc", "-c", f"{name}_ik.c"], tmp_path)
    sources = ["-I.", str(PROGRAMS / "two_robots.cpp"), "panda_ik.o", "dual_panda_ik.o", *objects(tmp_path)]
    run(["g++", *sources, "-lm", "-o", "two"], tmp_path)
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
    shutil.copy(PROGRAMS / "bad_input.c", folder)
    run(["gcc", *SANITIZERS, "-c", "panda_ik.c"], folder)
    for name in (*EXAMPLES, "bad_input"):
        run(["gcc", *SANITIZERS, f"{name}.c", "panda_ik.o", *objects(folder), "-lm", "-o", name], folder)
    for name, data in EXAMPLES.items():
        assert SAME in run([f"./{name}", data], folder)
    run(["./bad_input"], folder)


@pytest.mark.evidence
def test_cmake_builds_and_installs_it_and_the_control_loop_follows_its_circle(folder):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed, and what is exported has to be built with it.")
    run(["cmake", "-S", ".", "-B", "build", "-DCMAKE_INSTALL_PREFIX=installed"], folder)
    run(["cmake", "--build", "build"], folder)
    for name, data in EXAMPLES.items():
        assert SAME in run([f"build/panda_{name}", data], folder)
    run(["cmake", "--install", "build"], folder)
    installed = {path.name for path in (folder / "installed").rglob("*") if path.is_file()}
    assert {"libpanda_ik.a", "panda_ik.h", "panda_ik-config.cmake"} <= installed
    run(["cmake", "-S", str(EXAMPLE), "-B", "loop", f"-DPANDA_EXPORT={folder}"], folder)
    run(["cmake", "--build", "loop", "--target", "control_loop"], folder)
    said = run(["loop/control_loop", "0.5"], folder)
    assert re.fullmatch(r"500 ticks: .*\nthe command was 0\.\d+ mm from .*\noverruns: \d+\n", said)

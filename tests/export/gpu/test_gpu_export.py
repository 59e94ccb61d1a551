"""Exports for GPUs: cubins, and a source that launches them, run here over a driver that has no GPU.

That driver calls the same kernels compiled for CPUs with the arguments that the source passes; so all but what is
between the driver and the card is the same as there.
"""

import ctypes
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import ik_service
from ik_service.export.gpu_export import GpuSolve, export_for_gpus
from ik_service.export.objects import compile_object
from objectives import InputError
from tests.export.c_library import (
    BAD_ARGUMENT,
    BAD_NUMBER,
    C99,
    COLUMNS,
    CXX17,
    OK,
    SMALL_WORKSPACE,
    WARNINGS,
    CLibrary,
    Problems,
    Results,
    columns_of,
    run,
)
from tests.export.conftest import TWO_ARMS
from tests.solver.conftest import use_threads

pytestmark = pytest.mark.evidence  # each export compiles for ten seconds

FAKE = Path(__file__).with_name("fake_cuda")
REAL_HEADERS = [Path("/usr/local/cuda/include"), Path("/usr/include")]
DRIVER_ERROR, NO_CUBIN = 7, 8
COUNT = 60
ADAPTERS = """
#include "two_arms_gpu_ik.c"
struct CUfunc_st {{ const char *name; void (*run)(void **arguments); }};
{runs}
struct CUfunc_st fake_kernels[] = {{ {entries}, {{NULL, NULL}} }};
int two_arms_gpu_wp_isfinite(double x) {{ return isfinite(x) != 0; }}
"""
RUN = """
void {symbol}_cpu_forward(two_arms_gpu_bounds *bounds, {symbol}_arguments *arguments);
static void run_{symbol}(void **arguments)
{{
    {symbol}_arguments a;
    {copies}
    {symbol}_cpu_forward((two_arms_gpu_bounds *)arguments[0], &a);
}}
"""


@pytest.fixture(scope="module")
def solver(tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "two_arms.urdf"
    path.write_text(TWO_ARMS + "</robot>")
    return ik_service.IKSolver(ik_service.load_robot(path), ["a_tip", "b_tip"], device="cpu")


@pytest.fixture(scope="module")
def exported(solver, tmp_path_factory):
    """The folder of an export with the library made of it and the driver without a GPU."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed, and what is exported has to be compiled.")
    export = export_for_gpus(solver, architectures=[90])
    folder = tmp_path_factory.mktemp("gpu")
    export.write(folder)
    header = (folder / "two_arms_gpu_ik.h").read_text()
    tag = header.partition("_ABI 0x")[2][:8]
    entry, runs, entries = GpuSolve(solver), [], []
    symbols = entry.symbols(export.prefix, tag)
    for name, kernels in entry.modules.items():
        renamed = {symbols[kernel]: kernel for kernel in kernels}
        with warnings.catch_warnings():  # code for this machine alone is what the solver runs here, too
            warnings.filterwarnings("ignore", "compile_aot_module: CPU module", UserWarning)
            made = compile_object(f"two_arms_gpu_{name}", export.prefix, renamed)
        (folder / f"{made.name}.o").write_bytes(made.content)
    for kernel, symbol in symbols.items():
        labels = [argument.label for argument in kernel.adj.args]
        copies = [f"memcpy(&a.{label}, arguments[{k}], sizeof a.{label});" for k, label in enumerate(labels, 1)]
        runs.append(RUN.format(symbol=symbol, copies="\n    ".join(copies)))
        entries.append(f'{{"{symbol}_cuda_kernel_forward", run_{symbol}}}')
    (folder / "adapters.c").write_text(ADAPTERS.format(runs="".join(runs), entries=", ".join(entries)))
    sources = ["adapters.c", str(FAKE / "driver.c"), *(path.name for path in folder.glob("*.o"))]
    run(["gcc", "-O1", "-w", "-shared", "-fPIC", f"-I{FAKE}", *sources, "-lm", "-o", "library.so"], folder)
    return folder


class GpuLibrary(CLibrary):
    """The functions of an export for GPUs, with the Panda's in `CLibrary` in place of those for CPUs."""

    def __init__(self, folder):
        self.linked = ctypes.CDLL(str(folder / "library.so"))
        self.abi = int((folder / "two_arms_gpu_ik.h").read_text().partition("_ABI ")[2].partition("u")[0], 16)
        self.gpu = ctypes.create_string_buffer(4096)
        self.widths = {"COORDINATES": 8, "DOFS": 8, "TARGETS": 2}
        self.columns = COLUMNS
        size = self.linked.two_arms_gpu_workspace_size
        size.argtypes, size.restype = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32], ctypes.c_size_t
        self.function = self.linked.two_arms_gpu_solve
        self.function.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_size_t, ctypes.c_void_p]
        self.code = self.linked.two_arms_gpu_load(self.gpu, str(folder).encode())

    def solve(self, positions, orientations_xyzw, start=None, options=None, missing=0):
        """What a call returns and the columns of its results."""
        count, seeds = len(positions), 1024 if options is None else options.seeds
        given = [np.array(positions, np.float64), np.array(orientations_xyzw, np.float64)]
        problems = Problems(count, given[0].ctypes.data, given[1].ctypes.data, None, 0)
        if start is not None:
            given.append(np.array(start, np.float64))
            problems.initial_joint_q, problems.initial_joint_q_count = given[2].ctypes.data, len(given[2])
        size = self.linked.two_arms_gpu_workspace_size(self.gpu, count, seeds)
        memory = np.zeros(size + 256, np.uint8)
        first = (-memory.ctypes.data) % 256
        columns = {name: self._room(name, count) for name in COLUMNS}
        results = Results(**{name: one.bytes.ctypes.data for name, one in columns.items()})
        pointers = [ctypes.addressof(one) if one is not None else None for one in (problems, options, results)]
        code = self.function(self.gpu, *pointers, memory.ctypes.data + first, size - missing, None)
        assert all(one.is_intact() for one in columns.values())
        assert not memory[first + size :].any()
        return code, {name: one.bytes.tobytes() for name, one in columns.items()}


def targets(solver, count=COUNT):
    robot = solver.robot
    joint_q = robot.random_joint_q(np.random.default_rng(5), count)
    poses = robot.forward_kinematics(joint_q, ["a_tip", "b_tip"])
    return poses.positions, poses.orientations_xyzw, joint_q


def test_all_launches_together_give_what_the_solver_gives_by_threads(solver, exported, monkeypatch):
    library = GpuLibrary(exported)
    assert library.code == OK
    positions, orientations, joint_q = targets(solver)
    positions[::20, 0] += 2.0  # out of reach: all seeds, in several waves
    use_threads(monkeypatch)
    threads = ik_service.IKSolver(solver.robot, ["a_tip", "b_tip"], device="cpu")
    few = {"seeds": 5, "random_seed": 7, "position_tolerance": 1e-5}
    for start, options in ((None, {}), (joint_q, few), (joint_q, few | {"approximate": "nearest"})):
        expected = threads.solve(positions, orientations, initial_joint_q=start, options=options)
        assert 0.5 < expected.success.mean() < 1.0
        code, columns = library.solve(positions, orientations, start, library.options(**options))
        assert code == OK
        assert columns == columns_of(expected)
    launches = ctypes.c_int.in_dll(library.linked, "fake_launches").value
    assert launches > 3 * (9 + 2 * 2)  # more than a wave of each island


def test_bad_input_and_errors_of_the_driver_are_codes(solver, exported, tmp_path):
    library = GpuLibrary(exported)
    positions, orientations, _ = targets(solver, 3)
    assert library.solve(positions, orientations)[0] == OK
    assert library.solve(positions, orientations, missing=1)[0] == SMALL_WORKSPACE
    assert library.solve(positions, orientations, options=library.options(seeds=0))[0] == BAD_ARGUMENT
    bad = positions.copy()
    bad[1, 0, 2] = np.nan
    assert library.solve(bad, orientations)[0] == BAD_NUMBER
    fails = ctypes.c_int.in_dll(library.linked, "fake_fails_at")
    fails.value = ctypes.c_int.in_dll(library.linked, "fake_launches").value + 4
    assert library.solve(positions, orientations)[0] == DRIVER_ERROR
    fails.value = -1
    assert library.solve(positions, orientations)[0] == OK
    library.linked.two_arms_gpu_unload(library.gpu)
    assert library.solve(positions, orientations)[0] == BAD_ARGUMENT
    assert library.linked.two_arms_gpu_load(library.gpu, str(tmp_path).encode()) == DRIVER_ERROR  # there are no cubins


@pytest.mark.parametrize(("compiler", "language"), [("gcc", C99), ("g++", CXX17)])
def test_the_source_compiles_without_a_warning(exported, compiler, language):
    run([compiler, *language, *WARNINGS, f"-I{FAKE}", "-c", "two_arms_gpu_ik.c", "-o", "alone.o"], exported)


def test_the_source_compiles_with_the_header_of_cuda(exported):
    found = [folder for folder in REAL_HEADERS if (folder / "cuda.h").exists()]
    if not found:
        pytest.skip("There is no cuda.h of the CUDA toolkit on this machine.")
    run(["gcc", *C99, *WARNINGS, "-isystem", str(found[0]), "-c", "two_arms_gpu_ik.c", "-o", "alone.o"], exported)


def test_cubins_hold_the_kernels_that_the_source_looks_for(exported):
    source = (exported / "two_arms_gpu_ik.c").read_text()
    wanted = source.partition("kernel_names[] = {")[2].partition("}")[0].replace(" ", "").replace("\n", "").split(",")
    cubins = b"".join(path.read_bytes() for path in exported.glob("*.sm90.cubin"))
    assert len(wanted) >= 10
    assert [name for name in wanted if name.strip('"').encode() not in cubins] == []


def test_an_architecture_that_is_not_known_is_refused(solver):
    with pytest.raises(InputError, match="Architecture 12 is not known"):
        export_for_gpus(solver, architectures=[12])

"""An export compiled and loaded into this process: its functions called with NumPy arrays."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from ik_service.export import export_solver

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
CLANG = [sys.executable, "-m", "ziglang"]  # Clang as it comes from PyPI
C99, CXX17 = ["-std=c99"], ["-std=c++17", "-x", "c++"]
OK, BAD_ARGUMENT, BAD_NUMBER, SMALL_WORKSPACE, WRONG_ABI, NOT_RESET, BAD_LIMITS = range(7)
PROGRAMS = Path(__file__).with_name("programs")  # that call exports
GUARD = 0xA5  # of bytes around what a call may write
SAME = "same bytes as in Python: yes"  # what examples say last
EXAMPLES = {"example": "problems.bin", "tick_example": "ticks.bin"}


class Options(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("seeds", ctypes.c_int32),
        ("max_iterations", ctypes.c_int32),
        ("random_seed", ctypes.c_uint32),
        ("position_tolerance", ctypes.c_double),
        ("orientation_tolerance", ctypes.c_double),
        ("approximate_nearest", ctypes.c_int32),
    ]


LIMITS = dict.fromkeys(("joint_limit_lower", "joint_limit_upper", "max_change"), np.float64) | {"frozen": np.uint8}


class Problems(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_int32),
        ("positions", ctypes.c_void_p),
        ("orientations_xyzw", ctypes.c_void_p),
        ("initial_joint_q", ctypes.c_void_p),
        ("initial_joint_q_count", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in LIMITS),
        ("joint_limit_count", ctypes.c_int32),
    ]


COLUMNS = {
    "joint_q": np.float32,
    "success": np.bool_,
    "status": np.int8,
    "position_error": np.float64,
    "orientation_error": np.float64,
    "cost": np.float32,
    "iterations": np.int32,
    "seed_index": np.int32,
    "proof": np.int32,
    "active_limits": np.bool_,
    "limit_margin": np.float64,
}
CLEARANCE = {"clearance": np.float64}  # where answers are checked for collision


def results_type(names):
    return type("Results", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_void_p) for name in names]})


Results = results_type(COLUMNS)


class Guarded:
    """Memory with guards on both sides.

    Args:
        size: Bytes.
        shift: How far from a multiple of 64 it starts.
    """

    def __init__(self, size, shift=0):
        self._memory = np.full(size + 256, GUARD, np.uint8)
        self._first = 64 + (-self._memory.ctypes.data) % 64 + shift
        self.bytes = self._memory[self._first : self._first + size]

    def is_intact(self):
        return (self._memory[: self._first] == GUARD).all() and (
            self._memory[self._first + len(self.bytes) :] == GUARD
        ).all()


class CLibrary:
    """The functions of an export, whose names begin with a prefix, and whose files are in a folder."""

    def __init__(self, prefix, folder):
        self.linked, header = loaded(prefix, folder), (folder / f"{prefix}_ik.h").read_text()
        joint_q = np.float64 if "double *joint_q; /*" in header else np.float32
        self.columns = COLUMNS | {"joint_q": joint_q} | (CLEARANCE if "*clearance; /*" in header else {})
        self.results = results_type(self.columns)
        self.solve_function = getattr(self.linked, f"{prefix}_solve")
        self.solve_function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_size_t]
        self.solve_function.restype = ctypes.c_int32
        self.workspace_size, self.limits_workspace_size = (
            getattr(self.linked, f"{prefix}_{name}") for name in ("workspace_size", "limits_workspace_size")
        )
        for size in (self.workspace_size, self.limits_workspace_size):
            size.argtypes, size.restype = [ctypes.c_int32], ctypes.c_size_t
        self.abi = int(re.search(r"_ABI (0x[0-9a-f]+)u", header)[1], 16)
        self.widths = {
            name: int(re.search(rf"_{name} (\d+)", header)[1]) for name in ("COORDINATES", "DOFS", "TARGETS")
        }

    @classmethod
    def of(cls, solver, prefix, folder, **options):
        export_solver(solver, prefix=prefix, **options).write(folder)
        return cls(prefix, folder)

    def require(self, expected, *given, **named):
        """A call answers with the bytes of a result in Python; return the columns."""
        code, columns = self.solve(*given, **named)
        assert code == OK
        assert columns == columns_of(expected)
        return columns

    def options(self, **changes):
        """The default options with some changed, named as in C or in Python."""
        if "approximate" in changes:
            changes["approximate_nearest"] = changes.pop("approximate") == "nearest"
        given = {"abi": self.abi, "seeds": 1024, "max_iterations": 40, "random_seed": 0}
        given |= {"position_tolerance": 1e-3, "orientation_tolerance": 1e-2}
        return Options(**{**given, **changes})

    def solve(self, positions, orientations_xyzw, start=None, options=None, shift=0, limits=None):
        """What a call returns and the columns of its results; nothing else may have been written to.

        `limits` are arrays by their names in `LIMITS`, of one line or one for each problem.
        """
        count = len(positions)
        given = [np.array(positions, np.float64), np.array(orientations_xyzw, np.float64)]
        given += [] if start is None else [np.array(start, np.float64)]
        problems = Problems(count, given[0].ctypes.data, given[1].ctypes.data, None, 0)
        if start is not None:
            problems.initial_joint_q = given[2].ctypes.data
            problems.initial_joint_q_count = 1 if given[2].ndim == 1 else len(given[2])
        for name, values in (limits or {}).items():
            given.append(np.array(np.atleast_2d(values), LIMITS[name]))
            setattr(problems, name, given[-1].ctypes.data)
            problems.joint_limit_count = len(given[-1])
        before = [array.copy() for array in given]
        size = self.workspace_size(count) if limits is None else self.limits_workspace_size(count)
        workspace, columns = Guarded(size, shift), {name: self._room(name, count) for name in self.columns}
        results = self.results(**{name: one.bytes.ctypes.data for name, one in columns.items()})
        address = ctypes.addressof(options) if options is not None else None
        code = self.solve_function(
            ctypes.addressof(problems), address, ctypes.addressof(results), workspace.bytes.ctypes.data, size
        )
        assert workspace.is_intact()
        assert all(one.is_intact() for one in columns.values())
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True))
        return code, {name: one.bytes.tobytes() for name, one in columns.items()}

    def _room(self, name, count):
        width = {"joint_q": "COORDINATES", "active_limits": "DOFS"}.get(name, "TARGETS" if "error" in name else None)
        return Guarded(count * self.widths.get(width, 1) * np.dtype(self.columns[name]).itemsize)


def loaded(prefix, folder):
    sources = [f"{prefix}_ik.c", *(path.name for path in folder.glob("*.o"))]
    run(["gcc", "-O2", *C99, *WARNINGS, "-shared", "-fPIC", *sources, "-lm", "-o", "library.so"], folder)
    return ctypes.CDLL(str(folder / "library.so"))


def run(command, folder, **options):
    """Run a command that must succeed; what it prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_example(folder, prefix, name="example", *, limit="", optimised="-O2"):
    """The example of an export compiles without a warning and gives the same bytes."""
    sources = [f"{name}.c", f"{prefix}_ik.c", *(path.name for path in folder.glob(f"{prefix}_*.o"))]
    run(["gcc", optimised, *C99, *WARNINGS, *sources, "-lm", "-o", name], folder)
    assert SAME in run(["sh", "-c", f"{limit} ./{name} {EXAMPLES[name]}"], folder)


def columns_of(result):
    joint_q = np.float32 if result.joint_q.dtype == np.float32 else np.float64
    types = COLUMNS | {"joint_q": joint_q} | ({} if result.clearance is None else CLEARANCE)
    found = {name: np.ascontiguousarray(getattr(result, name)) for name in types}
    assert {name: array.dtype for name, array in found.items()} == {name: np.dtype(t) for name, t in types.items()}
    return {name: array.tobytes() for name, array in found.items()}


def symbols(path: Path):
    lines = run(["nm", path.name], path.parent).splitlines()
    return [tuple(line.split()[-2:]) for line in lines]

"""An export called from several threads at once, compiled with its kernels by what finds data races."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from ik_service import IKSolver, Target, load_robot
from ik_service.export import export_solver
from tests.export.c_library import CLANG, PROGRAMS, run

THREADS, PROBLEMS, RUNS = 4, 400, 5
PROBE = "int main(void) { return 0; }"
# Warp's header sets a static word to 0 where a kernel begins, for tiles that there are not: the same word by all.
KNOWN = "race:wp::tile_shared_storage_t\n"
FLAGS = ["-g", "-O1", "-fsanitize=thread"]
# What Warp's own compiler is told; the kernels' source is for Clang, and GCC's runtime looks on.
KERNEL_FLAGS = ["-std=c++17", "-march=native", "-fms-extensions", "-fdeclspec", "-DNDEBUG", "-w"]


def require_sanitizer(folder: Path) -> None:
    """Skip where no compiler makes programs that look for races."""
    (folder / "probe.c").write_text(PROBE)
    try:
        made = subprocess.run(["gcc", *FLAGS, "probe.c", "-o", "probe"], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("gcc is not installed, and what is exported has to be compiled.")
    if made.returncode or subprocess.run(["./probe"], cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("Programs of this gcc do not run with -fsanitize=thread: its libtsan is not installed.")


def export(folder: Path) -> list[str]:
    """Export a Panda whose wrist may turn, with kernels that are looked at, and targets; return the objects."""
    robot = load_robot("panda", collision="ignore")
    solver = IKSolver(robot, [Target("panda_hand", row_weights=[1, 1, 1, 1, 1, 0])], device="cpu", engine="compiled")
    done = export_solver(solver, prefix="panda", problem_count=1)
    done.write(folder)
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(1), PROBLEMS), ["panda_hand"])
    include = f"-I{Path(wp.__file__).with_name('native')}"
    for one in done.objects:
        (folder / f"{one.name}.cpp").write_text(one.source)
        names = [f"-D{old}={new}" for old, new in one.macros.items()]
        files = ["-c", f"{one.name}.cpp", "-o", f"{one.name}.o"]
        run([*CLANG, "c++", *FLAGS, "-fno-sanitize=undefined", *KERNEL_FLAGS, include, *names, *files], folder)
    lines = [f"enum {{ THREADS = {THREADS}, PROBLEMS = {PROBLEMS}, RUNS = {RUNS} }};"]
    for name in ("positions", "orientations_xyzw"):
        numbers = ", ".join(map(repr, getattr(poses, name).ravel().tolist()))
        lines.append(f"static const double {name}[] = {{{numbers}}};")
    (folder / "targets.h").write_text("\n".join(lines))
    return [f"{one.name}.o" for one in done.objects]


@pytest.mark.evidence
def test_threads_with_workspaces_of_their_own_share_nothing_that_is_written(tmp_path):
    require_sanitizer(tmp_path)
    sources = ["-I.", str(PROGRAMS / "races.c"), "panda_ik.c", *export(tmp_path)]
    (tmp_path / "known").write_text(KNOWN)
    ends, found = {}, {}
    for shared in (0, 1):
        libraries = ["-lm", "-lpthread", "-lstdc++", "-o", "races"]
        run(["gcc", *FLAGS, f"-DSHARED={shared}", *sources, *libraries], tmp_path)
        environment = {"TSAN_OPTIONS": f"suppressions={tmp_path / 'known'}"}
        done = subprocess.run(["./races"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        ends[shared], found[shared] = done.returncode, done.stderr
    races = {shared: text.count("WARNING: ThreadSanitizer: data race") for shared, text in found.items()}
    told = f"{races[0]} races, {races[1]} in a shared workspace"
    sys.stdout.write(f"\n{THREADS} threads, {RUNS} x {PROBLEMS} problems each: {told}\n")
    assert (ends[0], races[0]) == (0, 0), found[0]
    assert races[1] > 0  # it would have been seen

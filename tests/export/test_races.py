"""An export called from several threads at once, compiled with its kernels by what finds data races."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from ik_service import IKSolver, Target, load_robot
from ik_service.export import export_solver
from tests.export.c_library import CLANG, run

THREADS, PROBLEMS, RUNS = 4, 400, 5
PROBE = "int main(void) { return 0; }"
# Warp's header sets a static word to 0 where a kernel begins, for tiles that there are not: the same word by all.
KNOWN = "race:wp::tile_shared_storage_t\n"
FLAGS = ["-g", "-O1", "-fsanitize=thread"]
# What Warp's own compiler is told; the kernels' source is for Clang, and GCC's runtime looks on.
KERNEL_FLAGS = ["-std=c++17", "-march=native", "-fms-extensions", "-fdeclspec", "-DNDEBUG", "-w"]
MAIN = """
#include "panda_ik.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Clang's names for what GCC's runtime has. */
void *__tsan_memcpy(void *to, const void *from, size_t size) { return memcpy(to, from, size); }
void *__tsan_memset(void *to, int value, size_t size) { return memset(to, value, size); }

enum { THREADS = @threads@, PROBLEMS = @problems@, RUNS = @runs@, SHARED = @shared@ };
static const double positions[] = {@positions@}, orientations_xyzw[] = {@orientations@};
static const panda_problems problems = {PROBLEMS, positions, orientations_xyzw, NULL, 0};
static float answers[THREADS][PROBLEMS * PANDA_COORDINATES];
static void *workspaces[THREADS];

static void *solve(void *argument)
{
    int number = *(const int *)argument, run;
    panda_results results;
    memset(&results, 0, sizeof results);
    results.joint_q = answers[number];
    for (run = 0; run < RUNS; ++run)
        if (panda_solve(&problems, NULL, &results, workspaces[SHARED ? 0 : number],
                        panda_workspace_size(PROBLEMS)) != PANDA_OK) exit(2);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], k;
    for (k = 0; k < THREADS; ++k) {
        numbers[k] = k;
        workspaces[k] = malloc(panda_workspace_size(PROBLEMS));
        if (pthread_create(&threads[k], NULL, solve, &numbers[k]) != 0) exit(3);
    }
    for (k = 0; k < THREADS; ++k) pthread_join(threads[k], NULL);
    for (k = 1; k < THREADS; ++k)
        if (memcmp(answers[k], answers[0], sizeof answers[0]) != 0) exit(4);
    return 0;
}
"""


def require_sanitizer(folder: Path) -> None:
    """Skip where no compiler makes programs that look for races."""
    (folder / "probe.c").write_text(PROBE)
    try:
        made = subprocess.run(["gcc", *FLAGS, "probe.c", "-o", "probe"], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("gcc is not installed, and what is exported has to be compiled.")
    if made.returncode or subprocess.run(["./probe"], cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("Programs of this gcc do not run with -fsanitize=thread: its libtsan is not installed.")


def export(folder: Path) -> tuple[list[str], dict[str, object]]:
    """Export a Panda whose wrist may turn, with kernels that are looked at; their objects, and targets."""
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
    given = {"positions": poses.positions, "orientations": poses.orientations_xyzw}
    texts = {name: ", ".join(map(repr, array.ravel().tolist())) for name, array in given.items()}
    return [f"{one.name}.o" for one in done.objects], texts


@pytest.mark.evidence
def test_threads_with_workspaces_of_their_own_share_nothing_that_is_written(tmp_path):
    require_sanitizer(tmp_path)
    objects, texts = export(tmp_path)
    (tmp_path / "known").write_text(KNOWN)
    ends, found = {}, {}
    for shared in (0, 1):
        numbers = {"threads": THREADS, "problems": PROBLEMS, "runs": RUNS, "shared": shared, **texts}
        text = MAIN
        for name, value in numbers.items():
            text = text.replace(f"@{name}@", str(value))
        (tmp_path / "main.c").write_text(text)
        sources = ["main.c", "panda_ik.c", *objects]
        run(["gcc", *FLAGS, *sources, "-lm", "-lpthread", "-lstdc++", "-o", "main"], tmp_path)
        environment = {"TSAN_OPTIONS": f"suppressions={tmp_path / 'known'}"}
        done = subprocess.run(["./main"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        ends[shared], found[shared] = done.returncode, done.stderr
    races = {shared: text.count("WARNING: ThreadSanitizer: data race") for shared, text in found.items()}
    said = (
        f"\n{THREADS} threads, {RUNS} x {PROBLEMS} problems each: {races[0]} races, {races[1]} in a shared workspace\n"
    )
    sys.stdout.write(said)
    assert (ends[0], races[0]) == (0, 0), found[0]
    assert races[1] > 0  # it would have been seen

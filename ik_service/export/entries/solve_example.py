"""The example program of an export, and the problems that it solves."""

from string import Template
from typing import Any

import numpy as np

from ik_service.solver import IKSolver

RANDOM_SEED = 0
EXAMPLE = Template("""\
/* Solves the problems in problems.bin, compares every byte of joint_q with the answers there, and measures. */
#define _POSIX_C_SOURCE 199309L
#include "${prefix}_ik.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 20 };

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *room(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\\n");
        exit(2);
    }
    return memory;
}

static void read_or_exit(void *to, size_t bytes, size_t count, FILE *file)
{
    if (fread(to, bytes, count, file) != count) {
        fprintf(stderr, "the file is too short\\n");
        exit(2);
    }
}

static void solve_or_exit(
    const ${prefix}_problems *problems, const ${prefix}_results *results, void *workspace, size_t size)
{
    int32_t code = ${prefix}_solve(problems, NULL, results, workspace, size);
    if (code != ${PREFIX}_OK) {
        fprintf(stderr, "${prefix}_solve returned %d\\n", (int)code);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    int32_t head[3], k;
    size_t n, size, width = ${PREFIX}_COORDINATES, different = 0, solved = 0;
    double *positions, *orientations_xyzw, *times, start, best = 1e30;
    float *joint_q, *expected;
    uint8_t *success;
    void *workspace;
    ${prefix}_problems problems;
    ${prefix}_results results;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;

    if (file == NULL) {
        fprintf(stderr, "usage: %s problems.bin\\n", argv[0]);
        return 2;
    }
    read_or_exit(head, sizeof head[0], 3, file);
    if (head[0] < 1 || head[1] != ${PREFIX}_TARGETS || head[2] != ${PREFIX}_COORDINATES) {
        fprintf(stderr, "the file is of another robot\\n");
        return 2;
    }
    n = (size_t)head[0];
    positions = (double *)room(n * ${PREFIX}_TARGETS * 3, sizeof *positions);
    orientations_xyzw = (double *)room(n * ${PREFIX}_TARGETS * 4, sizeof *orientations_xyzw);
    expected = (float *)room(n * width, sizeof *expected);
    joint_q = (float *)room(n * width, sizeof *joint_q);
    success = (uint8_t *)room(n, sizeof *success);
    times = (double *)room(n, sizeof *times);
    read_or_exit(positions, sizeof *positions, n * ${PREFIX}_TARGETS * 3, file);
    read_or_exit(orientations_xyzw, sizeof *orientations_xyzw, n * ${PREFIX}_TARGETS * 4, file);
    read_or_exit(expected, sizeof *expected, n * width, file);
    fclose(file);
    size = ${prefix}_workspace_size(head[0]);
    workspace = room(size, 1);

    memset(&problems, 0, sizeof problems);
    memset(&results, 0, sizeof results);
    results.joint_q = joint_q;
    results.success = success;
    problems.count = 1; /* one at a time, as in a control loop without a start configuration */
    for (k = 0; k < head[0]; ++k) {
        problems.positions = positions + (size_t)k * ${PREFIX}_TARGETS * 3;
        problems.orientations_xyzw = orientations_xyzw + (size_t)k * ${PREFIX}_TARGETS * 4;
        start = microseconds();
        solve_or_exit(&problems, &results, workspace, size);
        times[k] = microseconds() - start;
        different += memcmp(joint_q, expected + (size_t)k * width, width * sizeof *joint_q) != 0;
    }
    qsort(times, n, sizeof *times, by_size);
    printf("one target: median %.1f us, 99th percentile %.1f us\\n", times[n / 2], times[n - 1 - n / 100]);

    problems.count = head[0];
    problems.positions = positions;
    problems.orientations_xyzw = orientations_xyzw;
    for (k = 0; k < RUNS; ++k) {
        start = microseconds();
        solve_or_exit(&problems, &results, workspace, size);
        if (microseconds() - start < best) best = microseconds() - start;
    }
    for (k = 0; k < head[0]; ++k) {
        solved += success[k];
        different += memcmp(joint_q + (size_t)k * width, expected + (size_t)k * width, width * sizeof *joint_q) != 0;
    }
    printf("%d targets: %.2f us each, ", (int)head[0], best / (double)n);
    printf("%.2f %% solved\\n", 100.0 * (double)solved / (double)n);
    printf("same bytes as in Python: %s\\n", different == 0 ? "yes" : "NO");
    free(workspace);
    free(times);
    free(success);
    free(joint_q);
    free(expected);
    free(orientations_xyzw);
    free(positions);
    return different == 0 ? 0 : 1;
}
""")


def example_problems(solver: IKSolver, count: int, *, orientations: bool) -> bytes:
    """Return random reachable targets with the solver's answers, as the example reads them.

    Args:
        solver: The solver that is exported.
        count: Number of targets.
        orientations: Whether they are solved for with their orientations.
    """
    robot, links = solver.robot, [target.link for target in solver.targets]
    joint_q = robot.random_joint_q(np.random.default_rng(RANDOM_SEED), count)
    poses = robot.forward_kinematics(joint_q, links)
    positions, orientations_xyzw = poses.positions, poses.orientations_xyzw
    arrays: list[Any] = [np.array([count, len(links), robot.joint_coord_count], np.int32), positions, orientations_xyzw]
    result = solver.solve(positions, orientations_xyzw if orientations else None)
    return b"".join(np.ascontiguousarray(array).tobytes() for array in [*arrays, result.joint_q])

"""The example program of an exported controller, and the path that it follows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from string import Template
from typing import Any

import numpy as np
import warp as wp

from ik_service.control import IKController

RADIUS = 0.05  # of the circles [m]
ROUNDS = 2
DT = 1e-3
TICK_EXAMPLE = Template("""\
/* Follows the path in ticks.bin, compares every byte of joint_q with the commands there, and measures. */
#define _POSIX_C_SOURCE 199309L
#include "${prefix}_ik.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 10, POSE = 7 };

static ${prefix}_controller controller;

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

static double *numbers_or_exit(size_t count, FILE *file)
{
    double *numbers = (double *)calloc(count + 1, sizeof *numbers);
    if (numbers == NULL || (file != NULL && fread(numbers, sizeof *numbers, count, file) != count)) {
        fprintf(stderr, "out of memory, or the file is too short\\n");
        exit(2);
    }
    return numbers;
}

int main(int argc, char **argv)
{
    const size_t width = (size_t)${PREFIX}_TICK_ROBOTS * ${PREFIX}_COORDINATES;
    const size_t pose_width = (size_t)${PREFIX}_TICK_ROBOTS * ${PREFIX}_TICK_TARGETS * POSE;
    int32_t head[4], run;
    size_t n, k, count, different = 0;
    double *start, *targets, *expected, *times, begun;
    ${prefix}_tick_input input;
    ${prefix}_tick_result result;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;

    if (file == NULL) {
        fprintf(stderr, "usage: %s ticks.bin\\n", argv[0]);
        return 2;
    }
    if (fread(head, sizeof head[0], 4, file) != 4 || head[0] < 1 || head[1] != ${PREFIX}_TICK_ROBOTS
        || head[2] != ${PREFIX}_TICK_TARGETS || head[3] != ${PREFIX}_COORDINATES) {
        fprintf(stderr, "the file is of another robot\\n");
        return 2;
    }
    n = (size_t)head[0];
    start = numbers_or_exit(width, file);
    targets = numbers_or_exit(n * pose_width, file);
    expected = numbers_or_exit(n * width, file);
    times = numbers_or_exit(n * RUNS, NULL);
    fclose(file);

    if (${prefix}_controller_init(&controller, NULL) != ${PREFIX}_OK) return 2;
    memset(&input, 0, sizeof input);
    input.dt = $dt;
    for (run = 0; run < RUNS; ++run) {
        if (${prefix}_controller_reset(&controller, start, NULL) != ${PREFIX}_OK) return 2;
        for (k = 0; k < n; ++k) {
            input.targets = targets + k * pose_width;
            begun = microseconds();
            if (${prefix}_tick(&controller, &input, &result) != ${PREFIX}_OK) return 2;
            times[(size_t)run * n + k] = microseconds() - begun;
            different += memcmp(&result.joint_q, expected + k * width, sizeof result.joint_q) != 0;
        }
    }
    count = n * RUNS;
    qsort(times, count, sizeof *times, by_size);
    printf("%d ticks: median %.2f us, ", (int)count, times[count / 2]);
    printf("99th percentile %.2f us, ", times[count - 1 - count / 100]);
    printf("99.9th %.2f us, longest %.2f us\\n", times[count - 1 - count / 1000], times[count - 1]);
    printf("same bytes as in Python: %s\\n", different == 0 ? "yes" : "NO");
    free(times);
    free(expected);
    free(targets);
    free(start);
    return different == 0 ? 0 : 1;
}
""")


def example_ticks(controller: IKController, numbers: Mapping[str, "wp.array[Any]"], count: int) -> bytes:
    """Return circles of all targets with the controller's commands, as the example reads them.

    Args:
        controller: The controller that is exported; left as it is.
        numbers: All of its arrays that change.
        count: Number of ticks.
    """
    robot, robots = controller.robot, controller.robots
    start = np.tile(robot.mid_joint_q, (robots, 1))
    targets = np.tile(_circles(controller, count)[:, None], (1, robots, 1, 1))
    with _restored(numbers):
        controller.reset(start)
        commands = [controller.step(line if line.size else None, dt=DT).joint_q.copy() for line in targets]
    head = np.array([count, robots, targets.shape[2], robot.joint_coord_count], np.int32)
    return b"".join(np.ascontiguousarray(array).tobytes() for array in (head, start, targets, np.array(commands)))


def _circles(controller: IKController, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Circles that begin and end where the links are in the middle of the ranges, at rest, [count, targets, 7]."""
    robot = controller.robot
    links = [target.link for target in controller.targets]
    s = np.linspace(0.0, 1.0, count)
    turn = 2.0 * np.pi * ROUNDS * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    poses = np.zeros((count, len(links), 7))
    if links:
        middle = robot.forward_kinematics(robot.mid_joint_q[None], links)
        poses[..., :3], poses[..., 3:] = middle.positions[0], middle.orientations_xyzw[0]
        poses[..., 0] += RADIUS * (np.cos(turn) - 1.0)[:, None]
        poses[..., 1] += RADIUS * np.sin(turn)[:, None]
    return poses


@contextmanager
def _restored(numbers: Mapping[str, "wp.array[Any]"]) -> Iterator[None]:
    """Put arrays on a CPU back to what they were before."""
    before = {label: array.numpy().copy() for label, array in numbers.items()}
    try:
        yield
    finally:
        for label, values in before.items():
            numbers[label].numpy()[...] = values

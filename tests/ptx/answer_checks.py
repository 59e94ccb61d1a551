"""Solves by PTX on the pretended device: the same bytes in every schedule, each success true in float64.

The answers are written down; `test_ptx.py` compares them with those of the CPU engine.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.pretended_cuda.device import BACKWARDS, FORWARDS, RANDOM
from tests.pretended_cuda.plugin import FOLDER
from tests.ptx.problems import ORIENTATION, POSITION, Course, draw, solve, solver_of
from tests.solver.conftest import assert_same_bytes

COURSE = Course.given()
PAUSES = (40, 1, 3, 10)  # accesses to memory from one interruption to the next, about
LISTED = re.compile(rb"opcodes of PTX: (\{.*?\})")


def schedules(count):
    """Threads backwards, and at random."""
    for seed in range(count):
        order = BACKWARDS if seed == 0 else RANDOM
        yield {"order": order, "seed": seed, "pause_each": PAUSES[seed % len(PAUSES)], "late": seed % 2}


def opcodes():
    """How often each instruction is in the loaded modules."""
    found = Counter()
    for path in {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/kernels/" in line}:
        if path.startswith(os.environ[FOLDER]):
            for text in LISTED.findall(Path(path).read_bytes()):
                found += Counter(json.loads(text))
    return found


@pytest.mark.parametrize("name", COURSE.robots)
def test_answers_depend_on_no_schedule(name, device):
    problems = draw(name, COURSE.count)
    solver = solver_of(problems, "cuda:0")
    solve(solver, problems, slice(2))
    columns, executed = {}, []
    for noise in COURSE.noises:
        with device.scheduled(order=FORWARDS, noise=noise):
            before = device["instructions"]
            whole = solve(solver, problems)
            executed.append(device["instructions"] - before)
        assert whole.success.any()
        true = problems.judge(whole.joint_q, POSITION, ORIENTATION)
        assert true[whole.success].all()
        if not problems.robot.constraint_names:
            np.testing.assert_array_equal(whole.success, true)
        for number, schedule in enumerate(schedules(COURSE.schedules)):
            rows = slice(number, None, COURSE.schedules)
            with device.scheduled(noise=noise, **schedule):
                part = solve(solver, problems, rows)
            for column in ("joint_q", "success", "status", "cost", "iterations", "position_error"):
                np.testing.assert_array_equal(getattr(part, column), getattr(whole, column)[rows], err_msg=column)
            np.testing.assert_array_equal(part.islands.seed_index, whole.islands.seed_index[rows])
        columns[f"success_{noise}"], columns[f"seeds_{noise}"] = whole.success, whole.islands.seed_index
    listed = opcodes()
    assert listed["atom.global.add.u32"] > 0
    assert listed["bar.warp.sync"] > 0
    np.savez(COURSE.file(name), executed=executed, opcodes=json.dumps(listed), **columns)


def test_approximations_are_off_where_that_is_asked_for(device):
    name = COURSE.robots[0]
    problems = draw(name, 20)
    solver = solver_of(problems, "cuda:0")
    results = []
    for noise in (0, 1, 1, 2):
        with device.scheduled(order=FORWARDS, noise=noise):
            results.append(solve(solver, problems))
    assert_same_bytes(results[1], results[2])
    assert len({result.joint_q.tobytes() for result in results}) == 3

"""Random problems of random robots, judged by code of its own: no false success, no false failure, no limit broken.

As evidence it makes FUZZ_PROBLEMS problems (a million) from FUZZ_SEED (0) with two threads; a fault names the robot's
number, the set of targets and the batch, from which it can be made again.
"""

import os

import numpy as np
import pytest

from ik_service import IKSolver, RobotModel
from ik_service.robots import load_urdf
from objectives import IKError
from tests.fuzz.judge import Judge
from tests.fuzz.random_problems import Problems, Task, draw_options, draw_problems
from tests.fuzz.random_robots import robot_file
from tests.fuzz.tally import Tally
from tests.fuzz.verdicts import differences, faults_of_answers

PROBLEMS = int(float(os.environ.get("FUZZ_PROBLEMS", "1e6")))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
FEW_ROBOTS = (1,)  # of the default run; compiled within seconds
TARGET_SETS = 2  # of a robot; each is compiled
BATCHES = 12  # of a set of targets
LARGE, SMALL = 4096, 600  # problems of a batch; two threads share what is more than 512
MOST_TARGETS = 3
ALONE = 2  # problems of a batch that are solved by themselves too
STAGED = 40  # problems of a batch, solved by the staged engine too
ONLY_COMPILED = ("best_of", "solutions", "precision")  # options of the compiled engine alone
LEAST_SUCCESS = 0.2  # fewer would mean that nearly nothing was tried
MOST_REFUSED = 0.1  # robots and targets that the solver does not take


def solve(solver: IKSolver, problems: Problems, *, once: bool = False):
    """Solve with tools and weights that the solver keeps, or that are of this solve alone."""
    data = {"offset": problems.offsets, "row_weights": problems.weights} if once else {}
    for k, (offset, weights) in enumerate(zip(problems.offsets, problems.weights, strict=True)):
        if not once and (offset is not None or weights is not None):
            solver.set_target_data(k, offset=offset, row_weights=weights)
    given = {name: lists if len(lists) > 1 else lists[0] for name, lists in data.items()} | problems.limits()
    arrays = problems.positions, problems.orientations_xyzw
    return solver.solve(*arrays, initial_joint_q=problems.start, options=problems.options, **given)


def try_batch(rng: np.random.Generator, judge: Judge, tasks: list[Task], solvers: list[IKSolver], problems: Problems):
    """Solve a batch by two threads, by one in another order, some problems alone, and some by the staged engine."""
    result = solve(solvers[0], problems)
    faults = faults_of_answers(judge, tasks, problems, result)
    order = rng.permutation(len(result))
    again = solve(solvers[1], problems.lines(order), once=True)
    faults += [f"{name} depends on threads or order" for name in differences(result, again, order)]
    for lonely in order[:ALONE]:
        line = np.array([lonely])
        other = solve(solvers[1], problems.lines(line))
        faults += [f"{name} of problem {lonely} depends on the batch" for name in differences(result, other, line)]
    few = problems.lines(np.arange(STAGED))
    few.options = {name: value for name, value in few.options.items() if name not in ONLY_COMPILED}
    staged = solve(solvers[2], few)
    return result, faults + [f"staged: {fault}" for fault in faults_of_answers(judge, tasks, few, staged)]


def try_targets(
    rng: np.random.Generator, judge: Judge, robot: RobotModel, batches: int, tally: Tally, place: str
) -> None:
    tasks = [Task.draw(rng, judge) for _ in range(int(rng.integers(1, MOST_TARGETS + 1)))]
    solvers: list[IKSolver] = []
    for number in range(batches):
        problems = draw_problems(rng, judge, robot, tasks, LARGE)
        problems.options, heavy = draw_options(rng, problems.kind)
        if heavy or not solvers:
            problems = problems.lines(np.arange(SMALL))
        if not solvers:
            targets = problems.targets(tasks)
            solvers = [IKSolver(robot, targets, device="cpu", threads=threads) for threads in (2, 1)]
            solvers.append(IKSolver(robot, targets, device="cpu", engine="staged"))
        result, faults = try_batch(rng, judge, tasks, solvers, problems)
        tally.update(problems=len(result), successes=int(result.success.sum()), batches=1)
        tally.faults += [f"{place}, batch {number}, {problems.kind}, {problems.options}: {fault}" for fault in faults]


def try_robot(number: int, random_seed: int, sets: int, batches: int, tally: Tally) -> None:
    name, urdf = robot_file(number, random_seed)
    judge, robot = Judge.of(urdf), load_urdf(urdf)
    for part in range(sets):
        rng = np.random.default_rng([random_seed, number, part])
        try:
            try_targets(rng, judge, robot, batches, tally, f"robot {number} ({name}), targets {part}")
        except IKError as error:
            tally["refused"] += 1
            tally.faults += [] if "compiled engine" in str(error) else [f"robot {number}, targets {part}: {error}"]


def test_random_problems_of_some_robots():
    tally = Tally()
    for number in FEW_ROBOTS:
        try_robot(number, 0, 1, 4, tally)
    assert tally.faults == []
    assert tally["successes"] > LEAST_SUCCESS * tally["problems"]


@pytest.mark.evidence
def test_a_million_random_problems():
    tally, number = Tally(), 0
    while tally["problems"] < PROBLEMS:
        try_robot(number, SEED, TARGET_SETS, BATCHES, tally)
        number += 1
    tally.tell()
    assert tally.faults == []
    assert tally["successes"] > LEAST_SUCCESS * tally["problems"]
    assert tally["refused"] <= MOST_REFUSED * number * TARGET_SETS

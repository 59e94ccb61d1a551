"""What threads share out: each part of a batch is solved as if there were no other, whichever comes first."""

import typing

import numpy as np
import pytest
import warp as wp

from ik_service import SolverOptions, Target
from ik_service.robots import load_urdf
from ik_service.solver import recording
from ik_service.solver.arrays.parts import first_place, first_problem
from ik_service.solver.compiled import engine as compiled_engine
from ik_service.solver.recording import part_count, part_sizes
from tests.solver.conftest import cpu_solver, in_threads

ARM = """
  <link name="{side}_upper"/><link name="{side}_fore"/><link name="{side}_tip"/><link name="{side}_hand"/>
  <joint name="{side}_shoulder" type="revolute"><parent link="base"/><child link="{side}_upper"/>
    <origin xyz="0 {y} 0"/><axis xyz="0 0 1"/><limit lower="-3.1" upper="3.1" effort="1" velocity="1"/></joint>
  <joint name="{side}_elbow" type="revolute"><parent link="{side}_upper"/><child link="{side}_fore"/>
    <origin xyz="1 0 0"/><axis xyz="0 0 1"/><limit lower="-3.1" upper="3.1" effort="1" velocity="1"/></joint>
  <joint name="{side}_mount" type="fixed"><parent link="{side}_fore"/><child link="{side}_tip"/>
    <origin xyz="1 0 0"/></joint>
  <joint name="{side}_wrist" type="revolute"><parent link="{side}_tip"/><child link="{side}_hand"/>
    <limit lower="-3.1" upper="3.1" effort="1" velocity="1"/></joint>
"""
LINKS = ["left_tip", "right_tip"]
COUNT = 61  # no multiple of a number of threads
BOTH, ONLY_X, OFF = [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0] * 6
# Weights of both arms, problem by problem in turn or in thirds.
PATTERNS: dict[str, list[tuple[list[int], list[int]]]] = {
    "one": [(BOTH, BOTH)],
    "two": [(BOTH, OFF)] * 20 + [(BOTH, BOTH)] * 41,
    "many": [(BOTH, BOTH), (ONLY_X, BOTH), (OFF, ONLY_X), (BOTH, OFF)],
    "off": [(OFF, OFF)] * 7 + [(BOTH, ONLY_X)] * 5,
}
OPTIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "cost": {"best_of": "cost", "seeds": 4},
    "nearest": {"best_of": "nearest", "seeds": 4},
    "solutions": {"solutions": 3, "seeds": 4},
    "float64": {"precision": "float64"},
    "nearest, float64": {"best_of": "nearest", "seeds": 4, "precision": "float64"},
}
COLUMNS = ("joint_q", "success", "status", "position_error", "orientation_error", "cost", "iterations", "seed_index",
           "active_limits")  # fmt: skip


@pytest.fixture(scope="module")
def arms():
    both = "".join(ARM.format(side=side, y=y) for side, y in (("left", 3), ("right", -3)))
    return load_urdf(f'<robot name="arms"><link name="base"/>{both}</robot>')


def make(robot, pattern, threads=1, **arguments):
    lines = [PATTERNS[pattern][p % len(PATTERNS[pattern])] for p in range(COUNT)]
    targets = [Target(link, row_weights=[line[k] for line in lines]) for k, link in enumerate(LINKS)]
    return cpu_solver(robot, targets, threads=threads, **arguments)


def problems(robot, random_seed):
    """Targets that can be reached, and starts."""
    drawn = robot.random_joint_q(np.random.default_rng(random_seed), 2 * COUNT)
    return robot.forward_kinematics(drawn[:COUNT], LINKS).positions, drawn[COUNT:].astype(np.float32)


def answers(solver, given, options):
    """The bytes of everything that comes back."""
    positions, start = given
    result = solver.solve(positions, initial_joint_q=start, options=options)
    found = {name: getattr(result, name).tobytes() for name in COLUMNS}
    islands = {name: value.tobytes() for name, value in vars(result.islands).items() if isinstance(value, np.ndarray)}
    if result.solutions is not None:
        found |= {"solutions": result.solutions.tobytes(), "solution_count": result.solution_count.tobytes()}
    return result, found | islands


ORDERS = ("forwards", "backwards", "in step")


class PartsInOrder:
    """An executor of parts in an order: what one reads of another is missing, or is overwritten."""

    order = ORDERS[0]

    def __init__(self, threads, name):
        self.used = 0

    def map(self, run, parts, sizes):
        self.used += 1
        if self.order == "in step":
            for steps in zip(*(part._steps for part in parts), strict=True):
                for step, size in zip(steps, sizes, strict=True):
                    step(size)
            return []
        calls = list(zip(parts, sizes, strict=True))
        return [run(*call) for call in (calls if self.order == "forwards" else reversed(calls))]


@pytest.mark.quick_cases("off-plain", "off-cost", "off-nearest", "off-solutions")
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_part_reads_what_another_writes(arms, small_parts, monkeypatch, pattern, name):
    options, here, elsewhere = OPTIONS[name], problems(arms, 1), problems(arms, 2)
    alone, expected = answers(make(arms, pattern), here, options)
    assert alone.success.mean() > 0.9
    monkeypatch.setattr(compiled_engine, "ThreadPoolExecutor", PartsInOrder)
    for threads in (2, 3, 4):
        solver = make(arms, pattern, threads)
        for order in ORDERS:
            monkeypatch.setattr(PartsInOrder, "order", order)
            answers(solver, elsewhere, options)  # so that nothing right is left from the time before
            assert answers(solver, here, options)[1] == expected, (threads, order)
        assert solver._core.engine.executor.used == 2 * len(ORDERS)


@wp.kernel(enable_backward=False)
@typing.no_type_check
def _begins_of(
    settings: wp.array[wp.int32],
    count: wp.array[wp.int32],
    listed: wp.array[wp.int32],
    parts: int,
    problem_out: wp.array[wp.int32],
    place_out: wp.array[wp.int32],
):
    part = wp.tid()
    problem_out[part] = first_problem(settings, part, parts)
    place_out[part] = first_place(settings, count, listed, part, parts)


@pytest.mark.parametrize("count", [1, 7, 255, 1000, 33_000_000, 2**31 - 1])
@pytest.mark.parametrize("threads", [1, 2, 3, 64, 256])
def test_host_and_device_split_problems_alike(count, threads):
    listed = np.unique(np.linspace(0, count - 1, 50).astype(np.int32))
    arrays = [wp.array(one, dtype=wp.int32, device="cpu") for one in ([count], [len(listed)], listed)]
    first, place = (wp.zeros(threads + 1, dtype=wp.int32, device="cpu") for _ in range(2))
    wp.launch(_begins_of, threads + 1, [*arrays, threads], [first, place], device="cpu")
    assert np.diff(first.numpy()).tolist() == part_sizes(count, threads)
    assert (first.numpy()[0], first.numpy()[-1]) == (0, count)
    np.testing.assert_array_equal(place.numpy(), np.searchsorted(listed, first.numpy()))


def test_few_problems_are_one_part():
    assert part_count(2 * recording.PART_MIN - 1, 2) == 1
    assert part_count(2 * recording.PART_MIN, 2) == 2
    assert part_sizes(5, 2) == [2, 3]


WORKERS, REPEATS = 4, 3


@pytest.mark.parametrize(("engine", "mode"), [("staged", "analytic"), ("staged", "autodiff"), ("compiled", "analytic")])
def test_solvers_in_threads_give_the_bytes_of_one_alone(panda_targets, engine, mode):
    problems, options = panda_targets.part(slice(20)), SolverOptions(jacobian_mode=mode, seeds=8)

    def solve():
        solver = cpu_solver(problems.robot, problems.links, engine=engine, options=options)
        return solver.solve(*problems.targets).joint_q

    expected, done = solve(), []

    def work():
        for _ in range(REPEATS):
            done.append((solve() == expected).all())  # a thread that fails leaves its rounds out

    in_threads(work, WORKERS)
    assert done == [True] * (WORKERS * REPEATS)

"""Solves on the pretended device: the answers of the CPU, the same bytes whatever the schedule, and what GPUs alone do.

By "the same answers" of device and CPU is meant: the same problems are solved, the same seeds win, and where an attempt
took as many steps the joints agree within `SAME_PLACE`. Bytes differ, because two compilers fuse sums and products in
other places. Between runs on the device all bytes are equal.
"""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service.cli import robot_bench
from ik_service.collision.shapes import Box
from ik_service.collision.world import World
from ik_service.errors import KernelBuildError, KernelCacheError
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver import recording
from ik_service.solver.compiled import waves
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives import IKObjectivePosture, InputError, ObjectiveError
from tests.pretended_cuda.conftest import COUNT, CPU, GPU, draw, evidence, solve, solver_of
from tests.pretended_cuda.device import SCHEDULES
from tests.solver.conftest import assert_same_bytes, inside_limits
from tests.solver.quick_objective import QuickObjective
from tests.solver.test_loops import CLOSED, four_bar, gaps

SAME_PLACE = 2e-2  # [m or rad]: attempts that took the same steps drift along the DOFs that are to spare
FINISHED = 1e-6  # [m]: float32 coordinates of a finish in float64
SAME_SEEDS = 0.95  # of the problems: a step that hardly changes the cost is decided by the last bits
ENGINES = ("compiled", "staged")
PATTERNS = (0x00, 0x7F, 0xFF)  # zeros, large numbers, what is not a number
each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(scope="module", params=["panda", evidence("dual_panda")])
def problems(request, panda):
    return panda if request.param == "panda" else draw("dual_panda", ["left_panda_hand", "right_panda_hand"])


def assert_same_answers(result, expected, problems):
    np.testing.assert_array_equal(result.success, expected.success)
    assert result.success.any()
    same = (result.islands.seed_index == expected.islands.seed_index).all(axis=1)
    assert same.mean() >= SAME_SEEDS
    same &= (result.islands.iterations == expected.islands.iterations).all(axis=1) & expected.success
    assert same.any()
    np.testing.assert_allclose(result.joint_q[same], expected.joint_q[same], atol=SAME_PLACE)
    distance, angle = problems.errors(result.joint_q)
    np.testing.assert_array_equal(result.success, ((distance <= 1e-3) & (angle <= 1e-2)).all(axis=1))
    assert inside_limits(problems.robot, result.joint_q).all()


@pytest.mark.parametrize(
    ("engine", "precision"), [*((engine, "float32") for engine in ENGINES), evidence("compiled", "float64")]
)
def test_the_answers_are_those_of_the_cpu_and_the_same_bytes_in_every_schedule(
    problems, engine, precision, device, monkeypatch
):
    monkeypatch.setattr(recording, "USES_MIN", 1)
    expected = solve(solver_of(problems, engine, CPU, precision=precision), problems)
    results = []
    for schedule in SCHEDULES.values():
        with device.scheduled(**schedule):
            solver = solver_of(problems, engine, precision=precision)
            graphs = device["graph_launches"]
            results += [solve(solver, problems) for _ in range(3)]
            assert device["graph_launches"] > graphs
    assert_same_answers(results[0], expected, problems)
    if precision == "float64":
        assert problems.errors(results[0].joint_q)[0][results[0].success].max() <= FINISHED
    for result in results[1:]:
        assert_same_bytes(result, results[0])


@each_engine
def test_alone_and_permuted_the_bytes_are_the_same(problems, engine):
    solver = solver_of(problems, engine)
    together = solve(solver, problems)
    order = np.random.default_rng(0).permutation(COUNT)
    permuted = solve(solver, problems, order)
    assert permuted.joint_q.tobytes() == together.joint_q[order].tobytes()
    for k in (0, int(np.argmax(together.seed_index != 0))):
        alone = solve(solver, problems, [k])
        assert alone.joint_q[0].tobytes() == together.joint_q[k].tobytes()


@each_engine
def test_no_answer_depends_on_what_was_in_memory_before(panda, engine, device):
    choices = [{}, {"solutions": 2}, {"solutions": 2, "best_of": "nearest"}, {"precision": "float64"}]
    choices = choices if engine == "compiled" else choices[:1]
    results = []
    for pattern in PATTERNS:
        with device.scheduled(pattern=pattern):
            solver = solver_of(panda, engine)
            results.append([solve(solver, panda, options=own) for own in choices])
    assert results[0][0].success.any()
    for few in results[1:]:
        for result, expected in zip(few, results[0], strict=True):
            assert_same_bytes(result, expected)


def test_all_branches_are_those_of_the_cpu():
    arm = draw("ur5e", ["tool0"])
    every = {"solutions": "all"}
    expected, result = (solve(solver_of(arm, device=one, seeds=None), arm, options=every) for one in (CPU, GPU))
    assert expected.complete.mean() > 0.5
    assert (result.solution_count == expected.solution_count).mean() >= SAME_SEEDS
    gap = (expected.solutions[:, :, None] - result.solutions[:, None]).astype(float)
    nearest = np.abs(gap - 2.0 * np.pi * np.round(gap / (2.0 * np.pi))).max(axis=3)
    nearest = np.where(np.isnan(nearest), np.inf, nearest).min(axis=2)
    found = ~np.isnan(expected.solutions[:, :, 0])
    assert (nearest[found] < SAME_PLACE).mean() >= SAME_SEEDS


@pytest.mark.usefixtures("schedule")
@each_engine
def test_a_solver_grows_and_goes_on_with_new_arrays(panda, engine):
    solver = solver_of(panda, engine)
    few = [solve(solver, panda, slice(2)) for _ in range(4)]  # recorded
    many = solve(solver, panda)
    again = solve(solver, panda, slice(2))
    for result in (*few, again):
        assert result.joint_q.tobytes() == many.joint_q[:2].tobytes()


def spoil(source, architecture, output, **settings):
    Path(output).write_bytes(b"no code")


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (spoil, KernelCacheError, "is damaged"),
        (
            Mock(side_effect=RuntimeError("CUDA kernel build failed with error code 6")),
            KernelBuildError,
            "cannot be compiled",
        ),
    ],
)
def test_code_that_the_device_does_not_take_is_explained(panda, build, error, words, tmp_path, monkeypatch):
    solve(solver_of(panda, "compiled"), panda)  # what all solvers share is loaded
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(wp._src.build, "build_cuda", build)
    robot = ik_service.load_robot("iiwa14", collision="ignore")  # of which no other check has kernels
    solver = ik_service.IKSolver(robot, [robot.link_names[-1]], device=GPU, engine="compiled")
    with pytest.raises(error, match=words):
        solver.solve([[0.3, 0.2, 0.5]])


@each_engine
@pytest.mark.parametrize("uses", [1, 4])
def test_on_a_device_that_is_lost_a_solve_is_an_error_and_never_an_answer(panda, engine, uses, device):
    solver = solver_of(panda, engine)
    for _ in range(uses):  # launched, or recorded in a graph
        assert solve(solver, panda).success.any()
    with device.lost(), pytest.raises(RuntimeError):
        solve(solver, panda)


@each_engine
@pytest.mark.parametrize("late", [0, 1])  # streams that do their work at once, or when somebody waits
def test_a_deadline_ends_a_search_and_changes_nothing_else(panda, engine, late, device, monkeypatch):
    monkeypatch.setattr(waves, "THREADS_PER_SM", 1)  # more waves
    positions, orientations = panda.positions.copy(), panda.orientations_xyzw
    positions[::4] *= 3.0  # out of reach
    with device.scheduled(late=late):
        solver = solver_of(panda, engine)
        expected = solver.solve(positions, orientations)
        for _ in range(4):  # launched, and as a graph
            assert_same_bytes(solver.solve(positions, orientations, options={"deadline_s": 1e6}), expected)
            found = solver.solve(positions, orientations, options={"deadline_s": 1e-9})
            ended = np.isin(found.status, (ik_service.IKStatus.DEADLINE, ik_service.IKStatus.UNREACHABLE))
            assert ended[::4].all()
            assert not found.success[ended].any()
            assert found.joint_q[found.success].tobytes() == expected.joint_q[found.success].tobytes()
            assert found.success.any() == (engine == "compiled")  # whose first wave is made
            assert_same_bytes(solver.solve(positions, orientations), expected)


def test_arrays_of_the_host_in_an_objective_are_an_error_and_not_the_end_of_the_process(panda, device):
    quick = QuickObjective(panda.robot.link_frame("panda_hand")[0], np.full((1, 3), 0.3))
    told = device["host_addresses"]
    with pytest.raises(ObjectiveError, match=r"QuickObjective: .*points"):
        ik_service.IKSolver(panda.robot, [], objectives=[quick], device=GPU).solve(problem_count=1)
    assert device["host_addresses"] == told


def test_obstacles_are_kept_away_from():
    problems = draw("panda", collision="read")
    world = World({"wall": Box((0.1, 2.0, 2.0), (0.6, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0))})
    results = [solve(solver_of(problems, "auto", where), problems, world=world) for where in (CPU, GPU)]
    np.testing.assert_array_equal(*(result.status for result in results))
    assert 0 < results[1].success.sum() < COUNT


def test_configurations_are_checked_as_on_the_host():
    robot, world = ik_service.load_robot("panda"), World({"box": Box((0.3, 0.3, 0.3), (0.5, 0, 0.4, 0, 0, 0, 1))})
    joint_q = robot.random_joint_q(np.random.default_rng(0), 100)
    checker, expected = ik_service.CollisionChecker(robot, world, device=GPU), robot.collision(joint_q, world)
    assert 0 < expected.is_free.sum() < 100
    for rows in (slice(0, 1), slice(None)):
        found = checker.check(joint_q[rows])
        np.testing.assert_allclose(found.clearance, expected.clearance[rows], atol=1e-9)
        assert found.closest_pairs == expected.closest_pairs[rows]


@pytest.mark.evidence
@each_engine
def test_loops_are_closed(engine):
    robot = four_bar()
    solver = ik_service.IKSolver(
        robot, [], objectives=[IKObjectivePosture(robot.mid_joint_q)], engine=engine, device=GPU
    )
    result = solver.solve(problem_count=COUNT)
    assert result.success.all()
    assert gaps(robot, result.joint_q).max() <= CLOSED


@pytest.mark.evidence
def test_a_robot_is_measured_by_the_clock_on_the_wall(panda, monkeypatch):
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 3)
    plan = robot_bench.BenchPlan(robot=panda.robot, links=("panda_hand",), count=4, repeats=1, device=GPU)
    report = robot_bench.run_bench(plan)
    assert report.threads is None
    assert {batches.clock for batches in report.batches} == {"wall"}


def test_what_would_hold_up_everybody_is_refused_on_a_gpu_too(panda):
    """The bound of the staged engine, here for a Panda with as many iterations as seven DOFs cubed allow."""
    cache, target = SolverCache(GPU, effort_most=7**3 * 100 * 1000), (Target("panda_hand"),)

    def ask(seeds):
        options, arrays = SolverOptions(seeds=seeds, max_iterations=1000), Batch.of([panda.positions[:1, 0]])
        return cache.solve(panda.robot, SolveRequest(target, arrays, options=options, engine="staged"))

    assert ask(2).success.all()
    with pytest.raises(InputError, match="would hold up everybody"):
        ask(1024)

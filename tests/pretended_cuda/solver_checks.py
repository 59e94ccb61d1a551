"""Solves on the pretended device: the answers of the CPU, the same bytes whatever the schedule, and what GPUs alone do.

By "the same answers" of device and CPU is meant: the same problems are solved, the same seeds win, and where an attempt
took as many steps the joints agree within `SAME_PLACE`. Bytes differ, because two compilers fuse sums and products in
other places. Between runs on the device all bytes are equal.
"""

from pathlib import Path

import numpy as np
import pytest
import warp as wp
from ik_service.solver.launches import recording

import ik_service
import objectives
from benchmarks.gpu import rates as benchmark
from ik_service.cli import robot_bench
from ik_service.cli.robot_bench import BenchPlan, run_bench
from ik_service.collision.shapes import Box, Sphere
from ik_service.collision.world import World
from ik_service.errors import KernelBuildError, KernelCacheError
from ik_service.kernels.host_device_array import HostDeviceArray, block_on
from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.compiled import waves
from ik_service.solver.compiled.solutions import LANES_ON_GPUS
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives import InputError, ObjectiveError
from tests.pretended_cuda.device import SCHEDULES
from tests.solver.conftest import Reachable, assert_same_bytes, inside_limits
from tests.solver.quick_objective import QuickObjective
from tests.solver.test_loops import CLOSED, four_bar, gaps

GPU, CPU = "cuda:0", "cpu"
SAME_PLACE = 2e-2  # [m or rad]: attempts that took the same steps drift along the DOFs that are to spare
SAME_VALLEY = 5e-2  # [rad]: where a posture yields to a target an attempt ends anywhere in a flat valley
FINISHED = 1e-6  # [m]: float32 coordinates of a finish in float64
SAME_SEEDS = 0.95  # of the problems: a step that hardly changes the cost is decided by the last bits
COUNT = 20
ENGINES = ("compiled", "staged")
LINKS = {"panda": ["panda_hand"], "dual_panda": ["left_panda_hand", "right_panda_hand"]}
PATTERNS = (0x00, 0x7F, 0xFF)  # zeros, large numbers, what is not a number


def draw(name, collision="ignore"):
    return Reachable.draw(ik_service.load_robot(name, collision=collision), LINKS[name], COUNT, random_seed=5)


@pytest.fixture(scope="module", params=["panda", pytest.param("dual_panda", marks=pytest.mark.evidence)])
def problems(request):
    return draw(request.param)


@pytest.fixture(scope="module")
def panda():
    return draw("panda")


def solver_of(problems, engine, device=GPU, **options):
    chosen = ik_service.SolverOptions(seeds=4, **options)
    return ik_service.IKSolver(problems.robot, problems.links, device=device, engine=engine, options=chosen)


def solve(solver, problems, order=slice(None), **given):
    return solver.solve(problems.positions[order], problems.orientations_xyzw[order], **given)


def assert_same_answers(result, expected, problems, place=SAME_PLACE):
    np.testing.assert_array_equal(result.success, expected.success)
    assert result.success.any()
    same = (result.islands.seed_index == expected.islands.seed_index).all(axis=1)
    assert same.mean() >= SAME_SEEDS
    same &= (result.islands.iterations == expected.islands.iterations).all(axis=1) & expected.success
    assert same.any()
    np.testing.assert_allclose(result.joint_q[same], expected.joint_q[same], atol=place)
    distance, angle = problems.errors(result.joint_q)
    np.testing.assert_array_equal(result.success, ((distance <= 1e-3) & (angle <= 1e-2)).all(axis=1))
    assert inside_limits(problems.robot, result.joint_q).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_answers_are_those_of_the_cpu_and_the_same_bytes_in_every_schedule(problems, engine, device, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 1)
    expected = solve(solver_of(problems, engine, CPU), problems)
    results = []
    for schedule in SCHEDULES.values():
        with device.scheduled(**schedule):
            solver = solver_of(problems, engine)
            graphs = device["graph_launches"]
            results += [solve(solver, problems) for _ in range(3)]
            assert device["graph_launches"] > graphs
    assert_same_answers(results[0], expected, problems)
    for result in results[1:]:
        assert_same_bytes(result, results[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_alone_and_permuted_the_bytes_are_the_same(problems, engine):
    solver = solver_of(problems, engine)
    together = solve(solver, problems)
    order = np.random.default_rng(0).permutation(COUNT)
    permuted = solve(solver, problems, order)
    assert permuted.joint_q.tobytes() == together.joint_q[order].tobytes()
    for k in (0, int(np.argmax(together.seed_index != 0))):
        alone = solve(solver, problems, [k])
        assert alone.joint_q[0].tobytes() == together.joint_q[k].tobytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_no_answer_depends_on_what_was_in_memory_before(panda, engine, device):
    choices = [{}, {"solutions": 2}, {"solutions": 2, "best_of": "nearest"}][: 3 if engine == "compiled" else 1]
    results = []
    for pattern in PATTERNS:
        with device.scheduled(pattern=pattern):
            solver = solver_of(panda, engine)
            results.append([solve(solver, panda, options=own) for own in choices])
    assert results[0][0].success.any()
    for few in results[1:]:
        for result, expected in zip(few, results[0], strict=True):
            assert_same_bytes(result, expected)


@pytest.mark.evidence
@pytest.mark.usefixtures("schedule")
def test_solutions_that_several_threads_choose_are_those_of_the_cpu(panda):
    options = {"solutions": 3, "best_of": "nearest", "seeds": LANES_ON_GPUS + 8}  # some threads see two attempts
    result, expected = (solve(solver_of(panda, "compiled", at), panda, options=options) for at in (GPU, CPU))
    np.testing.assert_array_equal(result.solution_count, expected.solution_count)
    assert (result.seed_index == expected.seed_index).mean() >= SAME_SEEDS
    assert (expected.seed_index >= LANES_ON_GPUS).any()
    same = np.abs(result.solutions - expected.solutions).max(axis=(1, 2)) <= SAME_PLACE
    assert same.mean() >= SAME_SEEDS


@pytest.mark.evidence
def test_a_finish_in_float64_is_that_of_the_cpu(panda, device):
    expected = solve(solver_of(panda, "compiled", CPU, precision="float64"), panda)
    for pattern in PATTERNS:
        with device.scheduled(pattern=pattern):
            result = solve(solver_of(panda, "compiled", precision="float64"), panda)
        assert_same_answers(result, expected, panda)
        assert panda.errors(result.joint_q)[0][result.success].max() <= FINISHED


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_solver_grows_and_goes_on_with_new_arrays(panda, engine):
    solver = solver_of(panda, engine)
    few = [solve(solver, panda, slice(2)) for _ in range(4)]  # recorded
    many = solve(solver, panda)
    again = solve(solver, panda, slice(2))
    for result in (*few, again):
        assert result.joint_q.tobytes() == many.joint_q[:2].tobytes()


@pytest.mark.evidence
def test_what_is_asked_of_some_problems_alone_reaches_the_device(panda):
    """Objectives with numbers per problem, exchanged between solves, and inputs that are arrays of a device."""
    answers = {}
    for where in (CPU, GPU):
        posture = objectives.IKObjectivePosture(np.zeros(7), weight=0.1)
        solver = ik_service.IKSolver(panda.robot, panda.links, objectives=[posture], device=where)
        solve(solver, panda)
        for line in (0.1, 0.2):
            posture.set_reference(np.full((COUNT, 7), line))
            given = [values.astype(np.float32) for values in (panda.positions, panda.orientations_xyzw)]
            answers[where] = solver.solve(*(wp.array(values, device=where) for values in given))
    assert_same_answers(answers[GPU], answers[CPU], panda, SAME_VALLEY)


@pytest.mark.evidence
@pytest.mark.parametrize("engine", ENGINES)
def test_loops_are_closed(engine):
    robot = four_bar()
    starts = robot.random_joint_q(np.random.default_rng(8), COUNT)
    turns = np.column_stack([np.zeros((COUNT, 2)), np.sin(0.5 * starts[:, 0]), np.cos(0.5 * starts[:, 0])])
    target = ik_service.Target("crank", row_weights=[0, 0, 0, 0, 0, 1])
    cpu, gpu = (
        ik_service.IKSolver(robot, [target], engine=engine, device=where).solve(
            orientations_xyzw=turns[:, np.newaxis], initial_joint_q=starts, options={"seeds": 4}
        )
        for where in (CPU, GPU)
    )
    assert gpu.success.all()
    assert gaps(robot, gpu.joint_q).max() <= CLOSED
    np.testing.assert_allclose(gpu.joint_q[:, 0], cpu.joint_q[:, 0], atol=2e-2)


def test_results_go_back_to_the_device(panda):
    result = solve(solver_of(panda, "auto"), panda)
    columns = result.to_warp()
    assert {str(column.device) for column in columns.values()} == {GPU}
    np.testing.assert_array_equal(columns["joint_q"].numpy(), result.joint_q)


def spoiled(source, architecture, output, **settings):
    Path(output).write_bytes(b"no code")


def refused(source, architecture, output, **settings):
    raise RuntimeError("CUDA kernel build failed with error code 6")


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [(spoiled, KernelCacheError, "is damaged"), (refused, KernelBuildError, "cannot be compiled")],
)
def test_code_that_the_device_does_not_take_is_explained(panda, build, error, words, tmp_path, monkeypatch):
    solve(solver_of(panda, "compiled"), panda)  # what all solvers share is loaded
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(wp._src.build, "build_cuda", build)
    robot = ik_service.load_robot("iiwa14", collision="ignore")  # of which no other check has kernels
    solver = ik_service.IKSolver(robot, [robot.link_names[-1]], device=GPU, engine="compiled")
    with pytest.raises(error, match=words):
        solver.solve([[0.3, 0.2, 0.5]])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("uses", [1, 4])
def test_on_a_device_that_is_lost_a_solve_is_an_error_and_never_an_answer(panda, engine, uses, device):
    solver = solver_of(panda, engine)
    for _ in range(uses):  # launched, or recorded in a graph
        assert solve(solver, panda).success.any()
    with device.lost(), pytest.raises(RuntimeError):
        solve(solver, panda)


def test_threads_of_the_host_change_nothing(panda):
    several = ik_service.IKSolver(panda.robot, panda.links, device=GPU, threads=2)
    one = ik_service.IKSolver(panda.robot, panda.links, device=GPU)
    assert_same_bytes(solve(several, panda), solve(one, panda))


@pytest.mark.parametrize("engine", ENGINES)
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
            ended = found.status == ik_service.IKStatus.DEADLINE
            assert ended[::4].all()
            assert not found.success[ended].any()
            assert found.joint_q[found.success].tobytes() == expected.joint_q[found.success].tobytes()
            assert found.success.any() == (engine == "compiled")  # whose first wave is made
            assert_same_bytes(solver.solve(positions, orientations), expected)


def test_a_number_is_copied_at_once_beside_others(device):
    with device.scheduled(late=1):
        gpu = wp.get_device(GPU)
        block = block_on(gpu)
        arrays = [HostDeviceArray((4,), wp.int32, gpu, block=block) for _ in range(2)]
        for array in arrays:
            array.host[:] = 1, 2, 3, 4
        block.push(4)
        wp.synchronize_device(gpu)
        arrays[1].host[:] = 5, 6, 7, 8
        arrays[1].push_now(2)
    assert [array.device.numpy().tolist() for array in arrays] == [[1, 2, 3, 4], [1, 2, 7, 4]]


def test_arrays_of_the_host_in_an_objective_are_an_error_and_not_the_end_of_the_process(panda, device):
    quick = QuickObjective(panda.robot.link_frame("panda_hand")[0], np.full((1, 3), 0.3))
    told = device["host_addresses"]
    with pytest.raises(ObjectiveError, match=r"QuickObjective: .*points"):
        ik_service.IKSolver(panda.robot, [], objectives=[quick], device=GPU).solve(problem_count=1)
    assert device["host_addresses"] == told


def test_no_kernel_is_given_an_address_of_the_host(panda, device):
    told = device["host_addresses"]
    for engine in ENGINES:
        solve(solver_of(panda, engine), panda)
    assert device["host_addresses"] == told == 0


def test_obstacles_are_kept_away_from(device):
    problems = draw("panda", collision="read")
    world = World({"wall": Box((0.1, 2.0, 2.0), (0.6, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0))})
    results = [solve(solver_of(problems, "auto", where), problems, world=world) for where in (CPU, GPU)]
    np.testing.assert_array_equal(*(result.status for result in results))
    assert 0 < results[1].success.sum() < COUNT


@pytest.mark.evidence
def test_answers_are_moved_out_of_contact(device):
    problems = draw("panda", collision="read")
    ahead = quaternion_rotate(problems.orientations_xyzw[:, 0], np.tile([0.0, 0.0, 1.0], (COUNT, 1)))
    places = zip(problems.joint_q, problems.positions[:, 0], ahead, strict=True)
    worlds = [touching(problems.robot, *one) for one in places]
    given = {"world": worlds, "world_index": np.arange(COUNT)}
    before = solve(solver_of(problems, "auto"), problems, **given)
    cpu, gpu = (solve(solver_of(problems, "auto", w), problems, **given, options={"repair": True}) for w in (CPU, GPU))
    np.testing.assert_array_equal(gpu.status, cpu.status)
    assert gpu.success.sum() >= before.success.sum() + 5
    free = [
        problems.robot.collision(q, own).is_free[0] for q, own in zip(gpu.joint_q.astype(float), worlds, strict=True)
    ]
    assert np.array(free)[gpu.success].all()


def touching(robot, joint_q, position, ahead):
    """A world with a ball ahead of a hand, 0.4 mm deep in its fingers."""
    way = 0.3
    for _ in range(40):  # clearance is that of other links where they are nearer to each other
        world = World({"ball": Sphere(0.05, tuple(position + way * ahead))})
        way -= float(robot.collision(joint_q, world).clearance[0]) + 4e-4
    return world


@pytest.mark.evidence
def test_a_robot_is_measured_by_the_clock_on_the_wall(panda, monkeypatch):
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 3)
    plan = BenchPlan(robot=panda.robot, links=("panda_hand",), count=4, repeats=1, device=GPU)
    report = run_bench(plan)
    assert report.threads is None
    assert {batches.clock for batches in report.batches} == {"wall"}


@pytest.mark.evidence
def test_the_benchmark_replays_the_graph_of_the_last_solve(panda):
    solver = solver_of(panda, "compiled")
    results = [solve(solver, panda) for _ in range(recording.USES_MIN + 2)]
    device = wp.get_device(GPU)
    solver._core.work.problems.best.joint_q.zero_()
    wp.capture_launch(benchmark._recorded(solver))
    wp.synchronize_device(device)
    assert solver._core.work.problems.best.joint_q.numpy()[:COUNT].tobytes() == results[0].joint_q.tobytes()


@pytest.mark.parametrize("seeds", [2, 1024])
def test_what_would_hold_up_everybody_is_refused_on_a_gpu_too(panda, seeds):
    """The bound of the staged engine, here for a Panda with as many iterations as seven DOFs cubed allow."""
    iterations = 1000
    options = SolverOptions(seeds=seeds, max_iterations=iterations)
    most = 7**3 * 100 * iterations
    request = SolveRequest(
        (Target("panda_hand"),), Batch.of([panda.positions[:1, 0]]), options=options, engine="staged"
    )
    cache = SolverCache(GPU, effort_most=most)
    if seeds > 100:
        with pytest.raises(InputError, match="would hold up everybody"):
            cache.solve(panda.robot, request)
    else:
        assert cache.solve(panda.robot, request).success.all()

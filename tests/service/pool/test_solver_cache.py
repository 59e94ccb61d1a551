"""The cache of solvers: reuse, bounds, eviction; parts, batches and objectives do not change answers."""

import gc
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from ik_service.kernels.kernel_loading import loaded_modules
from ik_service.result_schema import worst_over_targets
from ik_service.service.pool import solver_cache
from ik_service.service.pool.solver_cache import EFFORT_MOST, CachedSolver, SolverCache
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.objective_data import ObjectiveData
from ik_service.service.queue.solve_request import QueuedRequest, SolveRequest
from ik_service.solver.compiled import island_launches
from ik_service.solver.compiled.island_launches import PacketLaunches
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives import IKObjectivePlane, IKObjectivePosture
from objectives.errors import InputError
from tests.service.conftest import COLUMNS, assert_one_batch
from tests.service.pool.conftest import chain, solved_by


def request_for(robot, count, *, link="panda_hand", offset=None, seed=0):
    joint_q = robot.random_joint_q(np.random.default_rng(seed), count)
    poses = robot.forward_kinematics(joint_q, links=[link])
    arrays = Batch.of([poses.positions[:, 0]], [poses.orientations_xyzw[:, 0]])
    return SolveRequest((Target(link, offset),), arrays)


def test_requests_of_equal_structure_share_a_solver(panda):
    requests = [request_for(panda, count, seed=seed) for seed, count in enumerate((3, 5, 2))]
    cache = assert_one_batch(panda, requests)
    cache.solve(panda, request_for(panda, 2, offset=np.array([0, 0, 0.1, 0, 0, 0, 1.0])))
    assert len(cache) == 2


def test_the_owner_who_has_most_solvers_gives_one_up(panda, monkeypatch):
    monkeypatch.setattr(SolverCache, "_build", lambda cache, robot, request: CachedSolver(None, ()))
    cache = SolverCache("cpu", capacity=4)
    asked = [("hog", 7), ("calm", 6), ("hog", 5), ("hog", 4), ("hog", 3), ("calm", 2), ("hog", 7)]
    for owner, number in asked:
        cache._cached(panda, request_for(panda, 1, link=f"panda_link{number}"), owner)
    kept = [(cache._owners[key], key[1][0][0]) for key in cache._solvers]
    assert kept == [("calm", "panda_link6"), ("hog", "panda_link3"), ("calm", "panda_link2"), ("hog", "panda_link7")]
    assert len(cache._owners) == 4


@pytest.mark.evidence
def test_kernels_that_no_solver_needs_are_unloaded_and_come_back_the_same(panda, monkeypatch):
    made = island_launches._packet_kernel.__wrapped__
    monkeypatch.setattr(island_launches, "_packet_kernel", lru_cache(1)(made))
    cache, first, counts = SolverCache("cpu", capacity=1), {}, []
    held = SolverCache("cpu").solve(panda, request_for(panda, 3, link="panda_link7"))  # what it had is gone as well
    for _ in range(3):
        for link in ("panda_hand", "panda_link7", "panda_link6"):
            answer = cache.solve(panda, request_for(panda, 3, link=link)).joint_q.tobytes()
            assert first.setdefault(link, answer) == answer
            gc.collect()
            counts.append(loaded_modules())
    assert len(set(counts[3:])) == 1
    assert first["panda_link7"] == held.joint_q.tobytes()


@pytest.mark.evidence
def test_a_module_of_an_equal_name_is_apart_from_one_that_is_still_in_use(panda, monkeypatch):
    """The code of a module is found by its name and a number; both are of equal kernels here."""
    made = island_launches._packet_kernel.__wrapped__
    monkeypatch.setattr(island_launches, "_packet_kernel", made)  # each solver has a kernel of its own
    one, other = SolverCache("cpu"), SolverCache("cpu")
    request = request_for(panda, 3)
    five = one.solve(panda, request_for(panda, 5)).joint_q.tobytes()
    expected = one.solve(panda, request).joint_q.tobytes()
    assert other.solve(panda, request).joint_q.tobytes() == expected
    del one
    gc.collect()  # unloads what the other solver uses, too; its launches keep the code
    third = SolverCache("cpu")
    assert third.solve(panda, request).joint_q.tobytes() == expected
    assert other.solve(panda, request).joint_q.tobytes() == expected
    del third
    gc.collect()
    assert other.solve(panda, request_for(panda, 5)).joint_q.tobytes() == five
    assert other.solve(panda, request).joint_q.tobytes() == expected


def test_parts_do_not_change_the_answer(panda, monkeypatch):
    offsets = np.zeros((7, 7))
    offsets[:, 6] = 1.0
    offsets[:, 2] = np.linspace(0.0, 0.1, 7)
    for offset in (None, offsets):
        request = request_for(panda, 7, offset=offset)
        whole = SolverCache("cpu").solve(panda, request)
        monkeypatch.setattr(solver_cache, "PART_SIZE", 3)
        parts, counts = SolverCache("cpu"), []
        answer = parts.solve(panda, request, counts.append)
        monkeypatch.undo()
        assert counts == [3, 3, 1]
        assert answer.success.tolist() == whole.success.tolist()
        assert answer.joint_q.tobytes() == whole.joint_q.tobytes()


def test_tools_and_weights_are_data_of_one_solver(panda):
    rng = np.random.default_rng(0)
    counts = ((3, True), (1, False), (4, False), (2, True))
    requests = [tool_request(panda, count, rng, many=many) for count, many in counts]
    assert len({request.code_key for request in requests}) == 1
    cache = assert_one_batch(panda, requests)
    assert cache.solve_together(panda, requests).success.sum() >= 10 - 2


def tool_request(robot, count, rng, *, many):
    """Problems with a tool and weights, of which one is 0: in one row for all problems, or in a row for each."""
    request = request_for(robot, count, seed=int(rng.integers(1000)))
    tool = np.hstack([0.1 * rng.random((count, 3)), np.tile([0.0, 0.0, 0.6, 0.8], (count, 1))])
    weights = 0.1 + rng.random((count, 6))
    weights[:, 5] = 0.0
    if not many:
        tool, weights = tool[0], weights[0]
    target = replace(request.targets[0], offset=tool, row_weights=weights)
    return replace(request, targets=(target,))


def test_the_worst_error_ignores_free_targets():
    errors = np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(worst_over_targets(errors), [1.0, np.nan, 3.0])


@pytest.fixture
def real_pool():
    pool = SolverPool("cpu", compile_apart=False)
    yield pool
    pool.close()


@pytest.fixture
def small_code(monkeypatch):
    """Generated code holds no chain of 40 DOFs, so that the staged engine solves it."""
    monkeypatch.setattr(PacketLaunches, "step_entries_max", 200)


@pytest.mark.evidence
@pytest.mark.usefixtures("small_code")
def test_problems_of_the_staged_engine_are_refused_and_bounded_by_what_they_take_at_worst(real_pool):
    robot, pool = chain(40), real_pool
    most = int(EFFORT_MOST / 40**3)
    far = Batch.of([np.full((1, 3), 9.0)])
    request = SolveRequest((Target("l40"),), far, options=SolverOptions(seeds=1024, max_iterations=1000))
    with pytest.raises(InputError, match=f"'chain' with 40 DOFs.* seeds times max_iterations up to {most}"):
        solved_by(pool, robot, request)
    allowed = replace(request, options=SolverOptions(seeds=2, max_iterations=5))
    assert len(solved_by(pool, robot, allowed).result.success) == 1
    here = Batch.of([robot.forward_kinematics(robot.mid_joint_q, links=["l40"]).positions[0]])
    slow = replace(request, arrays=here, options=SolverOptions(seeds=1024, max_iterations=100))
    assert solved_by(pool, robot, slow).result.success.all()
    bound = pool._batch_sizer._bounds[QueuedRequest(robot, slow, 0.0, 1.0).key]
    assert bound == int(EFFORT_MOST / (40**3 * 1024 * 100))


@pytest.mark.evidence
def test_engines_and_islands_have_solvers_of_their_own(panda):
    request = request_for(panda, 2)
    cache = SolverCache("cpu", capacity=4)
    others = [replace(request, engine="staged"), replace(request, islands=False)]
    others.append(replace(others[0], options=SolverOptions(candidates=2)))
    engines = [cache.solve(panda, one).engine for one in (request, *others)]
    assert engines == ["compiled", "staged", "compiled", "staged"]
    assert len({one.batch_key for one in (request, *others)}) == 4
    assert [QueuedRequest(panda, one, 0.0, 1.0).may_be_slow for one in (request, *others)] == [False, True, False, True]


# ---------------------------------------------------------------------- objectives
def posture(values, weights):
    return ObjectiveData("posture", IKObjectivePosture, (), {"joint_q_reference": values, "row_weights": weights})


def plane(points, weights, link="panda_link6"):
    data = {"points": points, "normals": np.array([0.0, 0.0, 1.0]), "row_weights": weights}
    return ObjectiveData("plane", IKObjectivePlane, (("link", link),), data)


def request_of_objectives(robot, count, seed, *, weight=0.01, alone=False):
    """Problems with a posture and a plane; data in one row for all problems where the seed is even, else in many."""
    rng = np.random.default_rng(seed)
    poses = robot.forward_kinematics(robot.random_free_joint_q(rng, count), links=["panda_hand"])
    targets = () if alone else (Target("panda_hand"),)
    arrays = Batch((), (), count) if alone else Batch.of([poses.positions[:, 0]])
    reference, points = robot.random_joint_q(rng, count), poses.positions[:, 0]
    weights = weight * (1.0 + rng.random((count, 7)))
    if seed % 2 == 0:
        reference, points, weights = reference[0], points[0], weights[0]
    objectives = (posture(reference, weights), plane(points, np.array([weight])))
    return SolveRequest(targets, arrays, options=SolverOptions(seeds=8), objectives=objectives)


@pytest.mark.evidence_cases("without")
@pytest.mark.parametrize("alone", [False, True], ids=["with targets", "without"])
def test_a_batch_gives_each_request_what_it_gets_alone(panda, alone):
    counts = enumerate((3, 5, 1, 1, 4))
    assert_one_batch(panda, [request_of_objectives(panda, count, seed, alone=alone) for seed, count in counts])


@pytest.mark.parametrize("seed", [0, 1])
def test_parts_of_objectives_do_not_change_the_answer(panda, monkeypatch, seed):
    request = request_of_objectives(panda, 7, seed)
    whole = SolverCache("cpu").solve(panda, request)
    monkeypatch.setattr(solver_cache, "PART_SIZE", 3)
    parts = SolverCache("cpu").solve(panda, request)
    for name in COLUMNS:
        assert getattr(parts, name).tobytes() == getattr(whole, name).tobytes(), name
    assert parts.islands[6][0].rows == ("target panda_hand", "posture", "plane panda_link6")


def test_numbers_are_data_and_what_is_off_is_structure(panda):
    one, other = request_of_objectives(panda, 2, 1), request_of_objectives(panda, 3, 4, weight=0.5)
    assert (one.batch_key, one.code_key) == (other.batch_key, other.code_key)
    off = np.array([1.0, 1, 1, 1, 1, 1, 0])
    less = replace(one, objectives=(posture(np.zeros(7), off), one.objectives[1]))
    assert less.structure == one.structure
    assert less.batch_key != one.batch_key
    assert less.code_key != one.code_key
    mixed = replace(one, objectives=(posture(np.zeros(7), np.stack([off, np.ones(7)])), one.objectives[1]))
    assert mixed.batch_key is None  # problems in which other rows are on are solved alone
    elsewhere = replace(one, objectives=(one.objectives[0], plane(np.zeros(3), np.ones(1), link="panda_link5")))
    fewer = replace(one, objectives=one.objectives[:1])
    assert len({request.structure for request in (one, elsewhere, fewer)}) == 3


def test_a_part_of_a_request_without_targets_has_its_size(panda):
    request = request_of_objectives(panda, 7, 1, alone=True)
    part = request.part(slice(5, 9))
    assert part.problem_count == 2
    references = (one.objectives[0].data["joint_q_reference"] for one in (request, part))
    np.testing.assert_array_equal(next(references)[5:7], next(references))

"""Objectives of requests: what can be solved together, in one batch with the bytes of each alone, in parts alike."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service.service.pool import solver_cache
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.objective_data import ObjectiveData
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives import IKObjectivePlane, IKObjectivePosture
from tests.service.conftest import COLUMNS, assert_one_batch


def posture(values, weights):
    return ObjectiveData("posture", IKObjectivePosture, (), {"joint_q_reference": values, "row_weights": weights})


def plane(points, weights, link="panda_link6"):
    data = {"points": points, "normals": np.array([0.0, 0.0, 1.0]), "row_weights": weights}
    return ObjectiveData("plane", IKObjectivePlane, (("link", link),), data)


def request_for(robot, count, seed, *, weight=0.01, alone=False):
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
    assert_one_batch(panda, [request_for(panda, count, seed, alone=alone) for seed, count in counts])


@pytest.mark.parametrize("seed", [0, 1])
def test_parts_do_not_change_the_answer(panda, monkeypatch, seed):
    request = request_for(panda, 7, seed)
    whole = SolverCache("cpu").solve(panda, request)
    monkeypatch.setattr(solver_cache, "PART_SIZE", 3)
    parts = SolverCache("cpu").solve(panda, request)
    for name in COLUMNS:
        assert getattr(parts, name).tobytes() == getattr(whole, name).tobytes(), name
    assert parts.islands[6][0].rows == ("target panda_hand", "posture", "plane panda_link6")


def test_numbers_are_data_and_what_is_off_is_structure(panda):
    one, other = request_for(panda, 2, 1), request_for(panda, 3, 4, weight=0.5)
    assert (one.batch_key, one.code_key) == (other.batch_key, other.code_key)
    off = np.array([1.0, 1, 1, 1, 1, 1, 0])
    less = replace(one, objectives=(posture(np.zeros(7), off), one.objectives[1]))
    assert less.structure == one.structure
    assert less.batch_key != one.batch_key
    assert less.code_key != one.code_key
    elsewhere = replace(one, objectives=(one.objectives[0], plane(np.zeros(3), np.ones(1), link="panda_link5")))
    fewer = replace(one, objectives=one.objectives[:1])
    assert len({request.structure for request in (one, elsewhere, fewer)}) == 3


@pytest.mark.evidence
def test_problems_in_which_other_rows_are_on_are_solved_alone(panda):
    mixed = np.array([[1.0, 1, 1, 1, 1, 1, 0], [1.0, 1, 1, 1, 1, 1, 1]])
    request = request_for(panda, 2, 1)
    request = replace(request, objectives=(posture(np.zeros(7), mixed), request.objectives[1]))
    assert request.batch_key is None
    cache = SolverCache("cpu")
    whole = cache.solve(panda, request)
    for k in range(2):
        single = cache.solve(panda, request.part(slice(k, k + 1)))
        assert single.joint_q.tobytes() == whole.joint_q[k : k + 1].tobytes()


def test_a_part_of_a_request_without_targets_has_its_size(panda):
    request = request_for(panda, 7, 1, alone=True)
    part = request.part(slice(5, 9))
    assert part.problem_count == 2
    references = (one.objectives[0].data["joint_q_reference"] for one in (request, part))
    np.testing.assert_array_equal(next(references)[5:7], next(references))

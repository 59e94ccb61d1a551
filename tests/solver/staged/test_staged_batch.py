"""What only the staged engine reads changes none of its answers: the number of slots, the recording of an iteration."""

import pytest

from ik_service import SolverOptions
from ik_service.kernels import host_device_array
from ik_service.solver.staged import engine as staged_engine
from tests.solver.conftest import Reachable, assert_same_bytes, bare_robot, cpu_solver


@pytest.fixture(autouse=True, params=["one memory", "memory apart"])
def memory(request, monkeypatch):
    """Runs a test as on a CPU, and with arrays that host and device do not share."""
    monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: request.param == "memory apart")


@pytest.fixture(scope="module", params=["panda", "dual_panda", "panda_gripper"])
def problems(request):
    links = ["left_panda_hand", "right_panda_hand"] if request.param == "dual_panda" else ["panda_hand"]
    return Reachable.draw(bare_robot(request.param), links, 40, random_seed=5)


def solve(problems, **options):
    """The batch that worked, and the answers."""
    chosen = SolverOptions(seeds=8, **options)
    solver = cpu_solver(problems.robot, problems.links, engine="staged", options=chosen)
    result = solver.solve(problems.positions, problems.orientations_xyzw)
    return solver._core.engine.batch, result


def assert_graph_changes_nothing(problems, **options):
    (recorded, result), (launched, expected) = (solve(problems, use_graph=use, **options) for use in (True, False))
    assert recorded._graph is not None
    assert launched._graph is None
    assert_same_bytes(result, expected)
    return result


def test_the_number_of_slots_changes_nothing(problems, monkeypatch):
    _, expected = solve(problems)
    for slots in (8, 16, 512):
        monkeypatch.setitem(staged_engine.SLOTS_MAX, "cpu", slots)
        batch, result = solve(problems)
        assert batch.slot_count == slots
        assert_same_bytes(result, expected)


@pytest.mark.parametrize("mode", ["autodiff", "mixed"])
def test_a_recorded_tape_equals_launches_one_by_one(panda_targets, mode):
    assert assert_graph_changes_nothing(panda_targets.part(slice(5)), jacobian_mode=mode).success.sum() >= 4


@pytest.mark.parametrize("candidates", [2, 4, 8])
def test_the_best_of_several_candidates_is_kept(panda_targets, candidates):
    one, several = (
        cpu_solver(
            panda_targets.robot,
            panda_targets.links,
            engine="staged",
            options=SolverOptions(candidates=count, max_iterations=1, seeds=1),
        )
        .solve(*panda_targets.targets)
        .cost
        for count in (1, candidates)
    )
    assert (several <= one).all()
    assert (several < 0.9 * one).any()

"""What only the staged engine reads changes none of its answers: the number of slots, the recording of an iteration."""

import pytest

from ik_service import SolverOptions, load_robot
from ik_service.kernels import host_device_array
from ik_service.solver.staged import engine as staged_engine
from tests.solver.conftest import Reachable, assert_same_bytes, cpu_solver


@pytest.fixture(autouse=True, params=["one memory", "memory apart"])
def memory(request, monkeypatch):
    """Runs a test as on a CPU, and with arrays that host and device do not share."""
    monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: request.param == "memory apart")


@pytest.fixture(scope="module", params=["panda", "dual_panda", "panda_gripper"])
def problems(request):
    links = ["left_panda_hand", "right_panda_hand"] if request.param == "dual_panda" else ["panda_hand"]
    return Reachable.draw(load_robot(request.param, collision="ignore"), links, 40, random_seed=5)


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


def test_a_recorded_iteration_equals_launches_one_by_one(problems):
    assert_graph_changes_nothing(problems)


@pytest.mark.parametrize("mode", ["autodiff", "mixed"])
def test_a_recorded_tape_equals_launches_one_by_one(panda_targets, mode):
    few = Reachable(
        panda_targets.robot, ["panda_hand"], None, panda_targets.positions[:5], panda_targets.orientations_xyzw[:5]
    )
    assert assert_graph_changes_nothing(few, jacobian_mode=mode).success.sum() >= 4


@pytest.mark.parametrize("candidates", [2, 4, 8])
def test_the_best_of_several_candidates_is_kept(panda_targets, candidates):
    def cost_after_one_step(count):
        options = SolverOptions(candidates=count, max_iterations=1, seeds=1)
        solver = cpu_solver(panda_targets.robot, ["panda_hand"], engine="staged", options=options)
        assert solver.engine == "staged"
        return solver.solve(panda_targets.positions, panda_targets.orientations_xyzw).cost

    one, several = cost_after_one_step(1), cost_after_one_step(candidates)
    assert (several <= one).all()
    assert (several < 0.9 * one).any()

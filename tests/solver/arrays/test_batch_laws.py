"""What may not change an answer of any engine: the batch it travelled in, its place there, the recording.

Each test varies what the engine that runs does read; `test_staged_batch.py` has what only the staged engine reads.
"""

import numpy as np
import pytest

from ik_service import SolverOptions, load_robot
from ik_service.solver.launches import recording
from tests.solver.conftest import Reachable, assert_same_bytes, cpu_solver

pytestmark = pytest.mark.usefixtures("each_way")


def solve(problems, order=None, **options):
    chosen = SolverOptions(seeds=8, **options)
    solver = cpu_solver(problems.robot, problems.links, options=chosen)
    order = slice(None) if order is None else order
    return solver.solve(problems.positions[order], problems.orientations_xyzw[order])


@pytest.fixture(scope="module", params=["panda", "dual_panda", "panda_gripper"])
def problems(request):
    links = ["left_panda_hand", "right_panda_hand"] if request.param == "dual_panda" else ["panda_hand"]
    return Reachable.draw(load_robot(request.param, collision="ignore"), links, 40, random_seed=5)


def test_one_by_one_equals_the_batch(problems):
    together = solve(problems)
    assert (together.seed_index != 0).any()
    for k in (0, 7, 23, int(np.argmax(together.seed_index != 0))):
        alone = solve(problems, [k])
        np.testing.assert_array_equal(alone.joint_q[0], together.joint_q[k])
        assert alone.seed_index[0] == together.seed_index[k]
        assert alone.iterations[0] == together.iterations[k]


def test_permuted_problems_give_permuted_answers(problems):
    order = np.random.default_rng(0).permutation(40)
    straight, permuted = solve(problems), solve(problems, order)
    np.testing.assert_array_equal(permuted.joint_q, straight.joint_q[order])
    np.testing.assert_array_equal(permuted.seed_index, straight.seed_index[order])


def test_a_recorded_solve_equals_launches_one_by_one(problems, monkeypatch):
    def solve_recorded(uses_min):
        monkeypatch.setattr(recording, "USES_MIN", uses_min)
        solver = cpu_solver(problems.robot, problems.links)
        results = [solver.solve(problems.positions, problems.orientations_xyzw) for _ in range(2)]
        return solver, results[1]

    recorded, replayed = solve_recorded(0)
    never, launched = solve_recorded(10)
    assert_same_bytes(replayed, launched)
    if recorded.engine == "compiled":
        graphs = [[plan.recording._graphs for plan in one._core.engine.plans.values()] for one in (recorded, never)]
        assert [list(map(len, of_one)) for of_one in graphs] == [[1], [0]]
    else:
        assert recorded._core.engine.batch._graph is not None
        assert len(recorded._core.work._reading._graphs) == 1
        assert not never._core.work._reading._graphs


def test_solving_again_gives_the_same_bytes_and_another_random_seed_does_not(problems):
    chosen = SolverOptions(seeds=8)
    solver = cpu_solver(problems.robot, problems.links, options=chosen)
    first = solver.solve(problems.positions, problems.orientations_xyzw)
    solver.solve(problems.positions[:3], problems.orientations_xyzw[:3])  # a batch of another size between
    assert_same_bytes(solver.solve(problems.positions, problems.orientations_xyzw), first)
    other = solver.solve(problems.positions, problems.orientations_xyzw, options={"random_seed": 7})
    late = first.seed_index != 0  # -1 where islands chose different seeds
    assert late.any()
    assert (other.joint_q[late] != first.joint_q[late]).any()
    np.testing.assert_array_equal(other.joint_q[~late], first.joint_q[~late])


def test_more_seeds_change_only_what_had_failed(panda_targets):
    few, many = (
        cpu_solver(panda_targets.robot, ["panda_hand"]).solve(
            panda_targets.positions, panda_targets.orientations_xyzw, options={"seeds": seeds}
        )
        for seeds in (2, 32)
    )
    # An answer that is within the tolerances and no more yields to a precise one of a later seed.
    precise = few.success & (few.position_error[:, 0] <= 1e-5) & (few.orientation_error[:, 0] <= 1e-4)
    assert 0.5 * len(few) < precise.sum() < len(few)
    np.testing.assert_array_equal(many.joint_q[precise], few.joint_q[precise])
    assert many.success[few.success].all()
    assert many.success.mean() >= 0.99


def test_the_callers_start_is_seed_0_and_mid_range_seed_1(panda_targets):
    robot = panda_targets.robot
    solver = cpu_solver(robot, ["panda_hand"])
    near = panda_targets.joint_q + 0.01
    result = solver.solve(panda_targets.positions, panda_targets.orientations_xyzw, initial_joint_q=near)
    assert (result.seed_index == 0).mean() > 0.95
    assert np.abs(result.joint_q - panda_targets.joint_q)[result.seed_index == 0].max() < 0.2
    far = np.tile(robot.random_joint_q(np.random.default_rng(9), 1), (len(near), 1))
    started = solver.solve(panda_targets.positions, panda_targets.orientations_xyzw, initial_joint_q=far)
    free = solver.solve(panda_targets.positions, panda_targets.orientations_xyzw)
    second = (started.seed_index == 1) & (free.seed_index == 0)
    assert second.any()
    np.testing.assert_array_equal(started.joint_q[second], free.joint_q[second])

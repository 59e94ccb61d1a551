"""What may not change an answer of any engine: the batch it travelled in, its place there, the recording.

Each test varies what the engine that runs does read; `test_staged_batch.py` has what only the staged engine reads.
"""

import numpy as np
import pytest

from ik_service import SolverOptions
from ik_service.solver import recording
from tests.solver.conftest import Reachable, assert_same_bytes, bare_robot, cpu_solver

pytestmark = pytest.mark.usefixtures("each_way")


def solver_of(problems, **arguments):
    return cpu_solver(problems.robot, problems.links, options=SolverOptions(seeds=8), **arguments)


def solve(problems):
    return solver_of(problems).solve(*problems.targets)


@pytest.fixture(scope="module", params=["panda", "dual_panda", "panda_gripper"])
def problems(request):
    links = ["left_panda_hand", "right_panda_hand"] if request.param == "dual_panda" else ["panda_hand"]
    return Reachable.draw(bare_robot(request.param), links, 40, random_seed=5)


def test_one_by_one_and_permuted_equal_the_batch(problems):
    together, order = solve(problems), np.random.default_rng(0).permutation(40)
    assert (together.seed_index != 0).any()
    for rows in ([0], [7], [23], [int(np.argmax(together.seed_index != 0))], order):
        found = solve(problems.part(rows))
        for name in ("joint_q", "seed_index", "iterations"):
            np.testing.assert_array_equal(getattr(found, name), getattr(together, name)[rows], err_msg=name)


def test_a_recorded_solve_equals_launches_one_by_one(problems, monkeypatch):
    def solve_recorded(uses_min):
        monkeypatch.setattr(recording, "USES_MIN", uses_min)
        solver = cpu_solver(problems.robot, problems.links)
        return solver, [solver.solve(*problems.targets) for _ in range(2)][1]

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
    solver = solver_of(problems)
    first = solver.solve(*problems.targets)
    solver.solve(*problems.part(slice(3)).targets)  # a batch of another size between
    assert_same_bytes(solver.solve(*problems.targets), first)
    other = solver.solve(*problems.targets, options={"random_seed": 7})
    late = first.seed_index != 0  # -1 where islands chose different seeds
    assert late.any()
    assert (other.joint_q[late] != first.joint_q[late]).any()
    np.testing.assert_array_equal(other.joint_q[~late], first.joint_q[~late])


def test_more_seeds_change_only_what_had_failed(panda_targets):
    solver = cpu_solver(panda_targets.robot, panda_targets.links)
    few, many = (solver.solve(*panda_targets.targets, options={"seeds": seeds}) for seeds in (2, 32))
    # An answer that is within the tolerances and no more yields to a precise one of a later seed.
    precise = few.success & (few.position_error[:, 0] <= 1e-5) & (few.orientation_error[:, 0] <= 1e-4)
    assert 0.5 * len(few) < precise.sum() < len(few)
    np.testing.assert_array_equal(many.joint_q[precise], few.joint_q[precise])
    assert many.success[few.success].all()
    assert many.success.mean() >= 0.99


def test_the_callers_start_is_seed_0_and_mid_range_seed_1(panda_targets):
    robot, solver = panda_targets.robot, cpu_solver(panda_targets.robot, panda_targets.links)
    near = panda_targets.joint_q + 0.01
    result = solver.solve(*panda_targets.targets, initial_joint_q=near)
    assert (result.seed_index == 0).mean() > 0.95
    assert np.abs(result.joint_q - panda_targets.joint_q)[result.seed_index == 0].max() < 0.2
    far = np.tile(robot.random_joint_q(np.random.default_rng(9), 1), (len(near), 1))
    started, free = (solver.solve(*panda_targets.targets, initial_joint_q=start) for start in (far, None))
    second = (started.seed_index == 1) & (free.seed_index == 0)
    assert second.any()
    np.testing.assert_array_equal(started.joint_q[second], free.joint_q[second])

"""Traces: attempts ended after each iteration are those of the solve, and errors are those of the verdict."""

import numpy as np
import pytest

from ik_service import EngineError, Target, load_robot
from objectives import IKObjectivePosture
from objectives.errors import InputError
from tests.solver.conftest import bare_robot, cpu_solver, poses_of


def solved(robot, link, n, seed=0, scale=1.0, **arguments):
    """A solver, and its answers to random targets, reachable where the scale is 1."""
    links = [link] if isinstance(link, str) else link
    solver = cpu_solver(robot, links)
    positions, orientations = poses_of(robot, robot.random_joint_q(np.random.default_rng(seed), n), link)
    return solver, solver.solve(scale * positions, orientations, **arguments)


def check(solver, result, problem):
    """The attempts of the answer end where the answer is, and after as many iterations; returns whether traced."""
    trace, islands = solver.trace(result, problem), result.islands
    if -1 in trace.answer_seeds:
        assert result.islands.seed_index[problem].min() == -1
        return False
    for island, seed in enumerate(trace.answer_seeds):
        k = trace.seeds.index(seed)
        assert trace.iterations[k, island] == islands.iterations[problem, island]
        assert trace.cost[-1, k, island] == islands.cost[problem, island]
        moved = result.coordinate_names if len(trace.answer_seeds) == 1 else islands[problem][island].joints
        own = [c for c, name in enumerate(result.coordinate_names) if name in moved]
        assert (trace.joint_q[-1, k, own] == result.joint_q[problem, own]).all()
        errors = trace.position_error[-1, k], result.position_error[problem]
        if len(trace.answer_seeds) == 1:
            np.testing.assert_array_equal(*errors)
            assert (trace.active_limits[-1, k] == result.active_limits[problem]).all()
            assert (trace.ends[k][0] == "converged") == result.success[problem]
            if trace.ends[k][0] not in ("in_contact", "minimum") and result.proof[problem] == 0:
                assert trace.ends[k][0] == result.status_names[problem]
    if np.isfinite(trace.damping_factor).all():  # without priorities the best cost never rises
        assert (np.diff(trace.cost, axis=0) <= 0.0).all()
    assert str(trace).count("seed ") >= len(trace.seeds)
    return True


@pytest.mark.evidence_cases("panda-panda_hand-1.0-350", "ur5e-tool0-1.05-350", "humanoid-link2-1.0-350")
@pytest.mark.parametrize("n", [25, 350], ids=str)
@pytest.mark.parametrize(
    ("robot", "link", "scale"),
    [("panda", "panda_hand", 1.0), ("ur5e", "tool0", 1.05), ("humanoid", ["left_hand", "right_hand"], 1.0)],
)
def test_an_answer_is_the_last_entry_of_its_attempt(robot, link, scale, n):
    solver, result = solved(load_robot(robot), link, n, scale=scale)
    traced = [check(solver, result, problem) for problem in range(n)]
    assert np.mean(traced) > 0.9


def test_each_island_has_its_own_attempt():
    solver, result = solved(bare_robot("dual_panda"), ["left_panda_hand", "right_panda_hand"], 6)
    assert any(check(solver, result, problem) for problem in range(6))
    trace = solver.trace(result)
    assert trace.iterations.shape[1] == 2
    assert f"{trace.iterations[0, 1]}" in trace.table(0, 1)


def test_a_start_is_the_first_seed_and_the_first_entry_is_the_start():
    robot = bare_robot("panda")
    start = robot.random_joint_q(np.random.default_rng(1), 1)
    solver, result = solved(robot, "panda_hand", 1, initial_joint_q=start, options={"sampler": "none"})
    trace = solver.trace(result)
    assert trace.starts == (("initial_joint_q",),)
    np.testing.assert_allclose(trace.joint_q[0, 0], start[0], atol=1e-6)
    assert trace.steps[:3, 0, 0].tolist() == [0, 1, 2]


def test_damping_explains_a_stall_and_the_norms_are_the_cost():
    solver, result = solved(bare_robot("ur5e"), "tool0", 20, scale=1.2)
    stalled = [k for k in range(20) if not result.success[k]]
    ends = set()
    for problem in stalled[:8]:
        trace = solver.trace(result, problem)
        np.testing.assert_allclose(0.5 * trace.norms[:, :, 0] ** 2, trace.cost[:, :, 0], rtol=2e-3, atol=1e-9)
        for k, (end,) in enumerate(trace.ends):
            ends.add(end)
            assert (trace.damping_factor[-1, k, 0] > 1e3) == (end == "stalled") or end in (
                "minimum",
                "blocked_by_limits",
            )
    assert len(ends) > 1


def test_a_priority_is_named_and_its_rows_have_a_norm():
    robot = bare_robot("panda")
    posture = IKObjectivePosture(robot.mid_joint_q)
    posture.priority = 1
    solver = cpu_solver(robot, ["panda_hand"], objectives=[posture])
    positions, orientations = poses_of(robot, robot.random_joint_q(np.random.default_rng(2), 1), "panda_hand")
    trace = solver.trace(solver.solve(positions, orientations))
    assert trace.labels[1].endswith(" (priority 1)")
    k = trace.seeds.index(trace.answer_seeds[0])
    assert trace.norms[-1, k, 0] < 1e-3 < trace.norms[-1, k, 1]
    assert np.isnan(trace.damping_factor).all()
    assert trace.steps[:, k, 0].tolist() == [trace.iterations[k, 0]]  # one entry, the end


def test_contact_is_named():
    robot = load_robot("panda")
    solver = cpu_solver(robot, ["panda_hand"])
    positions, orientations = poses_of(robot, robot.random_joint_q(np.random.default_rng(0), 40), "panda_hand")
    result = solver.solve(positions, orientations)
    blocked = [
        k for k, word in enumerate(result.status_names) if word == "blocked_by_collision" and not result.proof[k]
    ]
    assert any(end == ("in_contact",) for end in solver.trace(result, blocked[0]).ends)


def test_data_of_each_problem_and_an_order_of_joints_are_kept():
    robot = bare_robot("panda")
    names = tuple(reversed(robot.coordinate_names))
    solver = cpu_solver(robot, ["panda_hand"], joint_order=names, wxyz=True)
    positions, orientations = poses_of(robot, robot.random_joint_q(np.random.default_rng(3), 3), "panda_hand")
    result = solver.solve(
        positions, np.roll(orientations, 1, axis=1), max_change=2.5, initial_joint_q=np.zeros(len(names))
    )
    for problem in range(3):
        assert check(solver, result, problem)


@pytest.mark.parametrize("best_of", [None, "nearest", "cost"])
def test_the_branch_of_an_answer_is_found_by_its_configuration(best_of):
    robot = load_robot("ur5e")
    start = robot.random_joint_q(np.random.default_rng(5), 15)
    options = {"best_of": best_of}
    solver, result = solved(robot, "tool0", 15, initial_joint_q=start, options=options)
    branches = np.flatnonzero(result.seed_index == -1)
    assert len(branches) > 2
    for problem in branches:
        trace = solver.trace(result, problem, seeds=1)
        k = trace.seeds.index(trace.answer_seeds[0])
        gap = (trace.joint_q[-1, k] - result.joint_q[problem] + np.pi) % (2.0 * np.pi) - np.pi
        assert np.abs(gap).max() < 1e-6
        assert trace.starts[k] == ("branch",)


@pytest.mark.parametrize(("robot", "link"), [("four_bar", "coupler"), ("delta", "platform")])
def test_closed_loops_have_whole_attempts_alone(robot, link):
    solver, result = solved(load_robot(robot), link, 2, scale=1.02)
    for problem in range(2):
        trace = solver.trace(result, problem)
        assert len(trace.cost) == 1
        k = trace.seeds.index(trace.answer_seeds[0])
        assert trace.iterations[k, 0] == trace.steps[0, k, 0] == result.iterations[problem]
        assert trace.ends[k][0] in (result.status_names[problem], "minimum", "stalled")


def test_bad_requests_are_refused():
    solver, result = solved(bare_robot("panda"), "panda_hand", 2)
    for problem in (2, -1, 1.0, True, None, "0"):
        with pytest.raises(InputError, match=r"problem is .* Allowed: 0 to 1"):
            solver.trace(result, problem)
    for seeds in (0, "8", 2.5):
        with pytest.raises(InputError, match="seeds is"):
            solver.trace(result, seeds=seeds)
    with pytest.raises(InputError, match="Seed 99 of island 0"):
        solver.trace(result).table(99)
    other, theirs = solved(bare_robot("ur5e"), "tool0", 2)
    for foreign in (theirs, None, solver.solve_any([[0.4, 0.1, 0.5]])):
        with pytest.raises(InputError, match="no result of a solve of this solver"):
            solver.trace(foreign)
    staged = cpu_solver(bare_robot("panda"), ["panda_hand"], engine="staged")
    with pytest.raises(EngineError, match="staged"):
        staged.trace(result)
    given = poses_of(other.robot, other.robot.mid_joint_q[None], "tool0")
    mine = [np.array(one) for one in given]
    own = other.solve(*mine)
    mine[0][:] = np.nan
    with pytest.raises(InputError, match="hold other numbers"):
        other.trace(own)


def test_data_of_one_solve_and_of_objectives_are_those_of_the_problem():
    robot, n = bare_robot("panda"), 5
    rng = np.random.default_rng(4)
    positions, orientations = poses_of(robot, robot.random_joint_q(rng, n), "panda_hand")
    posture = IKObjectivePosture(robot.random_joint_q(rng, n), weight=0.05)
    solver = cpu_solver(robot, [Target("panda_hand", offset=(0, 0, 0, 0, 0, 0, 1))], objectives=[posture])
    offset = np.concatenate([rng.uniform(-0.1, 0.1, (n, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (n, 1))], axis=1)
    result = solver.solve(positions, orientations, offset=offset)
    for problem in range(n):
        assert check(solver, result, problem)
        trace = solver.trace(result, problem)
        gap = trace.joint_q[0, 0] - posture.data("joint_q_reference").numpy()[problem]
        np.testing.assert_allclose(trace.norms[0, 0, 1], 0.05 * np.linalg.norm(gap), rtol=1e-5)

"""Several solutions in the order of seeds: the search for them ends, and they are those that all seeds would give."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.solver.compiled import engine
from ik_service.solver.compiled.engine import CompiledEngine
from tests.solver.conftest import Reachable, bare_robot, cpu_solver

COUNT, WANTED, SEEDS = 60, 8, 512
DIFFERENCE = 0.1
REACH = 2.6  # [rad] of joints that turn by twice pi either way
IMPRECISE = 2**16  # least rank of an attempt that is not as near as it could be


@pytest.fixture(scope="module")
def solver():
    return cpu_solver(bare_robot("ur5e"), ["tool0"], threads=1)


@pytest.fixture(scope="module")
def targets(solver):
    return [np.array(values[:, 0]) for values in Reachable.draw(solver.robot, ["tool0"], COUNT, random_seed=3).targets]


def distinct(joint_q, wanted):
    """The first configurations that differ from all before, angles taken modulo a turn."""
    found = np.empty((0, joint_q.shape[1]))
    for q in joint_q:
        gap = np.abs((q - found + np.pi) % (2.0 * np.pi) - np.pi).max(axis=1)
        if len(found) < wanted and (gap > DIFFERENCE).all():
            found = np.vstack([found, q])
    return found


def made(solver, count):
    """How many seeds the last solve has tried of each problem; a public name would be for these tests alone."""
    return solver._core.engine._choice._made.numpy()[:count]


def test_they_are_the_first_that_differ_of_all_seeds_and_hardly_any_is_missed(solver, targets):
    result = solver.solve(*targets, options={"solutions": WANTED})
    solver.solve(*targets, options={"best_of": "cost", "seeds": SEEDS})
    attempts = solver._core.engine._choice.attempts  # a public name would be for this test alone
    ranks = attempts.rank.numpy()[: COUNT * SEEDS, 0].reshape(COUNT, SEEDS)
    joint_q = attempts.joint_q.numpy()[: COUNT * SEEDS].reshape(COUNT, SEEDS, -1)
    same = there = 0
    for p in range(COUNT):
        order = np.argsort(ranks[p], kind="stable")[: (ranks[p] < IMPRECISE).sum()]
        expected = distinct(joint_q[p, order], WANTED)
        count = min(len(expected), result.solution_count[p])
        gap = (result.solutions[p, :count] - expected[:count] + np.pi) % (2.0 * np.pi) - np.pi
        same += int((np.abs(gap).max(axis=1) < 1e-5).sum())
        there += len(expected)
    assert there > 6 * COUNT
    assert same >= 0.99 * there


def test_fewer_are_the_first_of_more_and_alone_they_are_the_same(solver, targets):
    more = solver.solve(*targets, options={"solutions": WANTED})
    fewer = solver.solve(*targets, options={"solutions": 2})
    both = np.minimum(more.solution_count, 2)
    np.testing.assert_array_equal(fewer.solution_count, both)
    for p in range(COUNT):
        np.testing.assert_array_equal(fewer.solutions[p, : both[p]], more.solutions[p, : both[p]])
    for p in (0, COUNT - 1):
        alone = solver.solve(targets[0][p : p + 1], targets[1][p : p + 1], options={"solutions": WANTED})
        assert alone.solution_count[0] == more.solution_count[p]
        np.testing.assert_array_equal(alone.solutions[0], more.solutions[p])


def test_a_search_ends_when_there_are_enough_or_64_seeds_after_the_last_that_was_new(solver, targets):
    drawn = {"sampler": "gauss", "noise_std": 2.0}  # without branches in closed form
    result = solver.solve(*targets, options={"solutions": WANTED, **drawn})
    seeds, enough = made(solver, COUNT), result.solution_count == WANTED
    assert (seeds % 16 == 0).all()
    assert 0 < enough.sum() < COUNT
    assert seeds[enough].min() < 64 <= seeds[~enough].min() < 256
    relative = cpu_solver(solver.robot, [Target("tool0", reference_link=solver.robot.link_names[0])])  # without proofs
    far = relative.solve([[3.0, 0.0, 0.0]], None, options={"solutions": WANTED})
    assert (far.solution_count.tolist(), made(relative, 1).tolist()) == ([0], [64])
    complete = solver.solve(*targets, options={"solutions": "all"})
    assert complete.complete.any()
    proven = solver.solve([[3.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 1.0]], options={"solutions": WANTED})
    assert (proven.status_names, made(solver, 1).tolist()) == (["unreachable"], [1])


def test_solves_that_take_turns_record_nothing_anew(targets, monkeypatch):
    solver, recorded, plan = cpu_solver(bare_robot("ur5e"), ["tool0"], threads=1), [], CompiledEngine._plan
    turns = [{"solutions": WANTED}, None, {"solutions": 2}, {"best_of": "cost", "seeds": 24}]
    expected = [solver.solve(*targets, options=options) for options in turns]
    monkeypatch.setattr(CompiledEngine, "_plan", lambda *given: recorded.append(given) or plan(*given))
    for options, before in zip(turns, expected, strict=True):
        again = solver.solve(*targets, options=options)
        assert again.joint_q.tobytes() == before.joint_q.tobytes()
        if before.solutions is not None:
            assert again.solutions.tobytes() == before.solutions.tobytes()
    assert recorded == []
    monkeypatch.setattr(engine, "KEPT_ATTEMPTS", 0)  # all are too large to be kept beside others
    solver.solve(*targets, options={"solutions": 3})
    assert len(recorded) == 1
    solver.solve(*targets)
    solver.solve(*targets, options={"solutions": 2})
    assert len(recorded) == 2
    solver.solve(*targets, options={"solutions": 3})
    assert len(recorded) == 3


def test_a_narrower_solve_between_two_looks_at_its_own_limits(solver, targets):
    before = solver.solve(*targets, options={"solutions": WANTED})
    middle = solver.robot.mid_joint_q
    names = solver.robot.coordinate_names
    limits = {name: (q - REACH, q + REACH) for name, q in zip(names, middle.tolist(), strict=True)}
    narrow = solver.solve(*targets, options={"solutions": WANTED}, joint_limits=limits)
    inside = np.abs(narrow.solutions - middle) <= REACH + 1e-6
    assert (inside | np.isnan(narrow.solutions)).all()
    assert 0 < narrow.solution_count.sum() < before.solution_count.sum()
    after = solver.solve(*targets, options={"solutions": WANTED})
    assert after.solutions.tobytes() == before.solutions.tobytes()


@pytest.mark.parametrize("turns", [0.0, 2.0 * np.pi])
def test_solutions_from_branches_alone_are_those_among_further_seeds(solver, targets, turns):
    start = solver.solve(*targets).joint_q
    start[:, 5] = np.where(
        start[:, 5] > 0.0, start[:, 5] - turns, start[:, 5] + turns
    )  # the flipped wrist: half a turn
    options = {"solutions": "all", "solution_difference": 1e-3}
    alone = solver.solve(*targets, initial_joint_q=start, options=options)
    among = solver.solve(*targets, initial_joint_q=start, options={**options, "seeds": 16})
    same = alone.complete & among.complete
    assert same.mean() > 0.5
    for name in ("solutions", "solution_count", "branch", "joint_q"):
        np.testing.assert_array_equal(getattr(alone, name)[same], getattr(among, name)[same])


def test_every_solution_from_a_branch_meets_a_tolerance_that_float32_misses_by_rounding(solver):
    many = [np.array(values[:, 0]) for values in Reachable.draw(solver.robot, ["tool0"], 400, random_seed=3).targets]
    every, some = (
        solver.solve(*many, options={"solutions": "all", "position_tolerance": most}) for most in (1e-3, 2e-7)
    )
    assert 0 < some.solution_count.sum() < every.solution_count.sum()
    problem, place = np.nonzero(~np.isnan(some.solutions[:, :, 0]))
    poses = solver.robot.forward_kinematics(some.solutions[problem, place].astype(float), ["tool0"])
    assert np.linalg.norm(poses.positions[:, 0] - many[0][problem], axis=1).max() <= 2e-7

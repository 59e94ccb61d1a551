"""When a search ends: rounds of seeds, and how often the least cost has come up."""

import itertools
import math

import numpy as np
import pytest
import warp as wp

from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.hard_problems import HardArm
from ik_service import SolverOptions, Target
from ik_service.solver.lm.codes import BLOCKED_BY_LIMITS, MAX_ITERATIONS, NO_TARGET, STALLED, STATIONARY
from ik_service.solver.lm.ranking import (
    EQUAL_MINIMA,
    EQUAL_MINIMA_OF_MANY,
    FEW_SEEDS,
    FULL_COUNT,
    attempt_count,
    count_cost,
    is_round_end,
    search_ends,
)
from tests.solver.conftest import bare_robot, cpu_solver
from tests.solver.lm.weighted_poses import WeightedPoses

NEEDED, FEW = wp.constant(EQUAL_MINIMA), int(FEW_SEEDS)


@wp.kernel(module="unique")
def _count(costs: wp.array2d[float], statuses: wp.array2d[wp.int32], counted_out: wp.array[wp.int32]):
    p = wp.tid()
    counted = int(0)
    for k in range(costs.shape[1]):
        counted = count_cost(counted, costs[p, k], attempt_count(statuses[p, k], 0))
    counted_out[p] = counted


@wp.kernel(module="unique")
def _attempt_count(status: int, met: int, out: wp.array[wp.int32]):
    out[0] = attempt_count(status, met)


@wp.kernel(module="unique")
def _ends(counted: wp.array[wp.int32], good: wp.bool, seeds: int, out: wp.array[wp.bool]):
    p = wp.tid()
    out[p] = search_ends(counted[p], NEEDED, good, seeds)


@wp.kernel(module="unique")
def _round_ends(out: wp.array[wp.bool]):
    seeds = wp.tid()
    out[seeds] = is_round_end(seeds)


def counted(costs, statuses=int(STATIONARY)):
    given = wp.array(np.atleast_2d(np.asarray(costs, np.float32)), dtype=float, device="cpu")
    ended = wp.array(np.broadcast_to(np.int32(statuses), given.shape), dtype=wp.int32, device="cpu")
    out = wp.zeros(given.shape[0], dtype=wp.int32, device="cpu")
    wp.launch(_count, given.shape[0], [given, ended], [out], device="cpu")
    return out


def ends(costs, statuses=int(STATIONARY), *, good=False, seeds=1000):
    count = counted(costs, statuses)
    out = wp.zeros(count.shape[0], dtype=wp.bool, device="cpu")
    wp.launch(_ends, count.shape[0], [count, good, seeds], [out], device="cpu")
    return out.numpy()


def class_of(cost):
    """Costs of one power of 2 are in 32 classes of equal width."""
    fraction, exponent = math.frexp(cost)
    return 32 * exponent + int(64 * fraction) - 32


def round_ends(most):
    out = wp.zeros(most + 1, dtype=wp.bool, device="cpu")
    wp.launch(_round_ends, most + 1, [out], device="cpu")
    return np.flatnonzero(out.numpy())


def test_rounds_begin_with_few_seeds_and_grow_with_those_before():
    found = round_ends(1024)
    assert found[:10].tolist() == [8, 12, 16, 20, 24, 28, 32, 40, 48, 56]
    assert {FEW, 1024} < set(found.tolist())
    for begins, ends in itertools.pairwise(found):
        assert 4 <= ends - begins <= max(4, begins / 4)


@pytest.mark.evidence
def test_what_is_counted_are_the_costs_in_the_class_of_the_least_and_the_next_one_in_any_order():
    random = np.random.default_rng(4)
    for spread in (0.01, 0.1, 3.0):
        costs = np.exp(random.normal(-6.0, spread, (40, 30))).astype(np.float32)
        classes = np.array([[class_of(float(cost)) for cost in line] for line in costs])
        least = classes.min(axis=1, keepdims=True)
        equal = (classes <= least + 1).sum(axis=1)
        np.testing.assert_array_equal(ends(costs), equal >= NEEDED)
        for _ in range(3):
            shuffled = random.permuted(costs, axis=1)
            np.testing.assert_array_equal(counted(shuffled).numpy(), counted(costs).numpy())


BLOCKED, INSIDE = int(BLOCKED_BY_LIMITS), int(STATIONARY)
ENDED = [  # costs and statuses of attempts, and whether they end a search
    ([0.5] * 4096, INSIDE, True),
    ([np.nan] * NEEDED, INSIDE, True),
    ([np.nan] * 4096 + [1.0] * (NEEDED - 1), INSIDE, False),
    ([1.0] * 4096 + [0.5] * (NEEDED - 1), INSIDE, False),
    ([1.0] * 4096, BLOCKED, False),
    ([1.0] * 4096, [INSIDE] * (NEEDED - 1) + [BLOCKED] * (4097 - NEEDED), False),
    ([1.0] * 4096, [INSIDE] * NEEDED + [BLOCKED] * (4096 - NEEDED), True),
    ([1.0] * 4096 + [0.5], [INSIDE] * 4096 + [BLOCKED], False),  # it is the least cost all the same
]
for eighth in (int(STALLED), int(MAX_ITERATIONS)):  # of a stationary point inside the limits
    ENDED += [
        ([1.0] * (8 * NEEDED - 1), eighth, False),
        ([1.0] * (8 * NEEDED), eighth, True),
        ([1.0] * (NEEDED + 7), [INSIDE] * (NEEDED - 1) + [eighth] * 8, True),
        ([1.0] * (NEEDED + 6), [INSIDE] * (NEEDED - 1) + [eighth] * 7, False),
        ([1.0] * 4096 + [0.5], [INSIDE] * 4096 + [eighth], False),
    ]


@pytest.mark.evidence
def test_a_search_ends_when_the_least_cost_has_come_up_often_enough():
    assert [ends(costs, statuses)[0] for costs, statuses, _ in ENDED] == [over for *_, over in ENDED]
    few = [1.0, 2.0, 4.0]  # a better answer than one that is good is looked for in no more than so many seeds
    assert [ends(few, good=good, seeds=seeds)[0] for good, seeds in ((True, FEW - 8), (True, FEW), (False, FEW))] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("met", [1, int(NO_TARGET)], ids=["targets met", "no targets"])
def test_attempts_at_limits_count_in_full_where_no_target_is_missed(met):
    out = wp.zeros(1, dtype=wp.int32, device="cpu")
    wp.launch(_attempt_count, 1, [int(BLOCKED_BY_LIMITS), met], [out], device="cpu")
    assert out.numpy()[0] == int(FULL_COUNT)


@pytest.mark.evidence
@pytest.mark.parametrize("count", [1, 40])
def test_the_best_of_the_seeds_up_to_the_end_is_the_answer(panda, count):
    """Every attempt on its own, as `best_of` makes them, and the rule in NumPy."""
    seeds = 1024
    position = np.random.default_rng(6).uniform([0.85, -0.4, 0.0], [1.1, 0.4, 0.9], (count, 3))
    orientation = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    solver = cpu_solver(panda, ["panda_hand"])
    result = solver.solve(position, orientation)
    assert result.success.mean() < 0.5
    alone = solver.solve(position[-1:], orientation[-1:])
    assert alone.joint_q[0].tobytes() == result.joint_q[-1].tobytes()

    solver.solve(position, orientation, options={"best_of": "cost", "seeds": seeds})
    attempts = solver._core.engine._choice.attempts  # a public name would be for this test alone
    kept = (attempts.cost, attempts.rank, attempts.status)
    costs, ranks, statuses = (array.numpy()[: count * seeds, 0].reshape(count, seeds) for array in kept)
    ended_early = 0
    for p in np.flatnonzero(~result.success):
        last = next((n for n in round_ends(seeds) if ends(costs[p, :n], statuses[p, :n])[0]), seeds)
        ended_early += int(last < 64)
        assert result.seed_index[p] == np.argmin(costs[p, :last])
        assert result.cost[p] == costs[p].min(initial=np.inf, where=np.arange(seeds) < last)
        assert (ranks[p, :last] > 2**56).all()
    assert ended_early > 0


def tried(solver, count):
    """Seeds handed out in the last solve, [problems, trees]; lanes side by side may have begun a few more."""
    return solver._core.work.problems.searches.next_seed.numpy()[:count]


def unproven(robot, links):
    """Targets that no proof covers: relative to the base."""
    return [Target(link, reference_link=robot.link_names[0]) for link in links]


@pytest.mark.evidence_cases("dual_panda")
@pytest.mark.parametrize("robot", ["panda", "dual_panda"])
def test_links_that_share_joints_take_more_attempts_at_the_least_cost(robot):
    """So far away all attempts end at one cost, and float32 cannot tell that they are stationary: each is an eighth."""
    links = ["panda_link4"] if robot == "panda" else ["left_panda_hand", "left_panda_link4"]
    solver = cpu_solver(bare_robot(robot), unproven(bare_robot(robot), links))
    positions = np.tile([[60.0, 0.0, 0.0]], (40, len(links), 1))
    result = solver.solve(positions)
    assert not result.success.any()
    seeds = tried(solver, 40).max(axis=1)
    needed = 8 * {"panda": EQUAL_MINIMA, "dual_panda": EQUAL_MINIMA_OF_MANY}[robot]
    assert (seeds == needed).mean() > 0.5
    assert seeds.min() >= needed


@pytest.mark.evidence
def test_objectives_alone_take_no_more_than_so_many_seeds_unless_more_are_asked_for():
    robot = bare_robot("ur5e")
    poses = WeightedPoses.draw(robot, ("tool0",), 60, 1, away=0.2, weight=0.03)
    solver = cpu_solver(robot, objectives=poses.objectives())
    won = solver.solve(problem_count=60).islands.seed_index
    assert 16 < won.max() < FEW
    assert solver.solve(problem_count=60, options={"seeds": 512}).islands.seed_index.max() > FEW


FAR = np.tile([[60.0, 0.0, 0.0]], (9, 1))


@pytest.mark.parametrize("seeds", [20, 200])
def test_as_many_seeds_as_are_asked_for_are_tried(panda, seeds):
    solver = cpu_solver(panda, unproven(panda, ["panda_link4"]))
    assert not solver.solve(FAR).success.any()
    assert 20 < tried(solver, 9).max() < 200
    asked = solver.solve(FAR, options={"seeds": seeds})
    assert (tried(solver, 9)[:, 0] == seeds).all()
    every = solver.solve(FAR, options={"seeds": seeds, "best_of": "cost"})
    assert asked.joint_q.tobytes() == every.joint_q.tobytes()


def test_with_a_deadline_targets_out_of_reach_do_not_take_the_time_of_later_ones(panda):
    """The number of seeds is an upper bound then, and the rule that ends a search by default holds."""
    solver, most = cpu_solver(panda, ["panda_link4"]), []
    for options in ({}, {"seeds": 512, "deadline_s": 60.0}):
        solver.solve(FAR, options=options)
        most.append(tried(solver, 9).max())
    assert most[0] == most[1] < 512


def test_targets_at_joint_limits_are_met_beside_wide_minima_at_limits():
    """Of these, two were given up while 12 attempts at one minimum ended a search; now intervals give starts."""
    problems, _ = HardArm(PANDA, "panda_link2").at_limits(10_000)
    solver = cpu_solver(problems.robot, problems.links)
    result = solver.solve(problems.positions, problems.orientations_xyzw)
    assert (result.seed_index == -1).any()
    assert result.success.all()


def test_attempts_of_few_iterations_are_no_more_in_sum():
    counts = [SolverOptions(max_iterations=n).search_seeds for n in (1, 3, 10, 40, 400)]
    assert counts == [64, 76, 256, 1024, 1024]
    assert SolverOptions(max_iterations=3, seeds=700).search_seeds == 700
    assert SolverOptions(solutions=2).search_seeds == 256
    assert SolverOptions(solutions=2, best_of="cost").search_seeds == 64

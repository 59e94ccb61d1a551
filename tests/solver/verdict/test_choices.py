"""What may be asked for beyond the first success: the best of all seeds, several solutions, float64, threads."""

import numpy as np
import pytest

from ik_service import IKStatus
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import Reachable, assert_same_bytes, bare_robot, cpu_solver, inside_limits

pytestmark = pytest.mark.usefixtures("each_kernel")

LINKS = ["left_panda_hand", "right_panda_hand"]
POLISHED = 1e-9  # [m, rad], what float64 promises
OUTSIDE = 0.8  # [rad] that limits leave starts outside
ROUNDING = 1e-6  # [rad] of a float32 angle of a few radians


def solver_of(problems, **arguments):
    return cpu_solver(problems.robot, problems.links, **arguments)


def change(result, start):
    return np.abs(result.joint_q - start).max(axis=1)


def solve(problems, start=None, **options):
    """Answers with options, from a start."""
    return solver_of(problems).solve(*problems.targets, initial_joint_q=start, options=options)


@pytest.fixture(scope="module")
def problems():
    return Reachable.draw(bare_robot("panda"), ["panda_hand"], 60, random_seed=4)


@pytest.fixture(scope="module")
def start(problems):
    return problems.robot.clamp_joint_q(problems.joint_q + 0.4).astype(np.float32)


def test_the_nearest_of_all_seeds_changes_no_joint_more_than_the_first_success(problems, start):
    first, nearest = solve(problems, start), solve(problems, start, best_of="nearest", seeds=32)
    assert nearest.success.all()
    assert (change(nearest, start) <= change(first, start) + ROUNDING).all()
    assert (change(nearest, start) < change(first, start) - 0.01).any()
    every = solve(problems, start, solutions=32, seeds=32, best_of="cost")
    distance = np.nanmin(np.abs(every.solutions - start[:, None]).max(axis=2), axis=1)
    # solutions within 0.1 of one another count as one, so the nearest may be nearer by that much
    assert (change(nearest, start) <= distance + ROUNDING).all()


@pytest.mark.evidence_cases("threads")
def test_the_nearest_counts_from_the_start_as_given_though_limits_leave_it_outside():
    robot = bare_robot("ur5e")
    drawn, start = Reachable.draw(robot, ["tool0"], 200), robot.random_joint_q(np.random.default_rng(1), 200)
    lower, upper = robot.joint_limit_lower[0], np.minimum(robot.joint_limit_upper[0], start[:, 0] - OUTSIDE)
    rows = np.flatnonzero(upper > lower + OUTSIDE)
    drawn, start, upper = drawn.part(rows), start[rows], upper[rows]
    given = {"initial_joint_q": start, "joint_limits": {robot.dof_names[0]: (np.full(len(rows), lower), upper)}}
    nearest, every = (
        solver_of(drawn).solve(drawn.positions, None, **given, options={"best_of": "nearest", "solutions": count})
        for count in (1, 16)
    )
    clamped = start.copy()
    clamped[:, 0] = upper
    solutions = np.nan_to_num(every.solutions, nan=np.inf)
    distance, from_clamped = (np.abs(solutions - one[:, None]).max(axis=2) for one in (start, clamped))
    solved = nearest.success & every.success
    assert solved.sum() > len(rows) // 2
    assert (change(nearest, start) <= distance.min(axis=1) + ROUNDING)[solved].all()
    assert (distance.argmin(axis=1) != from_clamped.argmin(axis=1))[solved].any()  # it makes a difference here


@pytest.mark.evidence_cases("threads")
def test_the_least_cost_of_all_seeds_is_below_that_of_the_first_success(panda):
    drawn = Reachable.draw(panda, ["panda_hand"], 40, random_seed=5)
    solver = solver_of(drawn, objectives=[IKObjectivePosture(panda.mid_joint_q, weight=1e-3)])
    first, best = (solver.solve(*drawn.targets, options=options) for options in ({}, {"best_of": "cost"}))
    assert best.success.all()
    assert (best.cost <= first.cost * (1.0 + 1e-5)).all()
    assert (best.cost < 0.9 * first.cost).any()


@pytest.mark.evidence_cases("threads")
def test_solutions_are_distinct_judged_and_inside_the_limits(problems):
    result = solve(problems, solutions=6, solution_difference=0.3)
    assert result.solutions.shape == (60, 6, 7)
    assert (result.solution_count > 1).mean() > 0.9
    np.testing.assert_array_equal(result.solutions[:, 0], result.joint_q)
    for p, count in enumerate(result.solution_count):
        found = result.solutions[p, :count]
        assert np.isnan(result.solutions[p, count:]).all()
        assert problems.part([p] * count).met(found).all()
        assert inside_limits(problems.robot, found).all()
        gaps = np.abs(found[:, None] - found[None]).max(axis=2)
        assert (gaps[~np.eye(len(found), dtype=bool)] > 0.3).all()


@pytest.mark.evidence_cases("threads")
def test_where_one_arm_has_fewer_solutions_its_last_goes_with_the_rest_of_the_other_arm(dual_panda):
    problems = Reachable.draw(dual_panda, LINKS, 20, random_seed=7)
    options = {"solutions": 4, "solution_difference": 2.5, "seeds": 32, "best_of": "cost"}
    both = solve(problems, **options)
    alone = [
        cpu_solver(dual_panda, [link]).solve(*(values[:, k] for values in problems.targets), options=options)
        for k, link in enumerate(LINKS)
    ]
    left, right = (one.solution_count for one in alone)
    assert (left < right).any()
    assert (left > right).any()
    np.testing.assert_array_equal(both.solution_count, np.maximum(left, right))
    for p in range(20):
        for k in range(both.solution_count[p]):
            for arm, one in zip((slice(0, 7), slice(7, 14)), alone, strict=True):
                own = one.solutions[p, min(k, one.solution_count[p] - 1), arm]
                np.testing.assert_array_equal(both.solutions[p, k, arm], own)


def test_an_unreachable_target_has_no_solution(problems, each_kernel):
    few, solver = problems.part([0, 1, 2]), solver_of(problems)
    solver.solve(*few.targets, options={"solutions": 3, "seeds": 8})
    few.positions[..., 0] += 3.0
    result, best = (solver.solve(*few.targets, options={"seeds": 8, **more}) for more in ({"solutions": 3}, {}))
    assert result.status_names == best.status_names == ["unreachable"] * 3
    assert (best.seed_index == 0).all()
    if each_kernel == "packets":  # a GPU makes all attempts for solutions, and gives the nearest one
        np.testing.assert_array_equal(result.seed_index, best.seed_index)
        np.testing.assert_array_equal(result.joint_q, best.joint_q)
    assert result.solution_count.tolist() == [0, 0, 0]
    assert np.isnan(result.solutions).all()
    assert np.isfinite(result.joint_q).all()
    assert not result.success.any()


@pytest.mark.quick_cases("packets-panda-panda_hand")
@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize(
    ("name", "link"), [("panda", "panda_hand"), ("iiwa14", "iiwa_link_ee"), ("panda_gripper", "panda_leftfinger")]
)
def test_float64_meets_targets_that_are_reached_only_at_limits(name, link):
    """Where several joints stand at limits, a rounding of the limits alone is a tenth of a micrometre."""
    robot, rng = bare_robot(name), np.random.default_rng(13)
    joint_q = robot.random_joint_q(rng, 200)
    ends = np.where(rng.random(joint_q.shape) < 0.5, robot.joint_limit_lower, robot.joint_limit_upper)
    joint_q = robot.clamp_joint_q(np.where(rng.random(joint_q.shape) < 0.4, ends, joint_q))
    result = solve(Reachable(robot, [link], joint_q, *robot.forward_kinematics(joint_q, [link])), precision="float64")
    met = (result.position_error[:, 0] <= POLISHED) & (result.orientation_error[:, 0] <= POLISHED)
    assert met.mean() >= 0.99
    assert inside_limits(robot, result.joint_q).all()
    assert (result.limit_margin == 0.0).mean() > 0.1
    assert (result.active_limits.any(axis=1) | (result.limit_margin > 0.0)).all()


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("each_kernel", ["packets"], indirect=True)  # a GPU has one thread
def test_threads_change_no_byte(dual_panda, threads):
    problems = Reachable.draw(dual_panda, LINKS, 900, random_seed=8)
    one, several = solve(problems), solver_of(problems, threads=threads)
    assert (one.seed_index != 0).any()
    for _ in range(3):
        assert_same_bytes(several.solve(*problems.targets), one)
    wrong = problems.orientations_xyzw.copy()
    wrong[800] *= 2.0
    with pytest.raises(InputError, match=r"orientations_xyzw.*800"):
        several.solve(problems.positions, wrong)
    assert_same_bytes(several.solve(*problems.targets), one)


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("compiled", {"best_of": "worst"}, "best_of is 'worst'"),
        ("compiled", {"solutions": 0}, "solutions is 0"),
        ("compiled", {"solutions": "some"}, "solutions is 'some'"),
        ("compiled", {"solution_difference": -1.0}, "solution_difference"),
        ("compiled", {"precision": "half"}, "precision is 'half'"),
        ("compiled", {"precision": "float64", "solutions": 2}, "gives one solution"),
        ("staged", {"solutions": 2}, "need the compiled engine"),
        ("staged", {"best_of": "cost"}, "need the compiled engine"),
    ],
)
def test_options_that_cannot_be_met_say_why(problems, engine, options, message):
    with pytest.raises(InputError, match=message):
        solver_of(problems, engine=engine).solve(*problems.targets, options=options)


FLOOR = {"position_tolerance": 1e-3, "orientation_tolerance": 3e-7}  # [m], [rad]: half of float32's roundings are above


def test_where_a_solution_succeeds_it_is_the_answer(panda):
    # The winner is chosen in float32, and at such a tolerance some winners fail in float64 where another one succeeds.
    drawn = Reachable.draw(panda, ["panda_hand"], 200, random_seed=5)
    several, single = (solve(drawn, seeds=16, **FLOOR, **more) for more in ({"solutions": 4}, {"best_of": "cost"}))
    good = several.success
    assert 0.0 < good.mean() < 1.0
    np.testing.assert_array_equal(good, several.solution_count > 0)
    np.testing.assert_array_equal(several.joint_q[good], several.solutions[good, 0])
    assert (several.orientation_error[good] <= FLOOR["orientation_tolerance"]).all()
    assert (several.status[good] == IKStatus.CONVERGED).all()
    assert (several.seed_index != single.seed_index)[good].any()  # some answers are not the best attempt
    there = np.isfinite(several.solutions).all(axis=2)
    np.testing.assert_array_equal(there, np.arange(4) < several.solution_count[:, None])  # those that fail leave no gap


def test_a_target_that_is_met_without_a_joint_to_move_is_a_solution(panda):
    asked = {"initial_joint_q": panda.mid_joint_q, "options": {"solutions": 3, "seeds": 4}}
    found = cpu_solver(panda, ["panda_link0"]).solve([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], **asked)
    assert (found.success.tolist(), found.solution_count.tolist()) == ([True, False], [1, 0])
    np.testing.assert_array_equal(found.solutions[0, 0], panda.mid_joint_q.astype(np.float32))
    assert np.isnan(found.solutions[0, 1:]).all()
    assert np.isnan(found.solutions[1]).all()

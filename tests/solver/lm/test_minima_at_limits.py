"""With objectives alone a minimum at joint limits is a success, and nothing else is; with targets it is none."""

import numpy as np
import pytest

from benchmarks.problems.compared_robots import ALLEGRO_TIPS, WHOLE_BODY
from ik_service import IKStatus
from ik_service.solver.verdict.advice import advice
from objectives import IKObjectivePosture
from tests.solver.conftest import bare_robot, cpu_solver, inside_limits
from tests.solver.lm.weighted_poses import WeightedPoses

NEAR = 1e-4  # of the cost: as far above the minimum next to it may an answer be
HONEST = 0.98  # of the successes: where rows bend so much that J'J misjudges the curvature, a slope passes for level
CASES = {
    "panda": (("panda_hand",), 0.2),
    "ur5e": (("tool0",), 0.2),
    "dual_panda": (("left_panda_hand", "right_panda_hand"), 0.2),
    "allegro": (ALLEGRO_TIPS, 0.02),
    "humanoid": (WHOLE_BODY.links, 0.2),
}


def solve(problems, engine="auto", **options):
    solver = cpu_solver(problems.robot, objectives=problems.objectives(), engine=engine)
    return solver.solve(problem_count=len(problems.positions), options={"seeds": 16, **options})


def check(problems, result, least):
    """Successes are minima within the limits, and `least` of the minima are successes."""
    cost, lowest = problems.costs(result.joint_q), problems.least_costs(result.joint_q)
    near = cost - lowest <= NEAR * cost
    assert near[result.success].mean() >= HONEST
    assert result.success[near].mean() >= least
    assert inside_limits(problems.robot, result.joint_q).all()
    good = {IKStatus.CONVERGED, IKStatus.BLOCKED_BY_LIMITS}
    np.testing.assert_array_equal(result.success, [status in good for status in result.status])


@pytest.mark.quick_cases("ur5e-auto-float32-60-0.85", "panda-staged-float32-30-0.8")
@pytest.mark.parametrize(
    ("name", "engine", "precision", "count", "least"),
    [
        *((name, "auto", "float32", 60, 0.85) for name in CASES),
        *((name, "auto", "float64", 60, 0.95) for name in CASES),
        ("panda", "staged", "float32", 30, 0.8),
    ],
)
def test_a_success_is_a_minimum_within_the_limits(name, engine, precision, count, least):
    links, away = CASES[name]
    problems = WeightedPoses.draw(bare_robot(name), links, count, 3, away=away, weight=0.1)
    result = solve(problems, engine, precision=precision)
    check(problems, result, least)
    blocked = result.status == IKStatus.BLOCKED_BY_LIMITS
    assert blocked.mean() >= 0.3
    assert result.active_limits[blocked].any(axis=1).all()


@pytest.mark.parametrize("weight", [1e-2, 1e-3])
@pytest.mark.parametrize(
    ("engine", "precision"), [("compiled", "float32"), ("compiled", "float64"), ("staged", "float32")]
)
def test_however_light_a_posture_beside_poses_within_reach_a_success_is_a_minimum(panda, engine, precision, weight):
    """So float32 has to judge by the gain left, not by the slope along heavy rows."""
    problems = WeightedPoses.draw(panda, ("panda_hand",), 60, 0, away=0.0, weight=weight)
    check(problems, solve(problems, engine, precision=precision), 0.8)


@pytest.fixture
def drawn_beyond(panda):
    """A Panda's posture beyond the upper limits of two joints, and inside those of the others."""
    wanted = panda.mid_joint_q + 0.1
    wanted[[0, 3]] = panda.joint_limit_upper[[0, 3]] + 0.5
    return panda, wanted, np.minimum(wanted, panda.joint_limit_upper)


@pytest.mark.evidence_cases("threads")
@pytest.mark.usefixtures("each_way")
def test_the_status_says_that_limits_hold_a_minimum_and_the_advice_says_no_more(drawn_beyond):
    robot, wanted, nearest = drawn_beyond
    solver = cpu_solver(robot, objectives=[IKObjectivePosture(wanted)])
    result = solver.solve(problem_count=3)
    np.testing.assert_allclose(result.joint_q, np.tile(nearest, (3, 1)), atol=1e-3)
    assert result.success.all()
    assert result.status_names == ["blocked_by_limits"] * 3
    assert [(island.success, island.status) for island in result.islands[0]] == [(True, IKStatus.BLOCKED_BY_LIMITS)]
    said = advice(robot, (), solver.options, result, result.islands, problem=0)
    assert said == IKStatus.BLOCKED_BY_LIMITS.advice_without_targets


def test_minima_at_limits_are_solutions(drawn_beyond):
    robot, wanted, nearest = drawn_beyond
    solver = cpu_solver(robot, objectives=[IKObjectivePosture(wanted)])
    for options in ({"solutions": 3}, {"best_of": "nearest"}, {"best_of": "cost"}):
        result = solver.solve(problem_count=2, options={"seeds": 8, **options})
        assert result.success.all()
        np.testing.assert_allclose(result.joint_q, np.tile(nearest, (2, 1)), atol=1e-3)
        if "solutions" in options:
            assert result.solution_count.tolist() == [1, 1]


@pytest.mark.parametrize("options", [{}, {"solutions": 2, "seeds": 8}])
def test_beside_a_target_a_minimum_at_limits_is_none(dual_panda, options):
    joints = [name for name in dual_panda.joint_names if name.startswith("right")]
    posture = IKObjectivePosture(dual_panda.joint_limit_upper + 0.5, joints=joints)
    solver = cpu_solver(dual_panda, ["left_panda_hand"], objectives=[posture])
    result = solver.solve([[0.4, 0.3, 0.5]], options=options)
    assert result.position_error[0, 0] < 1e-3
    assert (result.success[0], result.status_names) == (False, ["blocked_by_limits"])

"""The measurements of a robot: what is judged, what is counted, and that every figure is there."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.cli import robot_bench
from ik_service.cli.pose_problems import TOLERANCES, PoseProblems, inside_limits, pose_errors
from ik_service.cli.robot_bench import BenchPlan, Spread, run_bench
from objectives.errors import InputError

PANDA = load_robot("panda")
HAND = ("panda_hand",)
ROUNDING = 1e-7  # [m and rad] of the chords of float64 quaternions near 0


@pytest.fixture
def joint_q():
    return PANDA.random_joint_q(np.random.default_rng(3), 6)


@pytest.fixture
def problems(joint_q):
    poses = PANDA.forward_kinematics(joint_q, list(HAND))
    return PoseProblems(PANDA, HAND, poses.positions, poses.orientations_xyzw)


def test_the_judge_accepts_what_made_the_targets(problems, joint_q):
    assert problems.judge(joint_q, ROUNDING, ROUNDING).all()


@pytest.mark.parametrize("angle", [1e-5, 0.1, 3.0])
def test_errors_are_what_has_been_added(problems, joint_q, angle):
    turned, moved = joint_q.copy(), problems.positions + np.array([0.0, 3e-3, 4e-3])
    turned[:, 6] += angle  # the hand turns about its own axis; the fixed offset is along it
    distance, angles = pose_errors(PANDA, HAND, turned, moved, problems.orientations_xyzw)
    assert distance == pytest.approx(5e-3, rel=1e-9)
    assert angles == pytest.approx(angle, rel=1e-9)


def test_negated_quaternions_are_the_same_target(problems, joint_q):
    other = replace(problems, orientations_xyzw=-problems.orientations_xyzw)
    assert other.judge(joint_q, ROUNDING, ROUNDING).all()


def test_outside_the_limits_nothing_counts(problems, joint_q):
    outside = joint_q.copy()
    outside[2, 3] = PANDA.joint_limit_upper[3] + 1e-9
    assert inside_limits(PANDA, outside).tolist() == [True, True, False, True, True, True]
    assert inside_limits(PANDA, outside, slack=1e-6).all()
    assert not problems.judge(outside, 10.0, 10.0)[2]


def test_every_link_must_be_reached():
    both = ("left_panda_hand", "right_panda_hand")
    robot = load_robot("dual_panda")
    problems = PoseProblems.random(robot, both, 4, 0)
    joint_q = robot.random_free_joint_q(np.random.default_rng(0), 4)
    assert problems.judge(joint_q, ROUNDING, ROUNDING).all()
    joint_q[1, 12] += 0.5  # of the right arm
    assert problems.judge(joint_q, 1e-3, 1e-2).tolist() == [True, False, True, True]


def test_a_report_holds_every_figure(monkeypatch):
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 20)
    plan = BenchPlan(robot=PANDA, links=HAND, count=100, batch=30, threads=2, repeats=3, device="cpu")
    report = run_bench(plan)
    assert [(one.position_tolerance_m, one.orientation_tolerance_rad) for one in report.batches[:3]] == list(TOLERANCES)
    assert [one.engine for one in report.batches] == ["compiled"] * 3
    for one in report.batches:
        assert (one.clock, one.count) == ("cpu", 100)
        assert one.solved_share > 0.9
        assert one.false_successes == 0
        assert 0.0 < one.us_per_target.least <= one.us_per_target.median <= one.us_per_target.most
    assert (report.batch, report.latency.calls) == (30, 20)
    assert 0.0 < report.latency.p50_us <= report.latency.p99_us
    assert report.threads.threads == 2


def test_a_claim_that_is_not_true_is_counted(monkeypatch):
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 1)
    monkeypatch.setattr(PoseProblems, "judge", lambda self, *_: np.arange(len(self)) > 0)
    plan = BenchPlan(robot=PANDA, links=HAND, count=10, threads=1, repeats=1, device="cpu")
    report = run_bench(plan)
    assert [one.false_successes for one in report.batches] == [1, 1, 1]
    assert [one.solved_share for one in report.batches] == [0.9] * 3
    assert report.threads is None


@pytest.mark.parametrize("name", ["count", "batch", "threads", "repeats"])
def test_nothing_to_measure_is_refused(name):
    with pytest.raises(InputError, match=f"{name} is 0"):
        BenchPlan(robot=PANDA, links=HAND, **{name: 0})


def test_the_spread_of_measurements():
    assert Spread.of(np.array([3.0, 1.0, 8.0])) == Spread(3.0, 1.0, 8.0)

"""The choice of candidates against all choices there are; changes of angles and rotations; turns."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply
from ik_service.motion import tracks as tracks_module
from ik_service.motion.choice import EXCESS_WEIGHT, Edges, choose, unwound
from ik_service.motion.metric import FULL_TURN, JointMetric, rotation_between

LARGEST_STEP = np.array([0.5, 1.0, 1.0, 1.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def ur5e():
    return load_robot("ur5e", collision="ignore")


def costs_of(metric, candidates, steps, choice):
    """The three things that a choice is judged by, in their order."""
    path = candidates[np.arange(len(candidates)), choice]
    change = np.abs(metric.change(path[:-1], path[1:])) / steps[:, None]
    beyond = np.maximum(change - LARGEST_STEP, 0.0)
    cost = (change**2).sum() + EXCESS_WEIGHT * (beyond**2).sum()
    return max(1.0, (change / LARGEST_STEP).max()), change.max(), cost


@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_choice_is_the_best_of_all(ur5e, seed, spread):
    rng = np.random.default_rng(seed)
    candidates = rng.normal(0.0, spread, (5, 4, 6)).astype(np.float32)
    valid = rng.random((5, 4)) < 0.8
    valid[:, 0] = True
    steps, metric = rng.integers(1, 4, 4), JointMetric(ur5e)
    chosen = choose(Edges.between(metric, candidates, valid, steps, LARGEST_STEP), valid)
    assert valid[np.arange(5), chosen].all()
    found = costs_of(metric, candidates, steps, chosen)
    allowed = itertools.product(*(np.flatnonzero(line) for line in valid))
    best = min(costs_of(metric, candidates, steps, np.array(choice)) for choice in allowed)
    np.testing.assert_allclose(found, best, rtol=1e-4)


def test_many_waypoints_are_measured_in_blocks(ur5e):
    candidates = np.random.default_rng(0).normal(size=(4000, 10, 6)).astype(np.float32)
    valid, metric = np.ones((4000, 10), dtype=bool), JointMetric(ur5e)
    edges = Edges.between(metric, candidates, valid, np.ones(3999), LARGEST_STEP)
    expected = np.abs(metric.change(candidates[3000, 4], candidates[3001, 7])).max()
    assert edges.change[3000, 4, 7] == pytest.approx(expected)
    two = Edges.between(metric, candidates[:2], valid[:2], np.ones(1), LARGEST_STEP)
    assert two.cost.shape == (1, 10, 10)
    for cost in (edges.cost, two.cost):
        assert np.isfinite(cost).all()


def test_angles_go_the_short_way_where_limits_let_them(ur5e):
    metric = JointMetric(ur5e)
    assert metric.turning.tolist() == [True, True, False, True, True, True]
    start, end = np.full(6, -3.0), np.full(6, 3.0)
    short = 6.0 - FULL_TURN
    np.testing.assert_allclose(metric.change(start, end), [short, short, 6.0, short, short, short])
    np.testing.assert_allclose(metric.straight(start, end), np.full(6, 6.0))
    np.testing.assert_allclose(metric.moved(start, metric.straight(start, end)), end)
    assert not JointMetric(load_robot("panda_gripper", collision="ignore")).turning.any()  # nor leaders and followers
    one = JointMetric(ur5e, one_turn=[0])
    np.testing.assert_allclose(one.change(start, end)[:2], [6.0, short])


@pytest.mark.parametrize("turning", [[5], [3, 5]])
def test_a_start_stays_on_its_turn_and_few_joints_have_turns(ur5e, turning, monkeypatch):
    """Joints turn by 7 rad in both tracks; from the start their range holds the track that is further away."""
    monkeypatch.setattr(tracks_module, "EDGES_MAX", 200 * 6**2)  # too few for the turns of two joints
    joint_q = np.full((200, 2, 6), 0.5, np.float32)
    joint_q[:, 0, turning] = np.linspace(0.3, 7.3, 200)[:, None]
    joint_q[:, 1, 5] = np.linspace(-1.0, 6.0, 200)
    assert joint_q[-1, 0, 5] > ur5e.joint_limit_upper[5] > joint_q[-1, 1, 5]
    joint_q[..., 3:] -= FULL_TURN * np.round(joint_q[..., 3:] / FULL_TURN)
    joint_q[:, 1, 4] += 1.0
    tracks = SimpleNamespace(joint_q=joint_q, alive=np.ones((200, 2, 1), bool))
    group, start = SimpleNamespace(metric=JointMetric(ur5e)), np.array([0.5, 0.5, 0.5, 0.5, 0.8, 0.2])
    assert (tracks_module.choose_tracks(ur5e, tracks, 0, group, LARGEST_STEP, start) == 1).all()


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 1.0, 3.1])
def test_the_change_of_a_rotation_leads_there(angle):
    rng = np.random.default_rng(1)
    start = rng.normal(size=(20, 4))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    axis = rng.normal(size=(20, 3))
    w = angle * axis / np.linalg.norm(axis, axis=1, keepdims=True)
    end = quaternion_multiply(quaternion_exp(w), start)
    np.testing.assert_allclose(rotation_between(start, end), w, atol=1e-12)
    np.testing.assert_allclose(rotation_between(start, -end), w, atol=1e-12)


def test_floating_joints_change_by_tangents():
    robot = load_robot("humanoid", collision="ignore")
    metric, rng = JointMetric(robot), np.random.default_rng(2)
    start = robot.random_joint_q(rng, 10)
    step = rng.normal(0.0, 0.3, (10, robot.joint_dof_count))
    end = robot.integrate(start, step)
    np.testing.assert_allclose(metric.change(start, end), step, atol=1e-9)
    moved = metric.moved(start, step)
    np.testing.assert_allclose(np.abs(moved), np.abs(end), atol=1e-9)


def path_of(angle):
    return np.outer(angle, np.eye(6)[5])


@pytest.mark.parametrize(("begin", "length"), [(0.0, 6.0), (5.0, 6.0), (0.2, 12.0), (3.0, -9.0)])
def test_a_turn_is_found_that_holds_the_whole_path(ur5e, begin, length):
    angle = begin + np.linspace(0.0, length, 200)
    wrapped = np.angle(np.exp(1j * angle))
    found = unwound(ur5e, JointMetric(ur5e), path_of(wrapped), LARGEST_STEP, None)[:, 5]
    assert np.abs(np.diff(found)).max() == pytest.approx(abs(length) / 199)
    np.testing.assert_allclose(np.cos(found - angle), 1.0)
    assert np.abs(found).max() <= FULL_TURN


def test_a_joint_turns_back_as_rarely_as_it_can(ur5e):
    angle = np.linspace(0.0, 30.0, 600)
    found = unwound(ur5e, JointMetric(ur5e), path_of(np.angle(np.exp(1j * angle))), LARGEST_STEP, path_of([-6.0])[0])
    change = np.abs(np.diff(found[:, 5], prepend=-6.0))
    assert np.abs(found[:, 5]).max() <= FULL_TURN
    np.testing.assert_allclose(np.cos(found[:, 5] - angle), 1.0)
    assert found[0, 5] == pytest.approx(-FULL_TURN)
    assert (change > 1.0).sum() <= 4

"""Changes of angles and rotations, and the turns of joints, against all turns there are."""

import itertools

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply, rotation_between
from ik_service.motion.metric import FULL_TURN, JointMetric
from ik_service.motion.turns import unwound


@pytest.fixture(scope="module")
def ur5e():
    return load_robot("ur5e", collision="ignore")


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
    found = unwound(ur5e, JointMetric(ur5e), path_of(wrapped), None)[:, 5]
    assert np.abs(np.diff(found)).max() == pytest.approx(abs(length) / 199)
    np.testing.assert_allclose(np.cos(found - angle), 1.0)
    assert np.abs(found).max() <= FULL_TURN


def test_a_joint_turns_back_as_rarely_as_it_can(ur5e):
    angle = np.linspace(0.0, 30.0, 600)
    found = unwound(ur5e, JointMetric(ur5e), path_of(np.angle(np.exp(1j * angle))), path_of([-6.0])[0])
    change = np.abs(np.diff(found[:, 5], prepend=-6.0))
    assert np.abs(found[:, 5]).max() <= FULL_TURN
    np.testing.assert_allclose(np.cos(found[:, 5] - angle), 1.0)
    assert found[0, 5] == pytest.approx(-FULL_TURN)
    assert (change > 1.0).sum() == 2  # a range of two turns holds 12.6 rad


@pytest.mark.parametrize("seed", range(5))
def test_the_turns_are_the_best_of_all(ur5e, seed):
    """Every sequence of turns of a few waypoints: fewest times back, then the least sum of squares."""
    angle = np.random.default_rng(seed).uniform(-4.0, 9.0, 6).cumsum()
    wrapped = np.angle(np.exp(1j * angle))
    found = unwound(ur5e, JointMetric(ur5e), path_of(wrapped), None)[:, 5]

    def cost(path):
        change = np.abs(np.diff(path))
        return (change > np.pi).sum(), (change**2).sum()

    turns = [[w + k * FULL_TURN for k in (-1, 0, 1) if abs(w + k * FULL_TURN) <= FULL_TURN] for w in wrapped]
    best = min(cost(np.array(path)) for path in itertools.product(*turns))
    np.testing.assert_allclose(np.cos(found - wrapped), 1.0)
    np.testing.assert_allclose(cost(found), best)

"""Saddles: no step of first order leads on, though a target is missed and may be met; and minima, which look alike."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from tests.control.conftest import follow, pose_of

DT = 2e-3
SPEED = 0.05  # [m/s]
SPEED_ROUNDING = 1e-9  # [rad/s]
ACCELERATION = 10.0  # [rad/s2]
HALF_TURNS = {
    "ur5e": ("tool0", [0.3, -1.2, 1.5, -1.0, -1.3, 0.2]),
    "iiwa14": ("iiwa_link_ee", [0.1, 0.5, 0.1, -1.2, 0.1, 0.8, 0.0]),
}


@pytest.fixture(scope="module")
def iiwa():
    return load_robot("iiwa14", collision="ignore")


@pytest.fixture(scope="module")
def upright(iiwa):
    return pose_of(iiwa, np.zeros(7), "iiwa_link_ee")


def lowered(pose, distance):
    return np.concatenate([pose[:2], [pose[2] - distance], pose[3:]])


def test_an_upright_arm_follows_a_line_down_within_its_speeds(iiwa, upright):
    controller = IKController(iiwa, ["iiwa_link_ee"])
    line = [lowered(upright, min(0.2, SPEED * DT * k)) for k in range(3000)]
    run = follow(controller, np.zeros(7), line, DT)
    assert run.status[-1] == IKStatus.CONVERGED
    assert np.abs(run.joint_q[-1]).max() > 1.0
    limits = iiwa.joint_velocity_limit[iiwa.dof_active]
    assert (np.abs(run.speeds(np.zeros(7), DT)) <= limits + SPEED_ROUNDING).all()


def test_an_upright_arm_comes_to_a_target_that_jumps_down(iiwa, upright):
    run = follow(IKController(iiwa, ["iiwa_link_ee"]), np.zeros(7), [lowered(upright, 0.2)] * 2000, DT)
    assert run.status[-1] == IKStatus.CONVERGED


def test_an_upright_arm_follows_a_line_down_within_its_accelerations(iiwa, upright):
    controller = IKController(iiwa, ["iiwa_link_ee"], limits=ControlLimits(acceleration=ACCELERATION))
    line = [lowered(upright, min(0.1, SPEED * DT * k)) for k in range(3000)]
    run = follow(controller, np.zeros(7), line, DT)
    assert run.status[-1] == IKStatus.CONVERGED
    speeds = np.vstack([np.zeros(7), run.speeds(np.zeros(7), DT)])
    assert (np.abs(np.diff(speeds, axis=0)) <= ACCELERATION * DT + SPEED_ROUNDING).all()


def test_an_arm_leaves_a_saddle_alike_after_it_has_stood_at_another(iiwa, upright):
    controller, line = IKController(iiwa, ["iiwa_link_ee"]), [lowered(upright, 0.05)] * 100
    first = follow(controller, np.zeros(7), line, DT).joint_q
    follow(controller, np.zeros(7), [lowered(upright, -0.2)] * 10, DT)
    np.testing.assert_array_equal(follow(controller, np.zeros(7), line, DT).joint_q, first)
    assert np.abs(first).max() > 0.1


def test_an_upright_arm_leaves_when_every_tick_is_late(iiwa, upright):
    run = follow(IKController(iiwa, ["iiwa_link_ee"]), np.zeros(7), [lowered(upright, 0.05)] * 400, DT, deadline_ns=0)
    assert run.status[-1] == IKStatus.CONVERGED


def test_an_arm_that_has_come_to_rest_out_of_reach_stands_still():
    robot = load_robot("ur5e", collision="ignore")
    link, start = HALF_TURNS["ur5e"]
    pose = lowered(pose_of(robot, start, link), 1.0)
    run = follow(IKController(robot, [link]), np.array(start), [pose] * 3200, DT)
    assert (run.joint_q[-200:] == run.joint_q[-200]).all()
    assert np.abs(run.joint_q[-1] - start).max() > 0.1


def test_a_stretched_arm_out_of_reach_stands_still(iiwa, upright):
    run = follow(IKController(iiwa, ["iiwa_link_ee"]), np.zeros(7), [lowered(upright, -0.2)] * 200, DT)
    assert (run.joint_q == 0.0).all()
    assert (run.status == IKStatus.STALLED).all()


@pytest.mark.parametrize("name", HALF_TURNS)
def test_a_hand_turns_about_itself_by_half_a_turn(name):
    robot = load_robot(name, collision="ignore")
    link, start = HALF_TURNS[name]
    pose = pose_of(robot, start, link)
    x, y, z, w = pose[3:]
    pose[3:] = [y, -x, w, -z]  # half a turn about the hand's own z
    run = follow(IKController(robot, [link]), np.array(start), [pose] * 4000, DT)
    assert run.orientation_error[0] > 3.0
    assert run.status[-1] == IKStatus.CONVERGED


def test_robots_beside_one_at_a_saddle_move_as_they_do_alone(iiwa, upright):
    rng = np.random.default_rng(0)
    starts = np.vstack([np.zeros(7), rng.uniform(-0.5, 0.5, (3, 7))])
    targets = np.array([lowered(pose_of(iiwa, start, "iiwa_link_ee"), 0.05) for start in starts])
    together = IKController(iiwa, ["iiwa_link_ee"], robots=4)
    alone = [IKController(iiwa, ["iiwa_link_ee"]) for _ in starts]
    together.reset(starts)
    for controller, start in zip(alone, starts, strict=True):
        controller.reset(start)
    for _ in range(200):
        found = together.step(targets[:, None], dt=DT).joint_q
        expected = [one.step(target, dt=DT).joint_q[0] for one, target in zip(alone, targets, strict=True)]
        np.testing.assert_array_equal(found, expected)
    assert np.abs(found[0]).max() > 0.1

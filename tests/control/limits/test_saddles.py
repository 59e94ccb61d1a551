"""Saddles: no step of first order leads on, though a target is missed and may be met; and minima, which look alike."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from tests.control.conftest import follow, pose_of

DT = 2e-3
SPEED = 0.05  # [m/s]
SPEED_ROUNDING = 1e-9  # [rad/s]
ACCELERATION, ZEROS = 10.0, np.zeros(7)  # [rad/s2]
HALF_TURNS = {
    "ur5e": ("tool0", [0.3, -1.2, 1.5, -1.0, -1.3, 0.2]),
    "iiwa14": ("iiwa_link_ee", [0.1, 0.5, 0.1, -1.2, 0.1, 0.8, 0.0]),
}


@pytest.fixture(scope="module")
def iiwa():
    return load_robot("iiwa14", collision="ignore")


def lowered(robot, distance, link="iiwa_link_ee", start=ZEROS):
    return pose_of(robot, start, link, [0.0, 0.0, -distance])


@pytest.mark.parametrize(("acceleration", "way"), [(None, 0.2), (ACCELERATION, 0.1)], ids=["speeds", "accelerations"])
def test_an_upright_arm_follows_a_line_down_within_its_limits(iiwa, acceleration, way):
    controller = IKController(iiwa, ["iiwa_link_ee"], limits=ControlLimits(acceleration=acceleration))
    run = follow(controller, ZEROS, [lowered(iiwa, min(way, SPEED * DT * k)) for k in range(3000)], DT)
    assert run.status[-1] == IKStatus.CONVERGED
    speeds = np.vstack([ZEROS, run.speeds(ZEROS, DT)])
    if acceleration is None:
        assert np.abs(run.joint_q[-1]).max() > 1.0
        assert (np.abs(speeds) <= iiwa.joint_velocity_limit + SPEED_ROUNDING).all()
    else:
        assert (np.abs(np.diff(speeds, axis=0)) <= ACCELERATION * DT + SPEED_ROUNDING).all()


@pytest.mark.parametrize(
    ("distance", "ticks", "options"),
    [(0.2, 2000, {}), (0.05, 400, {"deadline_ns": 0})],
    ids=["a target that jumps down", "every tick is late"],
)
def test_an_upright_arm_leaves(iiwa, distance, ticks, options):
    run = follow(IKController(iiwa, ["iiwa_link_ee"]), ZEROS, [lowered(iiwa, distance)] * ticks, DT, **options)
    assert run.status[-1] == IKStatus.CONVERGED


def test_an_arm_leaves_a_saddle_alike_after_it_has_stood_at_another(iiwa):
    controller, line = IKController(iiwa, ["iiwa_link_ee"]), [lowered(iiwa, 0.05)] * 100
    first = follow(controller, ZEROS, line, DT).joint_q
    follow(controller, ZEROS, [lowered(iiwa, -0.2)] * 10, DT)
    np.testing.assert_array_equal(follow(controller, ZEROS, line, DT).joint_q, first)
    assert np.abs(first).max() > 0.1


def test_an_arm_that_has_come_to_rest_out_of_reach_stands_still():
    robot = load_robot("ur5e", collision="ignore")
    link, start = HALF_TURNS["ur5e"]
    run = follow(IKController(robot, [link]), np.array(start), [lowered(robot, 1.0, link, start)] * 3200, DT)
    assert (run.joint_q[-200:] == run.joint_q[-200]).all()
    assert np.abs(run.joint_q[-1] - start).max() > 0.1


def test_a_stretched_arm_out_of_reach_stands_still(iiwa):
    run = follow(IKController(iiwa, ["iiwa_link_ee"]), ZEROS, [lowered(iiwa, -0.2)] * 200, DT)
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

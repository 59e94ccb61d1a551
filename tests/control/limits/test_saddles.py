"""Saddles: no step of first order leads on, though a target is missed and may be met; and minima, which look alike.

Joints far slower than the others: limits cut off their part of each step, and the error falls all the same.
"""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from tests.control.conftest import follow, pose_of
from tests.robots.urdf_text import joint, urdf

DT = 2e-3
SPEED = 0.05  # [m/s]
SPEED_ROUNDING = 1e-9  # [rad/s]
ACCELERATION, ZEROS = 10.0, np.zeros(7)  # [rad/s2]
INWARDS = 0.05  # [m]
STRETCHED, BENT = np.zeros(5), np.array([0.0, 0.0025, 0.01, -0.015, 0.0])  # side, lift, three joints that pitch
PITCHES = (("upper", "lift", 0.0, -1.0, 1.4), ("fore", "upper", 0.4, -2.3, 0.0), ("hand", "fore", 0.32, -2.1, 0.0))
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


def arm_on_lift(speed):
    """Three pitching joints on a lift: elbow and wrist bend only upwards, so the lift has to rise for the hand."""
    side = joint("side", "prismatic", "base", "side", axis="0 1 0", limit=(0, 0.3, 1))
    lift = joint("lift", "prismatic", "side", "lift", axis="0 0 1", limit=(0, 0.3, speed))
    pitches = [
        joint(name, "revolute", parent, name, f"{x} 0 0", axis="0 1 0", limit=(lower, upper, 2))
        for name, parent, x, lower, upper in PITCHES
    ]
    return load_robot(urdf("lift", "base", side, lift, *pitches, joint("tip", "fixed", "hand", "tip", "0.2 0 0")))


def line_inwards(robot, start, ticks, beside=0.0):
    ways = [min(INWARDS, SPEED * DT * (k + 1)) for k in range(ticks)]
    return [pose_of(robot, start, "tip", [-way, -beside, 0.0]) for way in ways]


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 10.0])
def test_a_hand_follows_a_line_that_a_slow_lift_has_to_make_room_for(acceleration):
    robot = arm_on_lift(SPEED)
    controller = IKController(robot, ["tip"], limits=ControlLimits(acceleration=acceleration))
    run = follow(controller, BENT, line_inwards(robot, BENT, 3000), DT)
    assert run.status[-1] == IKStatus.CONVERGED
    assert run.joint_q[-1, 1] > 0.15
    assert (np.abs(run.speeds(BENT, DT)) <= robot.joint_velocity_limit + SPEED_ROUNDING).all()


@pytest.mark.parametrize("beside", [0.0, 0.02])  # [m]: beyond the limit of the joint that leads sideways
def test_a_stretched_arm_leaves_a_saddle_as_fast_as_its_slow_lift_rises(beside):
    slow, ticks = 0.013, 500
    robot = arm_on_lift(slow)
    line = line_inwards(robot, STRETCHED, ticks, beside)
    run = follow(IKController(robot, ["tip"]), STRETCHED, line, DT)
    assert run.joint_q[-1, 1] > 0.75 * slow * DT * ticks
    assert (np.abs(run.speeds(STRETCHED, DT)) <= robot.joint_velocity_limit + SPEED_ROUNDING).all()

"""Joints far slower than the others: limits cut off their part of each step, and the error falls all the same."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from tests.control.conftest import follow, pose_of
from tests.robots.urdf_text import joint, urdf

DT, SPEED = 2e-3, 0.05  # [s], [m/s]
INWARDS = 0.05  # [m]
STRETCHED, BENT = np.zeros(5), np.array([0.0, 0.0025, 0.01, -0.015, 0.0])  # side, lift, three joints that pitch
SPEED_ROUNDING = 1e-9  # [m/s or rad/s]
PITCHES = (("upper", "lift", 0.0, -1.0, 1.4), ("fore", "upper", 0.4, -2.3, 0.0), ("hand", "fore", 0.32, -2.1, 0.0))


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

"""A target out of reach, with limits of acceleration: the robot goes as far as it can, stands, and says so."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import ControlLimits, IKController, LimitKind
from ik_service.robots import builtin_urdf, load_urdf
from ik_service.solver.lm.status import IKStatus
from tests.control.conftest import follow, pose_of

STARTS = {
    "ur5e": ("tool0", [0.0, -1.2, 1.8, -2.2, -1.57, 0.0]),
    "panda": ("panda_hand", [0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7]),
}
TICKS, DT = 8000, 1e-3
ROUNDING = 1e-9  # of speeds, divided by the length of a tick
SLOW = 0.1  # share of the speed that a joint could have after one tick from rest: with less it counts as standing


@pytest.mark.evidence_cases("20.0-panda", "5.0-panda")
@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("acceleration", [5.0, 20.0])
def test_a_target_out_of_reach_is_told_once_the_robot_stands(name, acceleration):
    robot = load_robot(name)
    link, start = STARTS[name]
    far = pose_of(robot, start, link, [1.0, 0.0, 0.0])
    controller = IKController(robot, [link], limits=ControlLimits(acceleration=acceleration))
    run = follow(controller, start, [far] * TICKS, DT)
    fastest = np.abs(run.joint_qd).max(axis=1)
    stands = fastest <= SLOW * acceleration * DT
    assert stands[-1]
    np.testing.assert_array_equal(run.status[stands], IKStatus.STALLED)
    np.testing.assert_array_equal(run.status[~stands], IKStatus.BLOCKED_BY_LIMITS)
    assert (run.active_limits[stands] == LimitKind.NONE).all()
    assert (np.abs(run.active_limits[~stands]).max(axis=1) > 0).all()
    assert fastest.max() > 1.0  # it has been somewhere
    assert run.position_error[-1] > 0.3


def test_accelerations_of_the_robots_file_are_limits_unless_others_are_given():
    (link, start), text = STARTS["ur5e"], builtin_urdf("ur5e").decode()
    robot = load_urdf(text.replace("<limit ", '<limit acceleration="4" '))
    assert robot.joint_acceleration_limit.tolist() == [4.0] * 6
    goal = pose_of(robot, np.add(start, 0.3), link)

    def commands(robot, **limits):
        controller = IKController(robot, [link], limits=ControlLimits(**limits))
        return follow(controller, start, [goal] * 300, DT).joint_qd

    speeds = commands(robot)
    changes = np.abs(np.diff(speeds, axis=0, prepend=0.0)) / DT
    assert 3.9 < changes.max() <= 4.0 + ROUNDING
    np.testing.assert_array_equal(speeds, commands(load_robot("ur5e"), acceleration=4.0))
    np.testing.assert_array_equal(commands(robot, acceleration=7.0), commands(load_robot("ur5e"), acceleration=7.0))
    np.testing.assert_array_equal(commands(robot, acceleration=np.inf), commands(load_robot("ur5e")))


@pytest.mark.evidence_cases("panda")
@pytest.mark.parametrize("name", STARTS)
def test_a_target_within_reach_is_not_called_lost_on_the_way(name):
    robot = load_robot(name)
    link, start = STARTS[name]
    controller = IKController(robot, [link], limits=ControlLimits(acceleration=5.0))
    run = follow(controller, start, [pose_of(robot, np.add(start, 0.3), link)] * 2000, DT)
    assert set(run.status) == {IKStatus.BLOCKED_BY_LIMITS, IKStatus.CONVERGED}
    assert (run.status[0], run.status[-1]) == (IKStatus.BLOCKED_BY_LIMITS, IKStatus.CONVERGED)

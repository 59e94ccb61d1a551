"""A controller with tolerances: the tool is kept within them, and what they leave open follows the posture."""

import numpy as np
import pytest

from ik_service import IKStatus, Target
from ik_service.control import IKController
from objectives import InputError
from tests.control.conftest import LINK, distances, follow, pose_of
from tests.control.test_priorities import HOME, POSTURE, circle
from tests.objectives.loop_rows import matrix_of

CONE = np.radians(15.0)
TICKS = 2000


def tilts(robot, joint_q, poses):
    """Angles between the z axes of the hand and of where it is to be [rad]."""
    tool = matrix_of(robot.forward_kinematics(joint_q, [LINK]).orientations_xyzw[:, 0])[:, :, 2]
    aim = matrix_of(poses[:, 3:])[:, :, 2]
    return np.arctan2(np.linalg.norm(np.cross(tool, aim), axis=1), (tool * aim).sum(axis=1))


@pytest.mark.evidence
@pytest.mark.parametrize("tolerance", [0.0, CONE])
def test_the_axis_of_the_tool_stays_in_its_cone_on_a_circle(panda, tolerance):
    poses = circle(panda, TICKS)
    target = Target(LINK, free=["rz"], tolerance=[0.0, 0.0, 0.0, tolerance, tolerance, 0.0])
    run = follow(IKController(panda, [target], posture=POSTURE, posture_weight=0.1), HOME, poses)
    assert (run.status[100:] == IKStatus.CONVERGED).all()
    assert distances(panda, run.joint_q, poses)[100:].max() < 1e-4
    tilt = tilts(panda, run.joint_q, poses)
    assert tilt.max() <= max(tolerance, 1e-3)
    if tolerance:
        assert tilt[-1] > 0.9 * CONE  # the posture draws the hand to the edge


@pytest.mark.evidence
def test_what_is_open_lowers_the_cost_of_the_posture(panda):
    poses = np.tile(pose_of(panda, HOME, LINK), (TICKS, 1))
    targets = LINK, Target(LINK, free=["rz"]), Target(LINK, free=["rz"], tolerance=[0, 0, 0, CONE, CONE, 0])
    runs = [follow(IKController(panda, [one], posture=POSTURE, posture_weight=0.1), HOME, poses) for one in targets]
    far = [np.linalg.norm(run.joint_q[-1] - POSTURE) for run in runs]
    assert far[0] > far[1] + 0.05
    assert far[1] > far[2] + 0.05


def test_a_tolerance_below_that_of_the_controller_is_refused(panda):
    with pytest.raises(InputError, match="Allowed: 0, or from position_tolerance"):
        IKController(panda, [Target(LINK, tolerance=[1e-5] * 6)])

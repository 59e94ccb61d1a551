"""A mechanism from a file with rounded angles, tick by tick: it follows as with all digits, its loop closed."""

import numpy as np

from ik_service import IKStatus
from ik_service.control import IKController
from ik_service.robots import load_urdf
from tests.constraints import rounded
from tests.control.conftest import follow, pose_of

CLOSED = 2e-9  # [m and rad] of a row beyond its slack; a tick ends where all are below 1e-9, and then answers
NEAR = 2e-3  # [m] behind a point that moves at up to 0.2 m/s


def test_a_four_bar_with_rounded_angles_follows_its_coupler_point():
    robot = load_urdf(rounded.pins(4))
    start = robot.constraints.close(robot.mid_joint_q).joint_q[0]
    angles = start[0] + np.linspace(0.0, 0.5, 400)
    path = robot.constraints.sweep("drive", (angles[0], angles[-1]), angles[1] - angles[0], joint_q=start)
    assert not path.status.any()
    poses = np.array([pose_of(robot, one, "point") for one in path.joint_q[0]])
    controller = IKController(robot, ["point"])
    run = follow(controller, path.joint_q[0, 0], poses, dt=2e-3)
    assert np.ptp(run.joint_q[:, 0]) > 0.4
    assert np.abs(robot.constraints.residual(run.joint_q)).max() <= CLOSED
    assert (run.status == IKStatus.CONVERGED).all()
    assert run.position_error.max() <= NEAR

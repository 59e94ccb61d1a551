"""Derivatives of a tick: beside the inverse Jacobian, at limits of speed, at kinks; the controller stays as it is."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import ControlLimits, IKController
from objectives import InputError
from tests.control.conftest import pose_of

START = np.array([0.3, -1.2, 1.1, -0.5, 0.4, 0.2])
LONG, SHORT = 0.5, 1e-3


@pytest.fixture(scope="module")
def arm():
    return load_robot("ur5e", collision="ignore")


def near(robot, by=0.01):
    return pose_of(robot, START + by * np.array([1.0, -1.0, 0.5, 1.0, -0.5, 0.7]), "tool0")


def test_a_tick_that_meets_its_target_follows_it_by_the_inverse_jacobian(arm):
    controller = IKController(arm, ["tool0"], damping_weight=0.0)
    found = controller.linearise(near(arm), START, LONG)
    assert found.is_differentiable.all()
    inverse = np.linalg.inv(arm.jacobian(found.joint_q, ["tool0"])[0, 0])
    np.testing.assert_allclose(found.joint_q_by_targets[0, :, 0], inverse, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.joint_q_by_start[0], np.zeros((6, 6)), atol=1e-5)
    np.testing.assert_allclose(found.joint_qd_by_start[0], -np.eye(6) / LONG, atol=1e-4)
    np.testing.assert_allclose(found.joint_qd_by_targets[0, :, 0], inverse / LONG, rtol=1e-4, atol=1e-4)


def test_joints_at_their_speed_follow_their_start_alone(arm):
    controller = IKController(arm, ["tool0"])
    far = pose_of(arm, START + 0.5, "tool0")
    found = controller.linearise(far, START, SHORT)
    fast = np.abs(found.joint_qd[0]) > 0.999 * arm.joint_velocity_limit
    assert fast.any()
    assert found.is_differentiable.all()
    np.testing.assert_allclose(found.joint_q_by_start[0][fast], np.eye(6)[fast], atol=1e-9)
    assert not found.joint_q_by_targets[0][fast].any()
    assert np.abs(found.joint_qd_by_start[0][fast]).max() < 1e-5


def test_accelerations_let_speeds_go_on(arm):
    controller = IKController(arm, ["tool0"], limits=ControlLimits(acceleration=5.0))
    speeds = np.full(6, 0.3)
    found = controller.linearise(pose_of(arm, START + 0.5, "tool0"), START, SHORT, joint_qd=speeds)
    free = np.abs(found.joint_qd[0] - speeds - 5.0 * SHORT) < 1e-9  # as fast as accelerations allow
    assert free.any()
    np.testing.assert_allclose(found.joint_qd_by_speed[0][free], np.eye(6)[free], atol=1e-8)
    np.testing.assert_allclose(found.joint_q_by_speed[0][free], SHORT * np.eye(6)[free], atol=1e-9)


def test_a_tick_in_which_a_limit_begins_to_hold_has_none(arm):
    slider = arm.activate(["wrist_3_joint"])
    limit = float(arm.joint_velocity_limit[5])
    controller = IKController(slider, ["tool0"], damping_weight=0.0)
    reached = START + np.array([0.0, 0.0, 0.0, 0.0, 0.0, limit * SHORT])
    found = controller.linearise(pose_of(slider, reached, "tool0"), START, SHORT)
    assert not found.is_differentiable.any()
    reached[5] = START[5] + 0.5 * limit * SHORT
    assert controller.linearise(pose_of(slider, reached, "tool0"), START, SHORT).is_differentiable.all()


def test_a_controller_goes_on_as_if_nobody_had_asked(arm):
    asked, other = (IKController(arm, ["tool0"], limits=ControlLimits(acceleration=5.0)) for _ in range(2))
    asked.linearise(near(arm), START)
    with pytest.raises(InputError, match="does not know where the robots are"):
        asked.step(near(arm))
    for controller in (asked, other):
        controller.reset(START)
    for k in range(20):
        target = near(arm, 0.01 * k)
        if k % 3 == 0:
            asked.linearise(near(arm, 0.2), START + 0.1, 2e-3)
        one, two = (controller.step(target, dt=SHORT).copy() for controller in (asked, other))
        assert one.joint_q.tobytes() == two.joint_q.tobytes()
        assert one.joint_qd.tobytes() == two.joint_qd.tobytes()
        assert one.island_status.tobytes() == two.island_status.tobytes()


def test_several_robots_orders_and_quaternions(arm):
    names = arm.joint_names[::-1]
    order = [
        name for name in names if name in {n for n, a in zip(arm.dof_names, arm.dof_active, strict=True) if a >= 0}
    ]
    own = IKController(arm, ["tool0"], robots=2)
    other = IKController(arm, ["tool0"], robots=2, joint_order=order, wxyz=True)
    starts, target = np.stack([START, START + 0.1]), near(arm)
    found = own.linearise(target, starts, LONG)
    turned = np.concatenate([target[:3], np.roll(target[3:], 1)])
    again = other.linearise(turned, starts[:, ::-1], LONG)
    np.testing.assert_array_equal(again.joint_q, found.joint_q[:, ::-1])
    np.testing.assert_array_equal(again.joint_q_by_start, found.joint_q_by_start[:, ::-1, ::-1])
    np.testing.assert_array_equal(again.joint_q_by_targets, found.joint_q_by_targets[:, ::-1])
    alone = IKController(arm, ["tool0"]).linearise(target, starts[1], LONG)
    np.testing.assert_array_equal(alone.joint_q_by_targets[0], found.joint_q_by_targets[1])

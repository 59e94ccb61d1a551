"""Before anybody has said where the robots are a controller commands nothing: it would be a jump to anywhere."""

import numpy as np
import pytest

from ik_service.control import IKController
from objectives import InputError
from tests.control.conftest import HOME, LINK, begun, pose_of

UNKNOWN = "does not know where the robots are"


@pytest.fixture
def controller(panda):
    return IKController(panda, [LINK])


@pytest.fixture
def target(panda):
    return pose_of(panda, HOME, LINK, 0.01)


def placed(panda, target):
    return begun(panda, [LINK], HOME).step(target).copy()


def test_a_first_step_from_nowhere_is_refused(controller, target, panda):
    before = controller._caller.result.copy()
    for arguments in ({}, {"joint_qd": np.zeros(7)}, {"deadline_ns": 0}):
        with pytest.raises(InputError, match=UNKNOWN):
            controller.step(target, **arguments)
    np.testing.assert_array_equal(controller._caller.result.joint_q, before.joint_q)
    np.testing.assert_array_equal(controller.step(joint_q=HOME).joint_q, HOME[None])  # no target was taken: it is zeros
    with pytest.raises(InputError, match=UNKNOWN):
        IKController(panda, [LINK]).follow(target[None, :3], target[None, 3:], 1e-3)


@pytest.mark.parametrize("how", ["reset", "joint_q", "follow", "several"])
def test_whoever_says_where_the_robot_is_gets_commands_from_there(controller, target, panda, how):
    if how == "reset":
        controller.reset(HOME)
        first = controller.step(target)
    elif how == "joint_q":
        first = controller.step(target, HOME)
    elif how == "several":
        first = IKController(panda, [LINK], robots=3).step(target[None], HOME)
        np.testing.assert_array_equal(first.joint_q, np.tile(first.joint_q[0], (3, 1)))
    else:
        controller.follow(target[None, :3], target[None, 3:], 1e-3, start_joint_q=HOME)
        first = controller._caller.result
    np.testing.assert_array_equal(first.joint_q[0], placed(panda, target).joint_q[0])
    if how != "several":
        controller.step(target)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e10])
def test_a_first_reading_that_is_no_number_and_a_step_that_is_refused_do_not_place_the_robot(
    controller, target, panda, number
):
    """There is no command before from which to brake."""
    reading = HOME.copy()
    reading[3] = number
    for arguments in ((target, reading), (target, HOME, 0.0), (target[:6], HOME)):
        with pytest.raises(InputError):
            controller.step(*arguments)
        with pytest.raises(InputError, match=UNKNOWN):
            controller.step(target)
    np.testing.assert_array_equal(controller.step(target, HOME).joint_q, placed(panda, target).joint_q)


def test_warming_up_is_no_word_about_where_the_robot_is(controller, target, panda):
    controller.warmup()
    with pytest.raises(InputError, match=UNKNOWN):
        controller.step(target)
    controller.reset(HOME)
    controller.warmup()
    np.testing.assert_array_equal(controller.step(target).joint_q, placed(panda, target).joint_q)

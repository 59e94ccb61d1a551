"""What a controller does with what is wrong: numbers, shapes, data, and limits that hold without the cost's slope."""

import numpy as np
import pytest

from ik_service import IKStatus, Target, load_robot
from ik_service.control import ControlLimits, IKController, LimitKind
from objectives import IKObjectiveLookAt, InputError
from tests.control.conftest import ARMS, HOME, LINK, begun, last_of, pose_of
from tests.robots.urdf_text import joint, urdf

SLIDES = [joint("x", "prismatic", "world", "a", axis="1 0 0", limit=(-1, 1, 1))]
SLIDES.append(joint("y", "prismatic", "a", "b", axis="0 1 0", limit=(-1, 1, 1)))


@pytest.fixture(scope="module")
def slide():
    return load_robot(urdf("slide", "world", *SLIDES))


@pytest.fixture(scope="module")
def free():
    return load_robot(urdf("free", "world", joint("base", "floating", "world", "body")))


@pytest.mark.evidence
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e10])
def test_a_joint_that_no_task_moves_is_no_number(dual, number):
    """The robot is INVALID, what moves still moves, and the command keeps to what is known."""
    home = dual.mid_joint_q
    controller, given = begun(dual, [ARMS[1]], home, robots=2), np.stack([home, home])
    given[0, 2] = number
    result = controller.step(pose_of(dual, home, ARMS[1], [0.0, 0.0, -0.01])[None], given)
    assert result.status.tolist() == [IKStatus.INVALID, IKStatus.BLOCKED_BY_LIMITS]
    np.testing.assert_array_equal(result.joint_q[0], result.joint_q[1])
    assert (result.joint_q[:, 7:] != home[7:]).any()
    assert IKStatus(controller.step(pose_of(dual, result.joint_q[0], ARMS[1])[None]).status[0]) == IKStatus.CONVERGED


def test_a_reset_that_fails_changes_nothing(panda):
    controller, other = (begun(panda, [LINK], HOME[::-1], 0.1, joint_order=panda.joint_names[::-1]) for _ in range(2))
    before = controller.step(pose_of(panda, HOME, LINK)).copy()
    calls = [(HOME[:6],), (0.3,), ([0.3],), ([[0.3]],), (HOME, HOME[:6]), (HOME * np.nan,), (HOME, [np.inf] * 7)]
    for arguments in calls:
        with pytest.raises(InputError):
            controller.reset(*arguments)
    np.testing.assert_array_equal(other.step(pose_of(panda, HOME, LINK)).joint_q, before.joint_q)
    np.testing.assert_array_equal(other.step().joint_q, controller.step().joint_q)


def test_a_step_that_fails_takes_nothing(panda):
    one, other = begun(panda, [LINK], HOME), begun(panda, [LINK], HOME)
    here, there = pose_of(panda, HOME, LINK), pose_of(panda, HOME + 0.1, LINK)
    for controller in (one, other):
        controller.step(here)
    for arguments in [(there, HOME[:6]), (there, HOME + 0.1, 0.0), (np.array([None] * 7),), (["x"] * 7, HOME + 0.1)]:
        with pytest.raises(InputError):
            one.step(*arguments)
    with pytest.raises(InputError):
        one.step(there, HOME + 0.1, joint_qd=HOME[:6])
    np.testing.assert_array_equal(one.step().joint_q, other.step().joint_q)


@pytest.mark.parametrize("acceleration", [None, 10.0])
def test_a_joint_at_the_end_of_its_range_is_said_to_block(slide, acceleration):
    targets, limits = [Target("b", row_weights=[1, 1, 0, 0, 0, 0])], ControlLimits(acceleration=acceleration)
    controller = begun(slide, targets, [0.0, 0.0], limits=limits)
    result = last_of(controller, 4000, np.array([2.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0]))
    assert result.status.tolist() == [IKStatus.BLOCKED_BY_LIMITS]
    assert result.blocking() == {"x": LimitKind.POSITION}
    np.testing.assert_allclose(result.joint_q[0], [1.0, 0.5], atol=1e-6)
    assert (result.joint_q <= slide.joint_limit_upper).all()


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 5.0])
@pytest.mark.parametrize("kind", ["velocity", "joint_step"])
def test_a_body_that_turns_as_fast_as_it_may_is_said_to_be_held(free, kind, acceleration):
    limits = {"velocity": 0.5} if kind == "velocity" else {"velocity": 5.0, "joint_step": 5e-4}
    controller = begun(free, ["body"], free.mid_joint_q, limits=ControlLimits(acceleration=acceleration, **limits))
    turned = np.array([0.0, 0.0, 0.0, 0.0, 0.0, np.sin(0.1), np.cos(0.1)])
    statuses = []
    for tick in range(600):
        result = controller.step(turned)
        statuses.append(IKStatus(result.status[0]))
        if tick == 100:
            held = {name: value for name, value in result.blocking().items() if "w" in name}
            assert held == dict.fromkeys(("base/wx", "base/wy", "base/wz"), LimitKind[kind.upper()])
    assert set(statuses[:390]) == {IKStatus.BLOCKED_BY_LIMITS}
    assert statuses[-1] == IKStatus.CONVERGED
    assert result.blocking() == {}


@pytest.mark.evidence
@pytest.mark.parametrize("length", [0.0, 0.5, 1.01])
def test_a_turn_that_is_no_unit_quaternion_is_invalid(free, length):
    start = free.mid_joint_q * [*[1.0] * 3, *[length] * 4]
    result = begun(free, ["body"], free.mid_joint_q).step(pose_of(free, free.mid_joint_q, "body"), start)
    assert result.status.tolist() == [IKStatus.INVALID]
    np.testing.assert_array_equal(result.joint_q[0], free.mid_joint_q)


def test_a_robot_that_is_lost_in_motion_brakes(panda):
    """A reading that is no number: within the limits of acceleration, and speeds are those of the commands."""
    dt, most = 1e-3, 10.0
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(acceleration=most))
    far = pose_of(panda, HOME + 0.5, LINK)
    commands = [HOME]
    for tick in range(700):
        lost = 200 <= tick < 600
        result = controller.step(far, np.full(7, np.nan) if lost else None, dt)
        assert (result.status[0] == IKStatus.INVALID) == lost
        commands.append(result.joint_q[0].copy())
        np.testing.assert_allclose(result.joint_qd[0], (commands[-1] - commands[-2]) / dt, atol=1e-9)
        if tick == 199:
            assert np.abs(result.joint_qd).max() > 0.2
    speeds = np.diff(commands, axis=0) / dt
    assert np.abs(np.diff(speeds, axis=0)).max() <= most * dt + 1e-9
    assert (speeds[590:600] == 0.0).all()
    assert np.abs(speeds[-1]).max() > 0.1


@pytest.mark.evidence
def test_speeds_of_what_does_not_move_are_zero(dual, panda):
    result = begun(dual, [ARMS[1]], dual.mid_joint_q, 0.5).step(pose_of(dual, dual.mid_joint_q, ARMS[1]))
    np.testing.assert_array_equal(result.joint_qd[0, :7], 0.0)
    locked = panda.lock({"panda_joint3": 0.1})
    assert begun(locked, [LINK], HOME, 0.2).step(pose_of(locked, HOME, LINK)).joint_qd[0, 2] == 0.0


@pytest.mark.evidence
def test_followers_keep_their_margins_and_the_speed_of_their_leader():
    gripper = load_robot("panda_gripper")
    start, closed = np.array([*HOME, 0.03, 0.03]), np.array([*HOME, 0.0, 0.0])
    target = pose_of(gripper, start, LINK)
    limits = ControlLimits(position_margin={"panda_finger_joint2": 0.01})
    controller = begun(gripper, [LINK], start, posture=closed, posture_weight=0.1, limits=limits)
    result = last_of(controller, 600, target)
    np.testing.assert_allclose(result.joint_q[0, 7:], 0.01, atol=1e-12)
    for leader, follower in ((0.05, 0.05), (0.03, 0.028)):
        controller.reset(start)
        result = controller.step(target, np.array([*HOME, leader, follower]))
        assert result.joint_q[0, 8] == result.joint_q[0, 7] == pytest.approx(leader - 0.2e-3)
        np.testing.assert_allclose(result.joint_qd[0, 7:], -0.2)
    wide = ControlLimits(position_margin={"panda_finger_joint2": 0.021})
    with pytest.raises(InputError, match="leaves nothing of the range"):
        IKController(gripper, [LINK], limits=wide)


@pytest.mark.evidence
def test_rows_that_no_robot_has_are_left_out_however_weights_are_given(panda):
    target = pose_of(panda, HOME, LINK)
    target[3:] = [0.0, 0.0, 0.0, 1.0]
    for weights in ([1, 1, 1, 0, 0, 0], [[1, 1, 1, 0, 0, 0], [2, 2, 2, 0, 0, 0]]):
        result = begun(panda, [Target(LINK, row_weights=weights)], HOME, robots=2).step(target[None])
        assert result.success.all()
        assert np.isnan(result.orientation_error).all()
    with pytest.raises(InputError, match="0 for some robots only"):
        IKController(panda, [Target(LINK, row_weights=[[1, 1, 1, 0, 0, 0], [1] * 6])], robots=2)


@pytest.mark.evidence
def test_data_of_objectives_may_grow_to_a_line_for_every_robot_and_are_refused_with_too_few(panda):
    gazes = np.array([[0.6, 0.0, 0.0], [0.5, 0.3, 0.1], [0.5, -0.3, 0.2]])
    objective = IKObjectiveLookAt(LINK, gazes[0])
    controller = begun(panda, (), HOME, objectives=[objective], robots=3)
    objective.set_targets(gazes[:2])
    for _ in range(2):
        with pytest.raises(InputError, match="target_points"):
            controller.step()
    np.testing.assert_array_equal(controller._arrays.answers["joint_q_out"].host, np.tile(HOME, (3, 1)))
    objective.set_targets(gazes)
    together = last_of(controller, 20).joint_q.copy()
    for robot, gaze in enumerate(gazes):
        result = last_of(begun(panda, (), HOME, objectives=[IKObjectiveLookAt(LINK, gaze)]), 20)
        np.testing.assert_allclose(result.joint_q[0], together[robot], atol=1e-9)


def test_the_last_result_is_in_the_callers_order_after_warmup_and_reset(panda):
    controller = begun(panda, [LINK], HOME[::-1], joint_order=panda.joint_names[::-1])
    result = controller.step(pose_of(panda, HOME + 0.1, LINK))
    before = result.joint_q.copy()
    controller.warmup()
    np.testing.assert_array_equal(result.joint_q, before)
    controller.reset(HOME[::-1] + 0.01)
    np.testing.assert_array_equal(result.joint_q[0], HOME[::-1] + 0.01)

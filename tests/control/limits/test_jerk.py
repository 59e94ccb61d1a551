"""Jerk limits: all limits in every tick, no false success, and the way to rest."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController, LimitKind, SecondOrderFilter
from ik_service.errors import EngineError
from objectives import InputError
from tests.control.conftest import HOME, LINK, assert_within_limits, begun, distances, last_of, pose_of

DT = 0.002
ACCELERATION = 10.0  # [rad/s^2]
ROUNDING = 1e-8  # of jerks, relative: third differences of positions in float64
LIMITS = {"acceleration": ACCELERATION, "jerk": 200.0}


def jumps(robot, start, link, rng, ticks):
    """Targets that jump, some of them out of reach, and some that are no pose, [ticks, 7]."""
    home, poses = pose_of(robot, start, link), []
    while len(poses) < ticks:
        goal = home.copy()
        goal[:3] += rng.normal(0.0, 0.3, 3)
        poses += [goal if rng.random() < 0.99 else np.full(7, np.nan) for _ in range(rng.integers(1, 400))]
    return np.array(poses[:ticks])


def ride(robot, start, link, ticks, seed, **options):
    """Commands towards jumping targets, after the start."""
    controller = begun(robot, [link], start, **options)
    targets = jumps(robot, start, link, np.random.default_rng(seed), ticks)
    return np.array([start, *(controller.step(target, dt=DT).joint_q[0].copy() for target in targets)])


def check(robot, joint_q, dt, jerk):
    """Limits of all ticks, from rest at the first configuration; returns the largest jerk."""
    assert_within_limits(robot, joint_q[1:], joint_q[0], dt, ACCELERATION, ROUNDING)
    jerks = np.abs(np.diff(np.vstack([*[joint_q[:1]] * 2, joint_q]), n=3, axis=0)) / dt**3
    assert (jerks <= jerk * (1.0 + ROUNDING)).all()
    return jerks.max()


@pytest.mark.parametrize("options", [{}, {"posture": HOME}, {"scale_direction": True}], ids=str)
@pytest.mark.parametrize("jerk", [200.0, 2000.0])
def test_all_limits_hold_in_every_tick(panda, options, jerk):
    limits = ControlLimits(acceleration=ACCELERATION, jerk=jerk)
    assert check(panda, ride(panda, HOME, LINK, 4000, 4, limits=limits, **options), DT, jerk) > 0.9 * jerk


def test_joints_may_have_jerk_limits_of_their_own(panda):
    limits = ControlLimits(acceleration=ACCELERATION, jerk={"panda_joint2": 150.0})
    check(panda, ride(panda, HOME, LINK, 2000, 4, limits=limits), DT, 150.0)


def test_followers_keep_to_their_leaders():
    robot, link = load_robot("panda_gripper", collision="ignore"), "panda_leftfinger"
    found = ride(robot, robot.mid_joint_q, link, 1500, 1, limits=ControlLimits(**LIMITS))
    check(robot, found, DT, LIMITS["jerk"])
    np.testing.assert_allclose(found[-1], robot.complete_joint_q(found[-1])[0], atol=1e-15)
    assert np.ptp(found[:, -1]) > 1e-3


def test_success_means_that_the_command_is_there(panda):
    controller, status = begun(panda, [LINK], HOME, limits=ControlLimits(**LIMITS)), []
    goal = pose_of(panda, HOME, LINK, [0.05, 0.1, -0.05])
    for _ in range(1000):
        result = controller.step(goal, dt=DT)
        status.append(int(result.status[0]))
        distance = distances(panda, result.joint_q, goal[None])[0]
        np.testing.assert_allclose(result.position_error[0, 0], distance, atol=1e-12)
        assert not result.success[0] or distance <= 1e-4
        assert status[-1] in (IKStatus.CONVERGED, IKStatus.BLOCKED_BY_LIMITS)
    assert status[0] == IKStatus.BLOCKED_BY_LIMITS
    assert status[-1] == IKStatus.CONVERGED
    assert (result.joint_qd == 0.0).all() or np.abs(result.joint_qd).max() < 1e-9


def test_the_limit_that_holds_a_joint_is_named(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(**LIMITS))
    result = last_of(controller, 5, pose_of(panda, HOME, LINK, [0.0, 0.2, 0.0]), dt=DT)
    assert set(result.blocking().values()) <= {LimitKind.JERK, LimitKind.ACCELERATION}
    controller.reset(HOME)
    far = last_of(controller, 8000, pose_of(panda, HOME, LINK, [1.0, 0.0, 0.0]), dt=DT)
    assert far.status[0] == IKStatus.STALLED
    assert far.blocking() == {}


def test_a_start_at_speed_goes_on(panda):
    speed = np.array([0.3, -0.2, 0.1, 0.4, -0.3, 0.2, -0.1])
    controller = begun(panda, [LINK], HOME, speed, limits=ControlLimits(**LIMITS))
    found = [HOME - speed * DT * k for k in (3, 2, 1, 0)]
    found += [controller.step(pose_of(panda, HOME, LINK), dt=DT).joint_q[0].copy() for _ in range(1500)]
    jerks = np.diff(np.array(found), n=3, axis=0) / DT**3
    assert np.abs(jerks).max() <= LIMITS["jerk"] * (1.0 + ROUNDING)
    np.testing.assert_allclose(found[-1], HOME, atol=0.2)


def test_ticks_of_another_length_are_refused(panda):
    """Means over ticks of several lengths would break limits of acceleration many times over."""
    goal, answers = pose_of(panda, HOME, LINK, [0.2, 0.1, 0.0]), []
    for disturbs in (False, True):
        controller = begun(panda, [LINK], HOME, limits=ControlLimits(**LIMITS))
        found = [controller.step(goal, dt=DT).joint_q[0].copy() for _ in range(50)]
        for dt in (1.01 * DT, 0.5 * DT, 1.0) if disturbs else ():
            with pytest.raises(InputError, match=r"have one length, 0\.002 s"):
                controller.step(goal + 0.01, dt=dt)
        answers.append([*found, *(controller.step(dt=DT).joint_q[0].copy() for _ in range(50))])
    assert np.abs(np.subtract(answers[0][0], answers[0][-1])).max() > 0.1
    np.testing.assert_array_equal(*answers)


def test_a_long_mean_is_warmed_up_with_longer_ticks(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(acceleration=10.0, jerk=1.0))
    controller.warmup()
    found = [HOME, *(controller.step(pose_of(panda, HOME, LINK, 0.1), dt=0.1).joint_q[0].copy() for _ in range(600))]
    assert check(panda, np.array(found), 0.1, 1.0) > 0.1


def test_robots_are_smoothed_one_by_one(dual):
    links, starts = ("left_panda_hand", "right_panda_hand"), np.tile(dual.mid_joint_q, (3, 1))
    rng, options = np.random.default_rng(0), {"limits": ControlLimits(**LIMITS), "target_filter": SecondOrderFilter()}
    homes = np.stack([pose_of(dual, starts[:1], link) for link in links])
    together, alone = begun(dual, links, starts, robots=3, **options), begun(dual, links, starts[:1], **options)
    found = [starts[0]]
    for _ in range(20):
        goals = np.tile(homes, (3, 1, 1))
        goals[..., :3] += rng.normal(0.0, 0.1, (3, 2, 3))
        for _ in range(20):
            answers = together.step(goals, dt=DT), alone.step(goals[2:], dt=DT)
            np.testing.assert_array_equal(answers[0].joint_q[2:], answers[1].joint_q)
            found.append(answers[1].joint_q[0].copy())
    assert check(dual, np.array(found), DT, LIMITS["jerk"]) > 0.5 * LIMITS["jerk"]


def test_a_reset_forgets(panda):
    goal, controller = (
        pose_of(panda, HOME, LINK, [0.0, 0.1, 0.0]),
        begun(panda, [LINK], HOME, limits=ControlLimits(**LIMITS)),
    )
    answers = []
    for dt in (DT, 2.0 * DT, DT):
        controller.reset(HOME)
        answers.append([controller.step(goal, dt=dt).joint_q.copy() for _ in range(40)])
    np.testing.assert_array_equal(answers[0], answers[2])
    assert np.abs(np.subtract(answers[0], answers[1])).max() > 1e-6


def test_ticks_start_from_commands(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(**LIMITS))
    for given in ({"joint_q": HOME}, {"joint_qd": np.zeros(7)}):
        with pytest.raises(InputError, match="Call reset to start elsewhere"):
            controller.step(pose_of(panda, HOME, LINK), dt=DT, **given)
    lost = IKController(panda, [LINK], limits=ControlLimits(**LIMITS))
    for dt in (DT, 2.0 * DT):
        with pytest.raises(InputError, match="does not know where"):
            lost.step(pose_of(panda, HOME, LINK), dt=dt)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"jerk": 100.0}, "acceleration limit"),
        ({"jerk": 0.0, "acceleration": 10.0}, "above 0"),
        ({"jerk": -1.0, "acceleration": 10.0}, "0 and above"),
        ({"jerk": 100.0, "acceleration": 10.0, "clearance": 0.01}, "beside clearance"),
    ],
)
def test_jerk_limits_are_checked(panda, limits, message):
    with pytest.raises(InputError, match=message):
        IKController(panda, [LINK], limits=ControlLimits(**limits))


def test_too_long_a_mean_is_refused_before_anything_changes(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(acceleration=10.0, jerk=1.0))
    with pytest.raises(InputError, match="needs 20000 ticks"):
        controller.step(pose_of(panda, HOME, LINK), dt=0.001)
    assert controller.step(pose_of(panda, HOME, LINK), dt=0.1).success[0]


def test_floating_robots_and_exports_are_refused(panda):
    with pytest.raises(InputError, match="ball and floating"):
        IKController(load_robot("humanoid"), ["left_foot"], limits=ControlLimits(acceleration=10.0, jerk=100.0))
    with pytest.raises(EngineError, match="jerk limits are not exported"):
        begun(panda, [LINK], HOME, limits=ControlLimits(**LIMITS)).recorded()

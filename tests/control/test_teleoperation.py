"""Targets led by a hand device or by a twist, and an arm that is led out of its reach and back."""

import numpy as np
import pytest

from ik_service import IKStatus
from ik_service.control import ControlLimits, LimitKind, OneEuroFilter, SecondOrderFilter, TeleopTarget
from ik_service.mechanism.transforms import (
    quaternion_conjugate,
    quaternion_exp,
    quaternion_multiply,
    quaternion_rotate,
    rotation_vector,
)
from objectives import InputError
from tests.control.conftest import HOME, LINK, assert_within_limits, begun, distances, pose_of

DT = 0.002
ACCELERATION = 10.0  # [rad/s^2]
START = np.array([0.4, 0.1, 0.5, 0.0, 0.6, 0.0, 0.8])
ROUNDING = 1e-9  # of speeds and accelerations from differences of positions in float64


def hand(rng, ticks):
    """A smooth way of a hand device with turns, [ticks, 7]."""
    times = np.linspace(0.0, 1.5, ticks)[:, None]
    place = rng.normal(0.0, 0.2, 3) * np.sin(times * rng.uniform(0.5, 2.0, 3)) + rng.normal(0.0, 1.0, 3)
    first = rng.normal(size=4)
    turned = quaternion_exp(rng.normal(0.0, 0.8, 3) * np.sin(times))
    return np.hstack([place, quaternion_multiply(turned, first / np.linalg.norm(first))])


def test_a_released_clutch_holds_the_target_and_engaging_again_makes_no_jump():
    rng, target = np.random.default_rng(0), TeleopTarget(START)
    device = np.vstack([hand(rng, 300), hand(rng, 300), hand(rng, 300)])  # with two jumps of the hand
    engaged = np.ones(900, dtype=bool)
    engaged[280:320] = engaged[595:640] = False
    poses = np.array([target.follow(*given).copy() for given in zip(device, engaged, strict=True)])
    np.testing.assert_array_equal(poses[0], START)
    np.testing.assert_array_equal(poses[280:321], np.tile(poses[279], (41, 1)))
    assert np.linalg.norm(np.diff(poses[:, :3], axis=0), axis=1).max() < 0.005
    for first, last in ((0, 279), (320, 594), (640, 899)):  # the motion since the clutch was engaged
        np.testing.assert_allclose(poses[last, :3] - poses[first, :3], device[last, :3] - device[first, :3], atol=1e-12)
        turn = quaternion_multiply(device[last, 3:], quaternion_conjugate(device[first, 3:]))
        gap = quaternion_multiply(quaternion_conjugate(quaternion_multiply(turn, poses[first, 3:])), poses[last, 3:])
        assert np.linalg.norm(rotation_vector(gap)) < 1e-12
        assert np.linalg.norm(rotation_vector(turn)) > 0.1


def test_scale_changes_distances_without_a_jump():
    target, device = TeleopTarget(START, scale=0.5), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for k in range(11):
        device[0] = 0.01 * k
        target.follow(device)
    np.testing.assert_allclose(target.pose[:3] - START[:3], [0.05, 0.0, 0.0], atol=1e-15)
    target.scale = 3.0
    before = target.pose.copy()
    np.testing.assert_array_equal(target.follow(device), before)
    device[1] = 0.01
    np.testing.assert_allclose(target.follow(device)[:3] - before[:3], [0.0, 0.03, 0.0], atol=1e-15)
    target.scale = np.nan
    before = target.pose.copy()
    device[1] = 0.02
    np.testing.assert_array_equal(target.follow(device), before)
    assert not target.engaged


@pytest.mark.parametrize(("place", "bad"), [(1, np.nan), (1, -np.inf), (5, np.inf), (5, np.nan), (5, 2.0), (0, 1e300)])
def test_bad_numbers_of_the_device_release_the_clutch(place, bad):
    target, device = TeleopTarget(START), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    target.follow(device)
    lost = device.copy()
    lost[place] = bad
    np.testing.assert_array_equal(target.follow(lost), START)
    assert not target.engaged
    device[:3] = 7.0  # where tracking finds the hand again
    np.testing.assert_array_equal(target.follow(device), START)
    assert target.engaged
    device[2] += 0.25
    np.testing.assert_allclose(target.follow(device)[:3] - START[:3], [0.0, 0.0, 0.25], atol=1e-15)


def test_a_twist_in_the_tools_frame_is_a_screw():
    """By the exponential of the twist: a constant twist of the body for a second, in small ticks."""
    target, twist, ticks = TeleopTarget(START), np.array([0.1, -0.2, 0.05, 0.3, 0.5, -0.4]), 20_000
    for _ in range(ticks):
        target.move(twist, 1.0 / ticks, in_tool_frame=True)
    v, w = twist[:3], twist[3:]
    angle = np.linalg.norm(w)
    along = (1.0 - np.cos(angle)) / angle**2 * np.cross(w, v)
    along = v + along + (angle - np.sin(angle)) / angle**3 * np.cross(w, np.cross(w, v))
    np.testing.assert_allclose(target.pose[:3], START[:3] + quaternion_rotate(START[3:], along), atol=1e-4)
    np.testing.assert_allclose(target.pose[3:], quaternion_multiply(START[3:], quaternion_exp(w)), atol=1e-10)


def test_a_twist_in_the_world_moves_and_turns_about_the_tool():
    target, twist = TeleopTarget(START), np.array([0.1, -0.2, 0.05, 0.3, 0.5, -0.4])
    for _ in range(1000):
        target.move(twist, 0.001)
    np.testing.assert_allclose(target.pose[:3], START[:3] + twist[:3], atol=1e-12)
    np.testing.assert_allclose(target.pose[3:], quaternion_multiply(quaternion_exp(twist[3:]), START[3:]), atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_target_stays_where_a_twist_has_bad_numbers(bad):
    target = TeleopTarget(START)
    for place in range(6):
        twist = np.zeros(6)
        twist[place] = bad
        np.testing.assert_array_equal(target.move(twist, DT, in_tool_frame=place % 2 == 0), START)
    assert target.move([0.5, *[0.0] * 5], DT)[0] > START[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TeleopTarget([0.0] * 7),
        lambda: TeleopTarget(START[:3]),
        lambda: TeleopTarget(START, scale="fast"),
        lambda: TeleopTarget(START, scale=np.nan),
        lambda: TeleopTarget(START).follow(START[:3]),
        lambda: TeleopTarget(START).move(START, DT),
        lambda: TeleopTarget(START).move(START[:6], 0.0),
    ],
)
def test_wrong_shapes_and_times_are_refused(make):
    with pytest.raises(InputError):
        make()


def reversals(accelerations):
    """How often the acceleration of each joint changes its sign; below a quarter of the limit counts as none."""
    counts = []
    for line in accelerations.T:
        signs = np.sign(line[np.abs(line) > 0.25 * ACCELERATION])
        counts.append(int((np.diff(signs) != 0).sum()))
    return np.array(counts)


@pytest.mark.parametrize("of", [None, OneEuroFilter(1.0, 10.0), SecondOrderFilter(25.0)], ids=str)
@pytest.mark.parametrize("way", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], ids=str)
def test_an_arm_led_a_metre_out_of_reach_comes_back_smoothly(panda, of, way):
    """Out in 2.5 s, a second of rest, and back, then three seconds of rest."""
    limits = ControlLimits(acceleration=ACCELERATION)
    options = {"target_filter": of, "limits": limits, "posture": HOME, "posture_weight": 1e-2}
    controller, target = begun(panda, [LINK], HOME, **options), TeleopTarget(pose_of(panda, HOME, LINK))
    home, joint_q, joint_qd, status, ticks = target.pose.copy(), [HOME], [np.zeros(7)], [], 4500
    for k in range(ticks):
        s = np.clip([k * DT / 2.5, k * DT / 2.5 - 1.4], 0.0, 1.0)
        speed = (30.0 * s**2 * (1.0 - s) ** 2 / 2.5) @ [1.0, -1.0]
        result = controller.step(target.move([*(speed * np.array(way)), 0.0, 0.0, 0.0], DT), dt=DT)
        joint_q.append(result.joint_q[0].copy())
        joint_qd.append(result.joint_qd[0].copy())
        status.append(int(result.status[0]))
        kinds = set(result.blocking().values())
        assert status[-1] != IKStatus.STALLED or kinds == set()
        assert status[-1] in (IKStatus.CONVERGED, IKStatus.STALLED, IKStatus.BLOCKED_BY_LIMITS)
        assert kinds <= {LimitKind.POSITION, LimitKind.BRAKING, LimitKind.VELOCITY, LimitKind.ACCELERATION}
    joint_q, joint_qd = np.array(joint_q), np.array(joint_qd)
    speeds = np.diff(joint_q, axis=0) / DT
    accelerations = np.diff(speeds, axis=0, prepend=np.zeros((1, 7))) / DT
    np.testing.assert_allclose(joint_qd[1:], speeds, atol=ROUNDING)
    assert_within_limits(panda, joint_q[1:], HOME, DT, ACCELERATION, ROUNDING)
    assert distances(panda, joint_q[1500][None], home[None] + [*way, 0, 0, 0, 0])[0] > 0.2  # it was out of reach
    assert status[-1] == IKStatus.CONVERGED
    assert distances(panda, joint_q[-1][None], home[None])[0] <= 1e-4
    assert reversals(accelerations).max() < 50  # in 4500 ticks; chatter changes the sign every few ticks
    assert IKStatus.BLOCKED_BY_LIMITS in status[:1000]

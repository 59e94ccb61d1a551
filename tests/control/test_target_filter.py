"""Filters of targets, and limits of their motion: by formulas, in every tick, and never a false success."""

import time

import numpy as np
import pytest

from ik_service import IKStatus, Target
from ik_service.control import ControlLimits, IKController, OneEuroFilter, SecondOrderFilter
from ik_service.errors import EngineError
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_exp, quaternion_multiply, rotation_vector
from objectives import IKObjectivePosture, InputError
from tests.control.conftest import ARMS, HOME, LINK, begun, distances, last_of, pose_of

FILTERS = {"one euro": OneEuroFilter(1.5, 4.0, 2.0), "second order": SecondOrderFilter(20.0, 0.8)}
TIP = {"linear_speed": 0.3, "angular_speed": 0.8, "linear_acceleration": 2.0, "angular_acceleration": 6.0}
AXIS = np.array([0.6, 0.0, 0.8])
ROUNDING = 1e-9  # of speeds and accelerations from differences of poses in float64


def moved(pose, shift=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)):
    """A pose shifted [m] and turned by a rotation vector [rad] in the world."""
    turned = quaternion_multiply(quaternion_exp(np.asarray(turn, dtype=np.float64)), pose[3:])
    return np.concatenate([pose[:3] + shift, turned])


def turns(poses):
    """Rotation vectors from each pose to the next [rad], [poses - 1, 3]."""
    return rotation_vector(quaternion_multiply(poses[1:, 3:], quaternion_conjugate(poses[:-1, 3:])))


def commanded(controller, targets, dt, start=HOME):
    """The start of the targets, then the commanded target of every tick, [ticks + 1, 7]."""
    controller.reset(start)
    found = [pose_of(controller.robot, start, LINK)]
    for target, step in zip(targets, np.broadcast_to(dt, len(targets)), strict=True):
        controller.step(target, dt=float(step))
        found.append(controller.commanded_targets[0, 0].copy())
    return np.array(found)


def one_euro(values, dt, min_cutoff, beta, derivative_cutoff):
    """The filter of Casiez 2012 on one number."""

    def share(cutoff):
        return 1.0 / (1.0 + 1.0 / (2.0 * np.pi * cutoff * dt))

    speed, at, before, found = 0.0, 0.0, 0.0, []
    for value in values:
        speed += share(derivative_cutoff) * ((value - before) / dt - speed)
        at += share(min_cutoff + beta * abs(speed)) * (value - at)
        before = value
        found.append(at)
    return np.array(found)


def second_order(times, frequency, ratio):
    """The answer of an underdamped second-order system to a unit step."""
    damped = frequency * np.sqrt(1.0 - ratio**2)
    sine = ratio / np.sqrt(1.0 - ratio**2) * np.sin(damped * times)
    return 1.0 - np.exp(-ratio * frequency * times) * (np.cos(damped * times) + sine)


@pytest.mark.parametrize("part", ["position", "orientation"])
def test_a_one_euro_filter_is_that_of_the_paper(panda, part):
    rng, dt = np.random.default_rng(3), 0.002
    values = 0.2 * np.sin(np.linspace(0.0, 6.0, 400)) + rng.normal(0.0, 0.002, 400)
    home, of = pose_of(panda, HOME, LINK), FILTERS["one euro"]
    controller = IKController(panda, [LINK], target_filter=of)
    targets = [moved(home, value * AXIS) if part == "position" else moved(home, turn=value * AXIS) for value in values]
    found = commanded(controller, targets, dt)
    along = found[1:, :3] - home[:3]
    if part == "orientation":
        along = rotation_vector(quaternion_multiply(found[1:, 3:], quaternion_conjugate(home[3:])))
    expected = one_euro(values, dt, of.min_cutoff, of.beta, of.derivative_cutoff)
    np.testing.assert_allclose(along @ AXIS, expected, atol=1e-12)
    np.testing.assert_allclose(along - np.outer(along @ AXIS, AXIS), 0.0, atol=1e-12)


def test_a_second_order_filter_is_exact_in_ticks_of_any_length(panda):
    of, home = FILTERS["second order"], pose_of(panda, HOME, LINK)
    dt = np.random.default_rng(0).uniform(1e-4, 0.05, 60)
    controller = IKController(panda, [LINK], target_filter=of)
    found = commanded(controller, [moved(home, 0.1 * AXIS, 0.3 * AXIS)] * len(dt), dt)
    expected = second_order(np.cumsum(dt), of.natural_frequency, of.damping_ratio)
    np.testing.assert_allclose((found[1:, :3] - home[:3]) @ AXIS, 0.1 * expected, atol=1e-12)
    turned = rotation_vector(quaternion_multiply(found[1:, 3:], quaternion_conjugate(home[3:])))
    np.testing.assert_allclose(turned @ AXIS, 0.3 * expected, atol=1e-12)


def test_a_critically_damped_filter_comes_without_overshoot_at_any_tick(panda):
    home = pose_of(panda, HOME, LINK)
    for dt in (1e-4, 0.01, 1.0, 100.0):
        controller = IKController(panda, [LINK], target_filter=SecondOrderFilter(25.0))
        way = (commanded(controller, [moved(home, 0.1 * AXIS)] * 300, dt)[:, :3] - home[:3]) @ AXIS
        assert (np.diff(way) >= 0.0).all()
        assert way.max() <= 0.1 + 1e-15


@pytest.mark.parametrize("name", FILTERS)
def test_targets_stay_between_updates(panda, name):
    """Targets at 60 Hz, ticks at 500 Hz: a target that is not sent again is the same as one that is."""
    rng, home = np.random.default_rng(1), pose_of(panda, HOME, LINK)
    sent = [moved(home, rng.normal(0.0, 0.02, 3), rng.normal(0.0, 0.05, 3)) for _ in range(40)]
    answers = []
    for repeats in (False, True):
        controller = begun(panda, [LINK], HOME, target_filter=FILTERS[name])
        ticks = range(8 * len(sent))
        answers.append(
            [controller.step(sent[k // 8] if repeats or k % 8 == 0 else None, dt=0.002).joint_q.copy() for k in ticks]
        )
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("limits", [{}, TIP], ids=["filter", "limits"])
@pytest.mark.parametrize("bad", [[np.nan] * 7, [0.3, 0.0, 0.5, 0.0, 0.0, 0.0, 2.0], [np.inf, *[0.0] * 5, 1.0]])
def test_bad_numbers_are_invalid_and_leave_no_trace(panda, bad, limits):
    home = pose_of(panda, HOME, LINK)
    controller = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter(), limits=ControlLimits(**limits))
    goal = moved(home, [0.0, 0.1, 0.05], [0.0, 0.0, 0.2])
    status = [int(controller.step(bad if 20 <= k < 23 else goal).status[0]) for k in range(3000)]
    assert {k for k, one in enumerate(status) if one == IKStatus.INVALID} == {20, 21, 22}
    assert status[-1] == IKStatus.CONVERGED
    np.testing.assert_allclose(controller.commanded_targets[0, 0], goal, atol=1e-9)


def test_targets_without_any_pose_are_invalid(panda):
    controller, home = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter()), pose_of(panda, HOME, LINK)
    for _ in range(100):
        assert controller.step().status[0] == IKStatus.INVALID
    assert controller.step(home).success[0]  # the target has not moved meanwhile
    np.testing.assert_allclose(controller.commanded_targets[0, 0], home, atol=1e-15)


@pytest.mark.parametrize("name", [None, *FILTERS])
def test_commanded_targets_keep_their_limits_in_every_tick(panda, name):
    rng, dt, home = np.random.default_rng(7), 0.002, pose_of(panda, HOME, LINK)
    limits, targets = ControlLimits(**TIP), []
    for _ in range(60):
        goal = moved(home, rng.normal(0.0, 0.2, 3), rng.normal(0.0, 1.5, 3))
        targets += [goal if rng.random() < 0.97 else np.full(7, np.nan) for _ in range(rng.integers(1, 150))]
    controller = IKController(panda, [LINK], limits=limits, target_filter=FILTERS.get(name))
    poses = commanded(controller, targets, dt)
    poses = poses[np.isfinite(poses).all(axis=1)]  # without the ticks of bad numbers
    assert len(poses) > 3000
    with_gaps = commanded(controller, [target for target in targets if np.isfinite(target).all()], dt)
    for kind, steps in (("linear", np.diff(with_gaps[:, :3], axis=0)), ("angular", turns(with_gaps))):
        speeds = np.vstack([np.zeros(3), steps / dt])
        fastest = np.linalg.norm(speeds, axis=1).max()
        hardest = np.linalg.norm(np.diff(speeds, axis=0), axis=1).max() / dt
        assert 0.9 * TIP[f"{kind}_speed"] < fastest <= TIP[f"{kind}_speed"] * (1.0 + ROUNDING)
        assert 0.9 * TIP[f"{kind}_acceleration"] < hardest <= TIP[f"{kind}_acceleration"] * (1.0 + ROUNDING) + 1e-9 / dt
    np.testing.assert_array_less(np.linalg.norm(np.diff(poses[:, :3], axis=0), axis=1), 4.1 * dt * TIP["linear_speed"])


def test_a_limited_target_stops_at_the_goal_without_overshoot(panda):
    home = pose_of(panda, HOME, LINK)
    goal = moved(home, 0.15 * AXIS, 0.5 * AXIS)
    controller = IKController(panda, [LINK], limits=ControlLimits(**TIP))
    poses = commanded(controller, [goal] * 1000, 0.002)
    way = (poses[:, :3] - home[:3]) @ AXIS
    assert (np.diff(way) >= -1e-15).all()
    np.testing.assert_allclose(poses[-1], goal, atol=1e-15)
    trapezoid = 0.15 / TIP["linear_speed"] + TIP["linear_speed"] / TIP["linear_acceleration"]  # [s]
    arrived = np.flatnonzero(way >= 0.15 - 1e-12)[0] * 0.002
    assert trapezoid - 0.002 <= arrived <= trapezoid + 0.01


@pytest.mark.parametrize("options", [{"target_filter": FILTERS["one euro"]}, {"limits": ControlLimits(**TIP)}], ids=str)
def test_success_means_that_the_given_target_is_met(panda, options):
    rng, home = np.random.default_rng(5), pose_of(panda, HOME, LINK)
    controller, ticks = begun(panda, [LINK], HOME, **options), []
    goals = [moved(home, rng.normal(0.0, 0.05, 3), rng.normal(0.0, 0.1, 3)) for _ in range(8)]
    for goal in np.repeat(goals, 600, axis=0):
        result = controller.step(goal, dt=0.004)
        ticks.append((*result.joint_q[0], result.position_error[0, 0], result.success[0], result.status[0]))
    *joint_q, error, success, status = np.array(ticks).T
    distance = distances(panda, np.array(joint_q).T, np.repeat(goals, 600, axis=0))
    np.testing.assert_allclose(error, distance, atol=1e-12)
    assert (distance[success == 1.0] <= 1e-4).all()
    assert success.sum() > 1000
    assert {int(IKStatus.CONVERGED), int(IKStatus.BLOCKED_BY_LIMITS)} == set(status.astype(int))


@pytest.mark.parametrize(
    "options", [{"target_filter": FILTERS["second order"]}, {"limits": ControlLimits(**TIP)}], ids=str
)
def test_a_target_out_of_reach_is_said_once_it_is_commanded(panda, options):
    far = moved(pose_of(panda, HOME, LINK), [1.0, 0.0, 0.0])
    controller = begun(panda, [LINK], HOME, **options)
    status = [int(controller.step(far, dt=0.01).status[0]) for _ in range(1500)]
    assert IKStatus.CONVERGED not in status
    assert status[-1] == IKStatus.STALLED


def test_robots_and_targets_are_filtered_one_by_one(dual):
    """Three robots with two targets each; one of them is sent bad numbers, which the others do not notice."""
    rng, start = np.random.default_rng(2), np.tile(dual.mid_joint_q, (3, 1))
    options = {"target_filter": FILTERS["second order"], "limits": ControlLimits(linear_speed=0.2)}
    homes = np.stack([pose_of(dual, start[:1], arm) for arm in ARMS])
    sent = np.tile(homes, (200, 3, 1, 1))
    sent[..., :3] += rng.normal(0.0, 0.05, (4, 3, 2, 3)).repeat(50, axis=0)
    together, alone = begun(dual, ARMS, start, robots=3, **options), begun(dual, ARMS, start[:1], **options)
    for k, poses in enumerate(sent):
        given = poses.copy()
        given[1, 0, 0] = np.nan if k == 70 else given[1, 0, 0]
        answers = together.step(given, dt=0.002), alone.step(poses[2:], dt=0.002)
        np.testing.assert_array_equal(answers[0].joint_q[2:], answers[1].joint_q)
        np.testing.assert_array_equal(together.commanded_targets[2:], alone.commanded_targets)
        assert (answers[0].status == IKStatus.INVALID).tolist() == [False, k == 70, False]


@pytest.mark.parametrize("kind", ["deadline", "clearance", "scaled"])
def test_every_kind_of_tick_filters_once(panda, kind):
    """Ticks with a deadline launch their islands several times, ticks with clearance twice."""
    goal, found = moved(pose_of(panda, HOME, LINK), [0.1, 0.1, 0.0], [0.0, 0.2, 0.1]), []
    for of in ("plain", kind):
        limits = ControlLimits(acceleration=10.0, clearance=0.01 if of == "clearance" else None, **TIP)
        options = {"limits": limits, "target_filter": FILTERS["second order"], "scale_direction": of == "scaled"}
        controller, poses = begun(panda, [LINK], HOME, **options), []
        for _ in range(200):
            deadline = time.monotonic_ns() + 10**9 if of == "deadline" else None
            controller.step(goal, dt=0.002, deadline_ns=deadline)
            poses.append(controller.commanded_targets.copy())
        found.append(np.array(poses))
    assert np.ptp(found[0][:, 0, 0, 0]) > 0.05
    np.testing.assert_array_equal(*found)


def test_filters_need_no_targets(panda):
    """Objectives alone are followed as without a filter."""
    answers = []
    for of in (None, SecondOrderFilter()):
        task = IKObjectivePosture(HOME + 0.1)
        controller = begun(panda, [], HOME, objectives=[task], target_filter=of)
        answers.append(last_of(controller, 50).joint_q.copy())
    assert np.abs(answers[0] - HOME).max() > 0.01
    np.testing.assert_array_equal(*answers)


def test_targets_begin_where_the_tool_is(panda):
    offset, reference = [0.0, 0.02, 0.1, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)], "panda_link4"
    target = Target(LINK, offset=offset, reference_link=reference)
    slow = ControlLimits(linear_speed=1e-9, angular_speed=1e-9)
    controller = begun(panda, [target], HOME, limits=slow)
    controller.step([0.3, 0.2, 0.1, 0.0, 0.0, 0.0, 1.0])
    plain = begun(panda, [target], HOME)
    result = plain.step(controller.commanded_targets[0, 0])
    assert result.success[0]
    np.testing.assert_allclose(result.joint_q[0], HOME, atol=1e-6)


def test_quaternions_may_come_w_first(panda):
    goal = moved(pose_of(panda, HOME, LINK), [0.0, 0.1, 0.0], [0.1, 0.2, 0.3])
    plain = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter())
    turned = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter(), wxyz=True)
    for _ in range(50):
        answers = plain.step(goal), turned.step(goal[[0, 1, 2, 6, 3, 4, 5]])
    np.testing.assert_array_equal(answers[0].joint_q, answers[1].joint_q)


def test_warming_up_and_derivatives_leave_filters_as_they_are(panda):
    goal, answers = moved(pose_of(panda, HOME, LINK), [0.0, 0.1, 0.0]), []
    for disturbs in (False, True):
        controller = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter())
        for k in range(40):
            if disturbs and k == 20:
                controller.warmup()
                controller.linearise(goal, HOME)
            controller.step(goal)
        answers.append(controller.commanded_targets.copy())
    np.testing.assert_array_equal(*answers)


def test_a_tick_is_differentiated_with_its_filter(panda):
    goal, step, dt = moved(pose_of(panda, HOME, LINK), [0.0, 0.01, 0.0]), 1e-5, 0.02
    controller = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter())
    found = controller.linearise(goal, HOME, dt)
    ends = []
    for sign in (-1.0, 1.0):
        controller.reset(HOME)
        ends.append(controller.step(moved(goal, [0.0, sign * step, 0.0]), dt=dt).joint_q[0].copy())
    by_y = (ends[1] - ends[0]) / (2.0 * step)
    assert np.abs(by_y).max() > 0.01
    np.testing.assert_allclose(np.asarray(found.joint_q_by_targets)[0, :, 0, 1], by_y, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_filter": 3.0}, "target_filter is 3.0"),
        ({"target_filter": OneEuroFilter(min_cutoff=0.0)}, "out of range"),
        ({"target_filter": OneEuroFilter(beta=-1.0)}, "out of range"),
        ({"target_filter": OneEuroFilter(derivative_cutoff=np.nan)}, "out of range"),
        ({"target_filter": SecondOrderFilter(np.inf)}, "out of range"),
        ({"target_filter": SecondOrderFilter(1e200)}, "out of range"),
        ({"target_filter": SecondOrderFilter("20")}, "out of range"),
        ({"target_filter": OneEuroFilter(1e308)}, "out of range"),
        ({"target_filter": SecondOrderFilter(20.0, 1.5)}, "damping_ratio up to 1"),
        ({"limits": ControlLimits(linear_speed=0.0)}, "linear_speed"),
        ({"limits": ControlLimits(angular_speed=np.ones(7))}, "one number from 1e-09"),
        ({"limits": ControlLimits(angular_acceleration=np.nan)}, "angular_acceleration"),
        ({"limits": ControlLimits(linear_acceleration=1e-320)}, "linear_acceleration"),
    ],
)
def test_filters_and_limits_are_checked(panda, options, message):
    with pytest.raises(InputError, match=message):
        IKController(panda, [LINK], **options)


def test_filtered_controllers_are_not_exported(panda):
    controller = begun(panda, [LINK], HOME, target_filter=SecondOrderFilter())
    with pytest.raises(EngineError, match="filter targets in your program"):
        controller.recorded()

"""Robots that close loops, tick by tick: closed within all limits before anything else, or said to be open."""

import numpy as np
import pytest

import ik_service
from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import CoordinateConstraint, LoopConstraint
from ik_service.robots.readers.catalog import load_urdf
from objectives import IKObjectivePosture, InputError
from tests.constraints import rounded
from tests.constraints.mechanisms import closed_four_bar
from tests.control.conftest import HOME, assert_within_limits, begun, distances, follow, pose_of, poses_of
from tests.solver.test_loops import COUPLER, FOUR_BAR, HELD, LEFT, RIGHT, ROCKER, four_bar, gaps

CLOSED, ACCELERATION = 2e-9, 15.0  # [m and rad] of a row, which a tick brings below 1e-9; [rad/s^2]
ACCELERATIONS = {"acceleration": ACCELERATION}  # for limits of acceleration
LIMITS = {
    "speed": {},
    "acceleration": {"limits": ControlLimits(acceleration=ACCELERATION)},
    "whole step": {"scale_direction": True},
}
NEAR = np.array([-0.2483, -0.3281, 0.1092, -2.1921, -1.5796, 1.7196, -0.0944])
NEAR = np.concatenate([NEAR, [0.2485, -0.3281, -0.1093, -2.1921, 1.5796, 1.7197, 1.6652]])


def held_object():
    """Two arms that hold one object, and where they do."""
    robot = load_robot("dual_panda").with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    found = robot.constraints.close(NEAR)
    assert found.closed[0]
    return robot, found.joint_q[0]


@pytest.fixture(scope="module")
def holding():
    return held_object()


def smooth(ticks):
    """Numbers from 0 to 1, from rest to rest [ticks]."""
    s = np.linspace(0.0, 1.0, ticks)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def circle(robot, start, ticks, radius=0.05):
    """Poses of the left hand on a circle, from rest to rest."""
    turn = 2.0 * np.pi * smooth(ticks)
    poses = np.tile(pose_of(robot, start, LEFT), (ticks, 1))
    poses[:, 0] += radius * (np.cos(turn) - 1.0)
    poses[:, 2] += radius * np.sin(turn)
    return poses


@pytest.mark.parametrize("limits", LIMITS)
def test_an_object_stays_held_along_a_circle(holding, limits):
    robot, start = holding
    poses = circle(robot, start, 1500)
    run = follow(IKController(robot, [LEFT], **LIMITS[limits]), start, poses)
    assert gaps(robot, run.joint_q).max() <= CLOSED
    assert (run.status == IKStatus.CONVERGED).all()
    assert 1e-9 < distances(robot, run.joint_q, poses, LEFT).max() < 3e-5
    assert_within_limits(robot, run.joint_q, start, 1e-3, ACCELERATIONS.get(limits))
    moved = np.abs(run.joint_q - start).max(axis=0)
    assert (moved[:7].max() > 0.05) & (moved[7:].max() > 0.05)  # both arms


@pytest.mark.parametrize("limits", LIMITS)
def test_a_target_that_jumps_is_reached_with_the_loop_closed(holding, limits):
    robot, start = holding
    far = pose_of(robot, start, LEFT, [-0.1, 0.15, 0.1])
    run = follow(IKController(robot, [LEFT], **LIMITS[limits]), start, np.tile(far, (1500, 1)))
    assert gaps(robot, run.joint_q).max() <= CLOSED
    assert (run.status[-1], run.status[0]) == (IKStatus.CONVERGED, IKStatus.BLOCKED_BY_LIMITS)
    assert_within_limits(robot, run.joint_q, start, 1e-3, ACCELERATIONS.get(limits))
    assert (np.abs(run.speeds(start, 1e-3)) / robot.joint_velocity_limit).max() > 0.3


def test_a_tick_gains_as_much_as_any_could(holding):
    """Far from its target, in a space of 14 speeds of which 8 keep the object held and many are at their limits."""
    robot, start = holding
    far, before, controller = pose_of(robot, start, LEFT, [-0.2, 0.3, 0.1]), start, begun(robot, [LEFT], start)
    for tick in range(100):
        command = controller.step(far).joint_q[0].copy()
        if tick % 20 == 0:
            rows = target_rows(robot, before, far)
            gained = np.linalg.norm(rows) - np.linalg.norm(target_rows(robot, command, far))
            best = best_gain(robot, before, far)
            assert best > 1e-3  # of |r|, in a tick
            assert gained > 0.95 * best
        before = command


def target_rows(robot, joint_q, pose):
    """The rows of a target of the left hand [6], as the controller weighs them."""
    hand = pose_of(robot, joint_q, LEFT)
    turn = transform_multiply(hand[None], transform_inverse(pose[None]))[0, 3:]
    return np.concatenate([hand[:3] - pose[:3], 0.8 * np.sign(turn[3]) * turn[:3]])


def loop_rows(robot, joint_q):
    left, right = poses_of(robot, joint_q, (LEFT, RIGHT))[:, None]
    seen = transform_multiply(transform_inverse(transform_multiply(left, np.array([HELD]))), right)[0]
    return np.concatenate([seen[:3], 2.0 * np.sign(seen[6]) * seen[3:6]])


def differences(function, joint_q, step=1e-6):
    steps = step * np.eye(len(joint_q))
    return np.column_stack([(function(joint_q + one) - function(joint_q - one)) / (2.0 * step) for one in steps])


def best_gain(robot, joint_q, pose):
    """How much of |r| the best move gains within limits of speed that keeps the object held: by ADMM."""
    rows, count = target_rows(robot, joint_q, pose), len(joint_q)
    of_target = differences(lambda q: target_rows(robot, q, pose), joint_q)
    of_loop = differences(lambda q: loop_rows(robot, q), joint_q)
    most = 1e-3 * robot.joint_velocity_limit
    lower, upper = (
        np.maximum(-most, robot.joint_limit_lower - joint_q),
        np.minimum(most, robot.joint_limit_upper - joint_q),
    )
    square = of_target.T @ of_target + np.eye(count)
    inverse = np.linalg.inv(np.block([[square, of_loop.T], [of_loop, np.zeros((len(of_loop), len(of_loop)))]]))
    kept, dual = np.zeros(count), np.zeros(count)
    for _ in range(5000):
        move = (inverse @ np.concatenate([kept - dual - of_target.T @ rows, np.zeros(len(of_loop))]))[:count]
        kept = np.clip(move + dual, lower, upper)
        dual += move - kept
    assert np.abs(of_loop @ kept).max() < 1e-6
    return np.linalg.norm(rows) - np.linalg.norm(rows + of_target @ kept)


@pytest.mark.evidence
def test_targets_that_pull_apart_share_what_the_loop_leaves(holding):
    robot, start = holding
    targets = poses_of(robot, start, (LEFT, RIGHT))
    targets[1, 0] += 0.2
    run = follow(IKController(robot, [LEFT, RIGHT]), start, np.tile(targets, (2000, 1, 1)))
    assert gaps(robot, run.joint_q).max() <= CLOSED
    assert (run.status != IKStatus.CONVERGED).all()
    assert (run.status != IKStatus.LOOP_OPEN).all()
    assert np.abs(run.joint_qd[-1]).max() < 1e-3
    left, right = (distances(robot, run.joint_q[-1:], targets[k : k + 1], link) for k, link in enumerate((LEFT, RIGHT)))
    assert 0.15 < left + right < 0.2  # hands may turn a little, too
    assert abs(left - right) < 1e-6


@pytest.mark.evidence
@pytest.mark.parametrize("limits", ["speed", "acceleration"])
def test_a_posture_moves_only_what_loop_and_target_leave_free(holding, limits):
    """Two ways to move are left; at the end of both nothing draws the joints along them."""
    robot, start = holding
    pose = pose_of(robot, start, LEFT)
    free = freedom(robot, start, pose)
    reference = start + 0.5 * free[:, 0]
    poses = np.tile(pose, (2500, 1))
    posture = IKObjectivePosture(reference, weight=1.0)
    run = follow(IKController(robot, [LEFT], objectives=[posture], **LIMITS[limits]), start, poses)
    assert gaps(robot, run.joint_q).max() <= CLOSED
    # Joints that brake for the loop's sake let the target pass for a moment: by 0.1 to 0.4 mm, as the start is.
    assert distances(robot, run.joint_q, poses, LEFT).max() < (1e-3 if limits == "acceleration" else 1e-4)
    assert distances(robot, run.joint_q, poses, LEFT)[-1] < 1e-9
    assert np.linalg.norm(run.joint_q[-1] - reference) < 0.3
    assert np.abs(freedom(robot, run.joint_q[-1], pose).T @ (run.joint_q[-1] - reference)).max() < 1e-4
    assert np.abs(run.joint_qd[-1]).max() < 1e-4
    assert_within_limits(robot, run.joint_q, start, 1e-3, ACCELERATIONS.get(limits))


def freedom(robot, joint_q, pose):
    """Moves that change neither loop nor target, orthonormal columns."""
    of_target = differences(lambda q: target_rows(robot, q, pose), joint_q)
    of_loop = differences(lambda q: loop_rows(robot, q), joint_q)
    values, rows = np.linalg.svd(np.vstack([of_target, of_loop]))[1:]
    assert values[-1] > 1e-3
    return rows[len(values) :].T


CRANK_TURN = ik_service.Target("crank", row_weights=[0, 0, 0, 0, 0, 1])


def turned(angles):
    """Poses that ask for angles of the crank."""
    poses = np.zeros((len(angles), 7))
    poses[:, 5], poses[:, 6] = np.sin(0.5 * angles), np.cos(0.5 * angles)
    return poses


@pytest.mark.parametrize("limits", LIMITS)
def test_a_four_bar_follows_its_crank(limits):
    """Its rows out of the plane say nothing; the rocker's angle is that of the closed form."""
    robot = four_bar()
    angles = 0.4 + 3.0 * smooth(2000)
    run = follow(
        IKController(robot, [CRANK_TURN], **LIMITS[limits]), closed_four_bar(robot.joint_names, 0.4), turned(angles)
    )
    assert gaps(robot, run.joint_q).max() <= CLOSED
    assert (run.status == IKStatus.CONVERGED).all()
    np.testing.assert_allclose(run.joint_q[:, 0], angles, rtol=0, atol=2e-5)
    off = run.joint_q - closed_four_bar(robot.joint_names, run.joint_q[:, 0])
    assert np.abs(np.angle(np.exp(1j * off))).max() < 1e-7


SWING = '<joint name="swing" type="revolute"><limit lower="0.5" upper="1.9" velocity="100" effort="1"/>'
FASTER = {  # angles of 3000 ticks
    "round": 20.0 * smooth(3000),
    "jump": 2.0 * (np.arange(3000) > 0),
    "to and fro": 3.0 * np.sin(np.linspace(0.0, 6.0 * np.pi, 3000)),
}


@pytest.mark.parametrize("swing", ["free", "limited"])
@pytest.mark.parametrize("path", FASTER)
@pytest.mark.parametrize("acceleration", [5.0, 50.0])
def test_a_loop_stays_closed_where_no_acceleration_lets_the_target_be_followed(acceleration, path, swing):
    """Joints slow down before the loop would ask for more, and stop together where the rocker comes to its limit."""
    robot = four_bar()
    if swing == "limited":
        robot = load_urdf(FOUR_BAR.replace('<joint name="swing" type="continuous">', SWING)).with_loops(robot.loops)
    start = closed_four_bar(robot.joint_names, 0.4)
    controller = IKController(robot, [CRANK_TURN], limits=ControlLimits(acceleration=acceleration))
    run = follow(controller, start, turned(0.4 + FASTER[path]))
    assert gaps(robot, run.joint_q).max() <= CLOSED
    assert (run.status == IKStatus.BLOCKED_BY_LIMITS).any()
    assert_within_limits(robot, run.joint_q, start, 1e-3, acceleration)
    assert np.abs(run.accelerations(start, 1e-3)).max() > 0.9 * acceleration


@pytest.mark.evidence
def test_a_weld_that_locks_a_four_bar_lets_nothing_move():
    """Six rows of rank 3."""
    robot = four_bar()
    start = closed_four_bar(robot.joint_names, 0.4)
    pin = np.array([COUPLER, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    turn = start[1] + start[0] - start[2]
    end = np.array([ROCKER, 0.0, 0.0, 0.0, 0.0, np.sin(0.5 * turn), np.cos(0.5 * turn)])
    locked = robot.with_loops([LoopConstraint("pin", "weld", "coupler", "rocker", tuple(pin), tuple(end))])
    run = follow(IKController(locked, [CRANK_TURN]), start, turned(np.full(200, np.pi)))
    assert gaps(locked, run.joint_q).max() <= CLOSED
    assert (run.status == IKStatus.STALLED).all()
    np.testing.assert_allclose(run.joint_q, np.tile(start, (200, 1)), atol=1e-7)


@pytest.mark.parametrize("limits", LIMITS)
def test_an_open_loop_is_said_to_be_open_and_closed_within_limits(holding, limits):
    robot, start = holding
    apart = start.copy()
    apart[8] += 0.1
    poses = np.tile(pose_of(robot, start, LEFT), (1000, 1))
    run = follow(IKController(robot, [LEFT], **LIMITS[limits]), apart, poses)
    gap = gaps(robot, run.joint_q)
    is_open = run.status == IKStatus.LOOP_OPEN
    assert 5 < is_open.sum() < 150
    assert (is_open == (gap > 5e-7)).all()
    assert (gap < 0.1).all()
    assert (gap[is_open.sum() // 2 :] < 0.04).all()
    assert (gap[is_open.sum() + 20 :] <= CLOSED).all()
    assert run.status[-1] == IKStatus.CONVERGED
    assert_within_limits(robot, run.joint_q, apart, 1e-3, ACCELERATIONS.get(limits))


def test_a_loop_that_cannot_close_is_open_in_every_tick():
    robot = four_bar(rocker=1.5)
    run = follow(IKController(robot, objectives=[IKObjectivePosture(np.zeros(3))]), np.zeros(3), [None] * 50)
    assert (run.status == IKStatus.LOOP_OPEN).all()
    assert (gaps(robot, run.joint_q) > 0.1).all()


def test_speeds_that_nothing_could_hold_leave_it_open_within_limits(holding):
    """Hands that fly apart: no acceleration that is allowed closes the loop in a tick."""
    robot, start = holding
    speeds = 0.5 * np.eye(14)[7]
    result = begun(robot, [LEFT], start, speeds, **LIMITS["acceleration"]).step(pose_of(robot, start, LEFT))
    assert result.status[0] == IKStatus.LOOP_OPEN
    assert not result.success[0]
    assert np.abs(result.joint_qd[0] - speeds).max() <= ACCELERATION * 1e-3 * (1 + 1e-9)


def test_drift_is_corrected_in_the_same_tick(holding):
    """Measured positions are off the loop; every command is on it."""
    robot, start = holding
    random, pose, controller = np.random.default_rng(3), pose_of(robot, start, LEFT), begun(robot, [LEFT], start)
    for _ in range(100):
        given = start + random.normal(0.0, 1e-4, 14)
        assert gaps(robot, given[None])[0] > 1e-6
        result = controller.step(pose, given)
        assert gaps(robot, result.joint_q)[0] <= CLOSED
        assert result.status[0] == IKStatus.CONVERGED


def test_a_deadline_that_has_passed_leaves_the_loop_closed(holding):
    robot, start = holding
    controller, far = begun(robot, [LEFT], start), pose_of(robot, start, LEFT, [-0.1, 0.15, 0.1])
    found = np.array([controller.step(far, deadline_ns=0).joint_q[0].copy() for _ in range(1500)])
    assert gaps(robot, found).max() <= CLOSED
    assert distances(robot, found[-1:], far[None], LEFT)[0] < 1e-6


@pytest.mark.evidence
def test_a_loop_without_a_target_is_held_beside_another_arm():
    """The loop ties the left hand to the world; the right arm is an island of its own, as without the loop."""
    arms = load_robot("dual_panda")
    stand = LoopConstraint("stand", "weld", LEFT, None, reference_offset=tuple(pose_of(arms, NEAR, LEFT)))
    held, target, found = arms.with_loops([stand]), pose_of(arms, NEAR, RIGHT, [0.0, 0.0, 0.05]), []
    for robot in (held, arms):
        run = follow(IKController(robot, [RIGHT]), NEAR, np.tile(target, (300, 1)))
        assert run.status[-1] == IKStatus.CONVERGED
        found.append(run.joint_q[:, 7:].tobytes())
        assert gaps(held, run.joint_q).max() <= CLOSED
    assert found[0] == found[1]


def test_a_loop_that_no_joint_moves_is_refused_by_name(holding):
    robot, start = holding
    stand = LoopConstraint("stand", "weld", LEFT, None, reference_offset=tuple(pose_of(robot, start, LEFT)))
    held = robot.with_loops([stand]).lock(dict(zip(robot.joint_names[:7], map(float, start), strict=False)))
    with pytest.raises(InputError, match="constraint 'stand'"):
        IKController(held, [RIGHT])


@pytest.mark.evidence
@pytest.mark.parametrize("limits", ["speed", "acceleration"])
def test_a_constraint_between_coordinates_is_met_as_a_loop_is_closed(limits):
    """Joint 6 of a Panda follows a parabola of joint 4 while its hand goes along a line."""
    start, wave = HOME.copy(), (1.0, -0.1, 0.15)
    cam = CoordinateConstraint("cam", "panda_joint6", "panda_joint4", wave)
    robot = load_robot("panda").with_coordinate_constraints([cam])
    start[5] = np.polyval(wave[::-1], start[3])
    hand = ik_service.Target("panda_hand", row_weights=[1, 1, 1, 0, 0, 0])
    poses = np.tile(pose_of(robot, start, "panda_hand"), (1000, 1))
    poses[:, 0] += 0.1 * smooth(1000)
    run = follow(IKController(robot, [hand], **LIMITS[limits]), start, poses)
    assert np.abs(run.joint_q[:, 5] - np.polyval(wave[::-1], run.joint_q[:, 3])).max() <= CLOSED
    assert np.ptp(run.joint_q[:, 5]) > 0.02
    assert (run.status == IKStatus.CONVERGED).all()


def test_a_four_bar_with_rounded_angles_follows_its_coupler_point():
    """It follows as with all digits, its loop closed but for its slack, 2 mm behind at up to 0.2 m/s."""
    robot = load_urdf(rounded.pins(4))
    start = robot.constraints.close(robot.mid_joint_q).joint_q[0]
    angles = start[0] + np.linspace(0.0, 0.5, 400)
    path = robot.constraints.sweep("drive", (angles[0], angles[-1]), angles[1] - angles[0], joint_q=start)
    assert not path.status.any()
    poses = np.array([pose_of(robot, one, "point") for one in path.joint_q[0]])
    run = follow(IKController(robot, ["point"]), path.joint_q[0, 0], poses, dt=2e-3)
    assert np.ptp(run.joint_q[:, 0]) > 0.4
    assert np.abs(robot.constraints.residual(run.joint_q)).max() <= CLOSED
    assert (run.status == IKStatus.CONVERGED).all()
    assert run.position_error.max() <= 2e-3

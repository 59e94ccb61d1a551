"""Robots with wheels and shafts, tick by tick: no wheel slips and shafts turn alike, within all limits."""

from types import SimpleNamespace

import numpy as np
import pytest

from ik_service import IKSolver, IKStatus, Target, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.errors import InputError
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint, RobotModel, VelocityConstraint, load_urdf
from objectives import IKObjectivePosture
from tests.constraints.mechanisms import at
from tests.constraints.test_velocities_and_cams import RADIUS, TRACK, cart, cart_text, planetary, shafts
from tests.control.conftest import begun, follow, pose_of
from tests.control.test_loops import smooth
from tests.objectives.motion_rows import motion_row
from tests.robots.urdf_text import joint, urdf

DT = 1e-3
SPEED, ACCELERATION = 7.0, 20.0  # of the wheels [rad/s, rad/s^2]
WHEELS = {"left_axle": SPEED, "right_axle": SPEED}
LIMITS = {
    "none": {},
    "speed": {"limits": ControlLimits(velocity=WHEELS)},
    "acceleration": {"limits": ControlLimits(velocity=WHEELS, acceleration=ACCELERATION)},
    "whole step": {"limits": ControlLimits(velocity=WHEELS), "scale_direction": True},
}


def slips(robot: RobotModel, run, start):
    """Rates of the constraints on velocities in the middle of every tick [m/s and rad/s], in float64 on the host."""
    before = np.concatenate([start[None], run.joint_q[:-1]])
    middle = robot.integrate(before, 0.5 * DT * run.joint_qd)
    rates = robot.constraints.error_velocity(middle, run.joint_qd)
    rows = [robot.constraints.error_rows(one.name) for one in robot.velocity_constraints]
    return np.concatenate([rates[:, one] for one in rows], axis=1)


def slid(robot: RobotModel, run, start):
    """What wheels on the world's ground slide in every tick along the least arc from pose to pose [m]."""
    poses = robot.forward_kinematics(np.concatenate([start[None], run.joint_q]), [one.link for one in wheels_of(robot)])
    found = []
    for k, one in enumerate(wheels_of(robot)):
        wheel = np.concatenate([poses.positions[:, k], poses.orientations_xyzw[:, k]], axis=1)
        axle = transform_multiply(wheel, np.tile(one.offset, (len(wheel), 1)))
        found.append(motion_row(one.kind, axle[:-1], axle[1:]))
    return np.stack(found, axis=1)


def wheels_of(robot: RobotModel):
    return [one for one in robot.velocity_constraints if one.radius == RADIUS and one.reference_link is None]


def bend(robot, start, ticks, turn=0.8):
    """Poses of the cart on a bend, from rest to rest, with the heading along it."""
    angle = turn * smooth(ticks)
    poses = np.tile(pose_of(robot, start, "cart"), (ticks, 1))
    poses[:, 0] += np.sin(angle)
    poses[:, 1] += 1.0 - np.cos(angle)
    poses[:, 5], poses[:, 6] = np.sin(0.5 * angle), np.cos(0.5 * angle)
    return poses


def assert_wheels_within_limits(run, start, limits):
    if limits != "none":
        assert np.abs(run.speeds(start, DT)[:, 3:]).max() <= SPEED * (1 + 1e-9)
    if limits == "acceleration":
        assert np.abs(run.accelerations(start, DT)[:, 3:]).max() <= ACCELERATION * (1 + 1e-6)


@pytest.mark.parametrize("limits", LIMITS)
def test_a_cart_drives_along_a_bend_and_no_wheel_slips(limits):
    robot, start = cart(), np.zeros(5)
    run = follow(IKController(robot, ["cart"], **LIMITS[limits]), start, bend(robot, start, 2000))
    assert np.abs(slips(robot, run, start)).max() < 1e-6
    assert np.abs(slid(robot, run, start)).max() < 1.1e-9
    assert run.position_error.max() < 2e-3
    assert run.status[-1] == IKStatus.CONVERGED
    way = RADIUS * run.joint_q[-1, 3:].mean()
    assert way == pytest.approx(0.8, abs=2e-3)  # the length of the bend
    assert np.abs(run.speeds(start, DT)[:, 3:]).max() > 6.0
    assert_wheels_within_limits(run, start, limits)


@pytest.mark.parametrize("limits", [one for one in LIMITS if one != "none"])
def test_a_cart_that_is_too_slow_falls_behind_and_does_not_slip(limits):
    robot, start = cart(), np.zeros(5)
    run = follow(IKController(robot, ["cart"], **LIMITS[limits]), start, bend(robot, start, 800))
    assert np.abs(slid(robot, run, start)).max() < 1.1e-9
    assert run.position_error.max() > 0.1
    assert np.abs(run.speeds(start, DT)[:, 3:]).max() > 0.9 * SPEED
    assert_wheels_within_limits(run, start, limits)


@pytest.mark.evidence
@pytest.mark.parametrize(("left", "right"), [(3.0, 5.0), (-2.0, 3.0), (4.0, 4.0)])
def test_wheels_that_turn_far_in_a_tick_take_the_cart_along_an_exact_arc(left, right):
    robot, dt, ticks = cart(), 0.1, 20
    posture = IKObjectivePosture(np.zeros(5), joints=["left_axle", "right_axle"])
    controller = begun(robot, (), np.zeros(5), objectives=[posture], damping_weight=0.0, iterations=30)
    for tick in range(1, ticks + 1):
        posture.set_reference(np.array([0.0, 0.0, 0.0, left, right]) * tick * dt)
        command = controller.step(dt=dt).joint_q[0]
    turn = RADIUS * (right - left) / (2.0 * TRACK) * ticks * dt
    way = RADIUS * 0.5 * (left + right) * ticks * dt
    expected = [way * np.sinc(turn / np.pi), way * 0.5 * turn * np.sinc(0.5 * turn / np.pi) ** 2, turn]
    np.testing.assert_allclose(command[:3], expected, atol=1e-7)
    np.testing.assert_allclose(command[3:], np.array([left, right]) * ticks * dt, atol=1e-6)


@pytest.mark.evidence
@pytest.mark.parametrize(("multiplier", "offset"), [(1.0, 0.0), (0.5, -0.7)])
def test_a_wheel_that_follows_another_starts_from_where_that_is(multiplier, offset):
    """The caller measures the leader alone; the follower was elsewhere by the command before."""
    follower = f'<mimic joint="left_axle" multiplier="{multiplier}" offset="{offset}"/></joint></robot>'
    robot = load_urdf(cart_text().replace("</joint></robot>", follower))
    robot = robot.with_velocity_constraints(cart().velocity_constraints)
    controller = begun(robot, ["cart"], np.zeros(4), joint_order=["drive", "left_axle"])
    pose = pose_of(robot, np.zeros(5), "cart", [1e-3, 0.0, 0.0])
    controller.step(pose, dt=DT)
    ahead = np.array([0.0, 0.0, 0.0, 0.1])
    command = controller.step(pose, dt=DT, joint_q=ahead).joint_q[0]
    turned = command[3] - 0.1
    assert abs(turned) > 1e-4
    assert command[2] == pytest.approx(RADIUS * (multiplier - 1.0) * turned / (2.0 * TRACK), abs=1e-8)
    assert np.hypot(command[0], command[1]) == pytest.approx(RADIUS * abs(multiplier + 1.0) * turned / 2.0, abs=1e-8)


def test_no_wheel_turns_by_half_a_turn_in_a_tick():
    """From there on it would be taken for one that turns the other way."""
    posture = IKObjectivePosture(np.zeros(5), joints=["left_axle", "right_axle"])
    controller = begun(cart(), (), np.zeros(5), objectives=[posture], damping_weight=0.0, iterations=50)
    posture.set_reference(np.array([0.0, 0.0, 0.0, 7.0, 7.0]))
    for tick in range(1, 4):
        command = controller.step(dt=1.0).joint_q[0]
        assert command[0] == pytest.approx(RADIUS * command[3], abs=1e-7)
        assert command[3] == pytest.approx(min(3.0 * tick, 7.0), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_what_slides_is_said(seed):
    """Speeds at which wheels slip, and accelerations that cannot stop it at once."""
    robot, rng = cart(), np.random.default_rng(seed)
    start = robot.random_joint_q(rng, 1)[0]
    controller = begun(robot, ["cart"], start, rng.uniform(-1.0, 1.0, 5), limits=ControlLimits(acceleration=5.0))
    found = [controller.step(pose_of(robot, start, "cart"), dt=DT).copy() for _ in range(600)]
    run = SimpleNamespace(joint_q=np.concatenate([one.joint_q for one in found]))
    is_open = np.array([one.status[0] == IKStatus.LOOP_OPEN for one in found])
    slides = np.abs(slid(robot, run, start)).max(axis=1)
    assert is_open[0]
    assert slides[0] > 1e-5
    assert slides[~is_open].max() < 1.1e-8
    assert not is_open[-50:].any()


def test_a_cart_is_not_pushed_sideways():
    robot, start = cart(), np.zeros(5)
    beside = pose_of(robot, start, "cart", [0.0, 0.5, 0.0])
    run = follow(IKController(robot, ["cart"]), start, np.tile(beside, (50, 1)))
    assert np.abs(run.joint_q[:, 1]).max() < 1e-6
    assert (run.status != IKStatus.CONVERGED).all()
    free = follow(IKController(robot.with_velocity_constraints([]), ["cart"]), start, np.tile(beside, (50, 1)))
    assert free.joint_q[-1, 1] == pytest.approx(0.5, abs=1e-3)


def rolling_disc():
    """A disc that floats, held on the ground by its centre, which an arm carries along."""
    frames = joint("float", "floating", "world", "frame"), joint("axle", "continuous", "frame", "disc", axis="0 1 0")
    axle = at(axis=(1.0, 0.0, 0.0), angle=-0.5 * np.pi)
    ground = LoopConstraint("height", "planar", "frame", reference_offset=at(0.0, 0.0, RADIUS))
    rows = [VelocityConstraint(kind, kind, "disc", None, axle, radius=RADIUS) for kind in ("rolling", "no_sideslip")]
    return load_urdf(urdf("disc", "world", *frames)).with_loops([ground]).with_velocity_constraints(rows)


@pytest.mark.evidence
def test_loops_and_velocities_are_kept_together_by_a_floating_base():
    robot = rolling_disc()
    start = robot.constraints.close(robot.mid_joint_q).joint_q[0]
    poses = np.tile(pose_of(robot, start, "frame"), (1000, 1))
    poses[:, 0] += 0.3 * np.sin(np.linspace(0.0, 0.5 * np.pi, 1000))
    run = follow(IKController(robot, ["frame"]), start, poses)
    assert np.abs(robot.constraints.error(run.joint_q)[:, :6]).max() < 1e-8
    assert np.abs(slips(robot, run, start)).max() < 1e-6
    assert run.joint_q[-1, -1] * RADIUS == pytest.approx(0.3, abs=1e-3)


def test_shafts_turn_alike_through_a_bend():
    bearing = at(z=0.2, axis=(1, 0, 0), angle=0.6)
    pin = LoopConstraint("bearing", "cylindrical", "second", None, reference_offset=bearing)
    robot = shafts().with_loops([pin])
    start = robot.constraints.close(np.array([0.0, *at(axis=(1.0, 0.0, 0.0), angle=0.6)[3:]])).joint_q[0]
    poses = np.array([at(z=0.0, axis=(0.0, 0.0, 1.0), angle=angle) for angle in np.linspace(0.0, 2.5, 1500)])
    run = follow(IKController(robot, [Target("first", row_weights=[0, 0, 0, 1, 1, 1])], posture=None), start, poses)
    assert np.abs(slips(robot, run, start)).max() < 1e-6
    assert np.abs(robot.constraints.error(run.joint_q)[:, :6]).max() < 1e-8
    before, after = (pose_of(robot, q, "second")[None] for q in (start, run.joint_q[-1]))
    turned = transform_multiply(transform_inverse(before), after)
    assert 2.0 * np.arctan2(turned[0, 5], turned[0, 6]) == pytest.approx(2.5, abs=1e-4)


@pytest.mark.evidence
def test_gears_turn_together_on_their_carrier():
    robot = planetary()
    start = robot.random_joint_q(np.random.default_rng(1), 1)[0]
    s = np.linspace(0.0, 1.0, 800)
    poses = np.array([[at(axis=(0.0, 0.0, 1.0), angle=way * angle) for way in (1.0, 2.0)] for angle in s])
    start[:2] = 0.0
    turns = [Target(link, row_weights=[0, 0, 0, 1, 1, 1]) for link in ("sun", "arm")]
    run = follow(IKController(robot, turns), start, poses)
    assert np.abs(slips(robot, run, start)).max() < 1e-6
    np.testing.assert_allclose(run.joint_q[-1, :2], [1.0, 2.0], atol=1e-4)
    assert run.joint_q[-1, 2] - start[2] == pytest.approx(2.0, abs=1e-3)  # -2 (1 - 2)
    handle = np.linalg.norm(run.joint_qd[1:, 3:], axis=1)
    np.testing.assert_allclose(handle, 0.5 / 0.8, rtol=0.02)  # half as fast as the sun, about its axle alone


def test_what_knows_no_velocities_refuses_such_a_robot():
    robot = cart()
    with pytest.raises(InputError, match="'left_roll' is on velocities, which a solve does not have"):
        IKSolver(robot, ["cart"])
    arm = load_robot("panda").with_velocity_constraints([VelocityConstraint("a", "constant_velocity", "panda_hand")])
    with pytest.raises(InputError, match="clearance is not for robots that close loops or have other constraints"):
        IKController(arm, ["panda_hand"], limits=ControlLimits(clearance=0.01))

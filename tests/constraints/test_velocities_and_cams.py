"""Constraints on velocities, which hold no position, and constraints between coordinates, which hold no loop."""

import pickle

import numpy as np
import pytest

from ik_service.errors import InputError
from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.robots import CoordinateConstraint, LoopConstraint, VelocityConstraint, load_urdf
from tests.constraints.mechanisms import COORDINATES, VELOCITIES, at, branches, four_bar
from tests.robots.urdf_text import joint, urdf

RADIUS, TRACK = 0.15, 0.25
AXLE = at(axis=(1.0, 0.0, 0.0), angle=-0.5 * np.pi)  # z of the frame along y of the wheel


def cart_text():
    """A platform on a plane with two wheels."""
    wheels = [
        joint(f"{side}_axle", "continuous", "cart", f"{side}_wheel", f"0 {y} {RADIUS}", axis="0 1 0")
        for side, y in (("left", TRACK), ("right", -TRACK))
    ]
    return urdf("cart", "floor", joint("drive", "planar", "floor", "cart", axis="0 0 1"), *wheels)


def cart():
    """The platform with driven wheels that roll, one of which keeps it from slipping sideways."""
    rows = (("left_roll", "rolling", "left"), ("right_roll", "rolling", "right"), ("slip", "no_sideslip", "left"))
    return load_urdf(cart_text()).with_velocity_constraints(
        [VelocityConstraint(name, kind, f"{side}_wheel", None, AXLE, radius=RADIUS) for name, kind, side in rows]
    )


def test_a_cart_goes_where_its_wheels_roll():
    robot = cart()
    rng = np.random.default_rng(0)
    joint_q = robot.random_joint_q(rng, 20)
    wheels = rng.standard_normal((20, 2))
    wanted = np.column_stack([np.zeros((20, 3)), wheels])
    found = robot.constraints.velocity(joint_q, wanted, frozen=["left_axle", "right_axle"])
    heading = joint_q[:, robot.coordinate_names.index("drive/angle")]
    forward = RADIUS * wheels.mean(axis=1)
    turn = RADIUS * (wheels[:, 1] - wheels[:, 0]) / (2.0 * TRACK)
    expected = np.column_stack([forward * np.cos(heading), forward * np.sin(heading), turn])
    np.testing.assert_allclose(found.joint_qd[:, :3], expected, atol=1e-12)
    np.testing.assert_array_equal(found.joint_qd[:, 3:], wheels)
    assert found.constraint_error.max() <= 1e-12
    steady = robot.constraints.acceleration(joint_q, found.joint_qd, np.zeros(5), frozen=["left_axle", "right_axle"])
    expected = np.column_stack([-turn * forward * np.sin(heading), turn * forward * np.cos(heading), np.zeros(20)])
    np.testing.assert_allclose(steady.joint_qdd[:, :3], expected, atol=1e-12)


def test_rows_on_velocities_are_absent_from_positions():
    robot = cart()
    constraints = robot.constraints
    joint_q = robot.random_joint_q(np.random.default_rng(1), 4)
    found = constraints.close(joint_q)
    assert found.closed.all()
    np.testing.assert_array_equal(found.joint_q, joint_q)
    np.testing.assert_array_equal(constraints.error(joint_q), np.zeros((4, 3)))
    np.testing.assert_array_equal(constraints.error_gradient(joint_q), np.zeros((4, 3, 5)))
    np.testing.assert_array_equal(constraints.jacobian(joint_q), constraints.residual_jacobian(joint_q))
    assert constraints.partition(joint_q).rank.tolist() == [3] * 4
    assert len(constraints.partition(joint_q, ["left_axle", "right_axle"]).independent) == 2
    assert len(constraints.partition(joint_q, enabled=constraints.enabled(["slip"])).independent) == 4


def shafts():
    """Two shafts that a joint of constant velocity joins."""
    drive = joint("drive", "continuous", "base", "first", axis="0 0 1")
    robot = load_urdf(urdf("shafts", "base", drive, joint("bend", "ball", "first", "second", "0 0 0.2")))
    return robot.with_velocity_constraints([VelocityConstraint("joint", "constant_velocity", "second", "first")])


def cams(coefficients):
    """Two joints on one base, of which one follows a polynomial of the other."""
    own = joint("turn", "continuous", "base", "cam", axis="0 1 0")
    robot = load_urdf(urdf("cams", "base", own, joint("lift", "continuous", "base", "lever", "0.3 0 0", axis="0 1 0")))
    return robot.with_coordinate_constraints([CoordinateConstraint("cam", "lift", "turn", coefficients)])


def test_shafts_of_a_constant_velocity_joint_turn_alike():
    robot, angle = shafts(), 0.7
    joint_q = np.array([0.0, *at(axis=(1.0, 0.0, 0.0), angle=angle)[3:]])
    # The second shaft spins about its own axis, which stands still, as fast as the first one about its.
    axis = np.array([0.0, -np.sin(angle), np.cos(angle)])
    spin = np.array([1.0, *(axis - [0.0, 0.0, 1.0])])
    rates = robot.constraints.error_velocity(joint_q, spin)
    np.testing.assert_allclose(rates, 0.0, atol=1e-12)
    assert abs(robot.constraints.error_velocity(joint_q, [1.0, 0.0, 0.0, 0.3])[0, 0]) > 0.1


def test_a_cam_is_followed():
    robot = cams((0.1, 0.0, 0.5, -0.2))
    turn = np.linspace(-1.0, 1.0, 9)
    found = robot.constraints.close(np.column_stack([turn, np.zeros(9)]), frozen=["turn"])
    assert found.closed.all()
    np.testing.assert_allclose(found.joint_q[:, 1], 0.1 + 0.5 * turn**2 - 0.2 * turn**3, atol=1e-12)
    moving = robot.constraints.velocity(found.joint_q, [1.0, 0.0], frozen=["turn"])
    np.testing.assert_allclose(moving.joint_qd[:, 1], turn - 0.6 * turn**2, atol=1e-12)
    bent = robot.constraints.acceleration(found.joint_q, moving.joint_qd, [0.0, 0.0], frozen=["turn"])
    np.testing.assert_allclose(bent.joint_qdd[:, 1], 1.0 - 1.2 * turn, atol=1e-12)
    path = robot.constraints.sweep("turn", (-1.0, 1.0), 0.25)
    np.testing.assert_allclose(path.joint_q[0, :, 1], found.joint_q[:, 1], atol=1e-9)
    assert robot.constraints.partition(found.joint_q, ["turn"]).dependent == ("lift",)


def test_no_turn_is_taken_off_what_a_cam_is_about():
    """Whole turns leave the place of a body as it is, and not the value of a polynomial."""
    cam = np.polynomial.Polynomial([-0.07, 0.01]) * np.polynomial.Polynomial.fromroots([-1.0, 1.0])
    found = cams(cam.coef).constraints.close([[7.1, 0.0], [20.0, 0.0], [-9.0, 0.0]], frozen=["lift"], solutions=4)
    assert found.closed.all()
    for configurations in (found.joint_q, found.solutions[0, : found.solution_count[0]]):
        np.testing.assert_allclose(cam(configurations[:, 0]), configurations[:, 1], atol=1e-9)
    np.testing.assert_allclose(np.sort(found.solutions[0, :3, 0]), [-1.0, 1.0, 7.0], atol=1e-9)


def test_constraints_of_all_kinds_stand_in_one_order():
    robot = branches(["planar", "weld"]).with_coordinate_constraints(COORDINATES).with_velocity_constraints(VELOCITIES)
    constraints = robot.constraints
    assert constraints.names() == ("planar_loop", "weld_loop", "roll", "slip", "shafts", "gear", "cam", "groove")
    assert (constraints.error_count, constraints.residual_count) == (12 + 4 + 2, 9 + 4 + 2)
    assert constraints.error_row_at(12) == constraints.residual_row_at(9) == ("roll", "rolling")
    assert constraints.residual_row_at(14) == ("groove", "polynomial")
    assert constraints.names(kind="polynomial") == ("cam", "groove")
    assert constraints.of_link("hand") == ("planar_loop", "weld_loop", "roll", "shafts", "gear", "cam", "groove")
    assert constraints.of_link("carriage") == ("cam", "groove")
    assert set(constraints.loop_links("roll")) == {"arm", "hand", "drone", "tail"}
    assert robot.content_hash != robot.with_velocity_constraints([]).content_hash
    assert pickle.loads(pickle.dumps(robot)).constraints.names() == constraints.names()


PLANETARY = [
    joint("sun_axle", "continuous", "base", "sun", axis="0 0 1"),
    joint("arm_axle", "continuous", "base", "arm", axis="0 0 1"),
    joint("planet_axle", "continuous", "arm", "planet", "0.3 0 0", axis="0 0 1"),
    joint("crank", "ball", "base", "handle", "0 0 0.5"),
]


def planetary():
    """A sun and a planet on an arm, and a bevel wheel on the planet's shaft."""
    robot = load_urdf(urdf("planetary", "base", *PLANETARY))
    return robot.with_velocity_constraints(
        [
            VelocityConstraint("mesh", "gear", "planet", "sun", ratio=-2.0, carrier="arm"),
            VelocityConstraint("bevel", "gear", "handle", "sun", AXLE, ratio=0.5),
        ]
    )


def test_a_planet_turns_as_its_teeth_and_its_carrier_make_it():
    robot = planetary()
    rng = np.random.default_rng(5)
    joint_q = robot.random_joint_q(rng, 20)
    wanted = rng.standard_normal((20, 6))
    found = robot.constraints.velocity(joint_q, wanted, frozen=["sun_axle", "arm_axle"])
    sun, arm, planet = found.joint_qd[:, :3].T
    # The planet's axle turns against the arm; so does the sun, by its speed less the arm's (Willis).
    np.testing.assert_allclose(planet, -2.0 * (sun - arm), atol=1e-12)
    axle = quaternion_rotate(joint_q[:, 3:], np.tile([0.0, 1.0, 0.0], (20, 1)))  # of the handle, in the world
    np.testing.assert_allclose((axle * found.joint_qd[:, 3:]).sum(axis=1), 0.5 * sun, atol=1e-12)
    assert found.constraint_error.max() <= 1e-12
    part = robot.subrobot("arm")
    assert part.dropped_constraints == ("mesh", "bevel")
    assert robot.constraints.of_link("arm") == ("mesh",)
    turning = load_urdf(urdf("r", "root", joint("all", "continuous", "root", "base", axis="0 1 0"), *PLANETARY))
    turning = turning.with_velocity_constraints(robot.velocity_constraints)
    assert turning.subrobot("base").dropped_constraints == ("bevel",)  # its bearings stand in the world


def test_a_robot_without_loops_has_no_frames_of_loops():
    robot = branches([]).with_coordinate_constraints(COORDINATES)
    assert robot.constraints.error_frames(robot.mid_joint_q).shape == (2, 1, 0, 7)


def test_parts_keep_what_is_theirs():
    robot = branches([]).with_coordinate_constraints(COORDINATES).with_velocity_constraints(VELOCITIES)
    part = robot.subrobot("carriage")
    assert part.constraints.names() == ("roll", "shafts", "gear")
    assert part.dropped_constraints == ("slip", "cam", "groove")
    assert robot.subrobot("base", constraints=["cam"]).constraints.names() == ("cam",)
    assert robot.aggregate(["cam"], with_velocity=False).link_names == ("base", "carriage", "arm", "hand")


def test_ways_may_leave_constraints_on_velocities_aside():
    """A wheel on the coupler of a four-bar rolls on the cart that it stands on: the cart belongs to it only so."""
    wheel = VelocityConstraint("wheel", "rolling", "coupler", "rider", AXLE, radius=0.1)
    ends = (("drive", "ground", "crank"), ("elbow", "crank", "coupler"), ("swing", "ground", "rocker"))
    joints = [joint(name, "continuous", *links) for name, *links in (*ends, ("ride", "rocker", "rider"))]
    robot = load_urdf(urdf("bar", "ground", *joints)).with_loops(four_bar().loops).with_velocity_constraints([wheel])
    assert set(robot.aggregate(["pin"]).link_names) == {"ground", "crank", "coupler", "rocker", "rider"}
    without = robot.aggregate(["pin"], with_velocity=False)
    assert set(without.link_names) == {"ground", "crank", "coupler", "rocker"}
    assert without.dropped_constraints == ("wheel",)


WELD = LoopConstraint("cam", "weld", "hand")


def shaft(name, link="hand"):
    return VelocityConstraint(name, "constant_velocity", link)


def about_hand(kind, reference=None, **options):
    return VelocityConstraint("a", kind, "hand", reference, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: about_hand("sliding"), "kind is 'sliding'. Allowed: 'rolling'"),
        (lambda _: about_hand("rolling"), "radius is None. Allowed for 'rolling': a positive number"),
        (lambda _: about_hand("rolling", radius=0.0), "radius is 0.0"),
        (lambda _: about_hand("constant_velocity", radius=1.0), "'constant_velocity': None"),
        (lambda _: about_hand("constant_velocity", "hand"), "is about link 'hand' twice"),
        (lambda _: about_hand("constant_velocity", offset=(0.0,) * 7), "has length 0"),
        (lambda _: about_hand("gear", "arm"), "ratio is None. Allowed for 'gear': a number that is"),
        (lambda _: about_hand("gear", "arm", ratio=np.inf), "ratio is inf"),
        (lambda _: about_hand("gear", "arm", ratio=0.0), "ratio is 0"),
        (lambda _: about_hand("rolling", radius=1.0, ratio=2.0), "Allowed for 'rolling': None"),
        (lambda _: about_hand("gear", ratio=2.0), "is a gear with the world. Allowed: two links"),
        (lambda _: about_hand("gear", "arm", ratio=2.0, carrier="arm"), "Allowed .*: a third link"),
        (lambda _: about_hand("rolling", radius=1.0, carrier="arm"), "carrier is 'arm'. .*: None"),
        (lambda robot: robot.with_velocity_constraints([shaft("a", "finger")]), "about link 'finger', which the robot"),
        (
            lambda robot: robot.with_velocity_constraints([shaft("weld_loop")]),
            "Two constraints have the name 'weld_loop'",
        ),
        (
            lambda robot: robot.with_velocity_constraints([shaft("a"), shaft("b")]),
            "Constraints 'a' and 'b' say the same",
        ),
        (lambda robot: robot.with_coordinate_constraints(COORDINATES).with_loops([WELD]), "have the name 'cam'"),
    ],
)
def test_what_is_no_constraint_or_not_about_the_robot_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make(branches(["weld"]))

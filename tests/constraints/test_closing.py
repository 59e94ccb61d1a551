"""Closing loops from anywhere: all of them, with frozen joints to the bit, within limits, in every mode."""

import numpy as np
import pytest

from benchmarks.problems import mechanisms
from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import load_robot
from ik_service.constraints.closing import distance
from ik_service.constraints.results import ClosureStatus
from ik_service.robots import LoopConstraint, load_urdf
from objectives.errors import InputError
from tests.constraints.mechanisms import COUPLER, ROCKER, at, branches, four_bar
from tests.robots.urdf_text import joint, urdf

COUNT = 1000
CLOSED = 1e-10
CLOSED_FORM = 1e-9
PERTURBED = 0.1
SHARE = 0.995
FOUR_BAR, FIVE_BAR, DELTA, STEWART = MECHANISMS


def columns(robot, *joints):
    return [k for k, name in enumerate(robot.coordinate_names) if name.split("/")[0] in joints]


def from_drives(mechanism, seed=11):
    """A built-in mechanism closed with its drives frozen, from perturbed configurations; and those."""
    robot, rng = load_robot(mechanism.name), np.random.default_rng(seed)
    wanted = mechanism.configurations(COUNT, rng)
    drives = columns(robot, *mechanism.drives)
    starts = robot.integrate(wanted, rng.normal(scale=PERTURBED, size=(COUNT, robot.joint_dof_count)))
    starts[:, drives] = wanted[:, drives]
    return robot, starts, robot.constraints.close(starts, frozen=mechanism.drives), starts[:, drives]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[one.name for one in MECHANISMS])
def test_perturbed_mechanisms_close_with_their_drives_frozen(mechanism):
    robot, starts, found, drives = from_drives(mechanism)
    assert found.closed.mean() >= SHARE
    assert np.abs(robot.constraints.error(found.joint_q[found.closed])).max() <= 10.0 * CLOSED
    assert found.constraint_error[found.closed].max() <= CLOSED
    assert found.joint_q[:, columns(robot, *mechanism.drives)].tobytes() == drives.tobytes()
    assert np.abs(found.joint_q - starts).max() > PERTURBED
    free = robot.dof_coordinate[robot.active_dof] >= 0
    coordinate = robot.dof_coordinate[robot.active_dof][free]
    assert (found.joint_q[:, coordinate] >= robot.active_limit_lower[free]).all()
    assert (found.joint_q[:, coordinate] <= robot.active_limit_upper[free]).all()


@pytest.mark.evidence
def test_both_modes_of_a_four_bar_are_those_of_the_closed_form():
    robot = four_bar()
    joint_q = robot.random_joint_q(np.random.default_rng(12), 200)
    found = robot.constraints.close(joint_q, frozen=["drive"], solutions=4)
    assert (found.solution_count == 2).all()
    expected = np.stack([mechanisms.four_bar(joint_q[:, 0], side)[0] for side in (1.0, -1.0)], axis=1)
    modes = found.solutions[:, :2, robot.coordinate_names.index("swing")]
    apart = np.abs(np.angle(np.exp(1j * (modes[:, :, np.newaxis] - expected[:, np.newaxis]))))
    assert apart.min(axis=2).max() <= CLOSED_FORM
    assert (np.sort(apart.argmin(axis=2), axis=1) == [0, 1]).all()
    assert np.isnan(found.solutions[:, 2:]).all()
    np.testing.assert_array_equal(found.solutions[:, 0], found.joint_q)
    way = np.linalg.norm(found.solutions[:, :2] - joint_q[:, np.newaxis], axis=2)
    assert (way[:, 0] <= way[:, 1]).mean() > 0.6  # the first one is found from the start, and is mostly the nearest


@pytest.mark.evidence_cases("stewart")
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[one.name for one in MECHANISMS])
def test_each_of_several_ends_as_it_would_alone(mechanism):
    """Also where others fail from their starts and the modes of others are driven otherwise."""
    robot, n = load_robot(mechanism.name), 6
    joint_q = robot.random_joint_q(np.random.default_rng(3), n)
    together = robot.constraints.close(joint_q, solutions=2)
    for k in range(n):
        alone = robot.constraints.close(joint_q[k], solutions=2)
        assert alone.joint_q.tobytes() == together.joint_q[k : k + 1].tobytes()
        assert alone.solutions.tobytes() == together.solutions[k : k + 1].tobytes()


def test_a_mode_is_looked_for_with_what_drives_the_mechanism_held_and_the_same_seed_gives_the_same_bytes():
    robot = four_bar()
    joint_q = robot.random_joint_q(np.random.default_rng(2), 20)
    found = robot.constraints.close(joint_q, solutions=2)
    assert (found.solution_count == 2).all()
    held = np.ptp(found.solutions, axis=1) < 1e-12
    assert (held.sum(axis=1) == 1).all()
    one, two = (robot.constraints.close(joint_q, ["drive"], solutions=3, seed=7) for _ in range(2))
    assert one.solutions.tobytes() == two.solutions.tobytes()


def test_closed_mechanisms_are_where_their_closed_forms_have_them():
    """A five-bar's tool where two circles meet, a delta's platform where three spheres do, a Stewart's on its legs."""
    robot, _, found, shoulders = from_drives(FIVE_BAR)
    tool = robot.forward_kinematics(found.joint_q, [FIVE_BAR.link]).positions[found.closed, 0, :2]
    places = (mechanisms.five_bar(shoulders[found.closed], side) for side in (1.0, -1.0))
    assert np.min([np.linalg.norm(tool - place, axis=1) for place in places], axis=0).max() <= CLOSED_FORM
    assert len(tool) >= SHARE * COUNT
    robot, _, found, arms = from_drives(DELTA)
    platform = robot.forward_kinematics(found.joint_q, [DELTA.link]).positions[:, 0]
    far = np.linalg.norm(platform - mechanisms.delta(arms), axis=1)[found.closed]
    assert far.max() <= CLOSED_FORM
    assert np.ptp(platform, axis=0).min() > 0.1
    robot, _, found, lengths = from_drives(STEWART)
    pose = robot.forward_kinematics(found.joint_q, [STEWART.link])
    own = mechanisms.stewart(pose.positions[:, 0], pose.orientations_xyzw[:, 0])[0]
    assert np.abs(own - lengths)[found.closed].max() <= CLOSED_FORM
    assert np.ptp(lengths, axis=0).min() > 0.1


@pytest.mark.parametrize("joint", ["weld", "helical", "universal", "distance"])
def test_a_frozen_quaternion_stays_to_the_bit(joint):
    robot = branches([joint], closed_at=branches().random_joint_q(np.random.default_rng(3), 1))
    joint_q = robot.random_joint_q(np.random.default_rng(4), 30)
    found = robot.constraints.close(joint_q, frozen=["shoulder"])
    assert found.closed.all()
    frozen = columns(robot, "shoulder")
    assert found.joint_q[:, frozen].tobytes() == joint_q[:, frozen].tobytes()
    assert np.abs(robot.constraints.error(found.joint_q)).max() <= 10.0 * CLOSED


@pytest.mark.evidence
def test_loops_that_cannot_close_say_why():
    open_bar = four_bar(rocker=1.5)
    found = open_bar.constraints.close(open_bar.random_joint_q(np.random.default_rng(0), 3))
    assert found.status_names == ["open"] * 3
    assert (found.constraint_error > 0.1).all()
    arms = load_robot("ur5e")
    far = arms.with_loops([LoopConstraint("far", "spherical", "tool0", None, at(), at(5.0))])
    assert far.constraints.close(far.mid_joint_q).status_names == ["open"]
    legs = load_robot("stewart")
    platform = columns(legs, "platform_joint")
    high = legs.mid_joint_q.copy()
    high[platform[2]] += 1.0
    found = legs.constraints.close(high, frozen=["platform_joint"])
    assert found.status_names == ["blocked_by_limits"]
    assert (found.joint_q[0, columns(legs, *STEWART.drives)] == mechanisms.LENGTHS[1]).all()


@pytest.mark.parametrize("joint", ["revolute", "helical", "cylindrical", "planar", "weld"])
def test_axes_that_point_in_opposite_directions_are_borne(joint):
    """Rows of some joints have no derivative there; in a plane no step leads away."""
    over, size = (COUPLER, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), {"pitch": 0.1} if joint == "helical" else {}
    flipped = four_bar().with_loops([LoopConstraint("pin", joint, "coupler", "rocker", over, at(ROCKER), **size)])
    constraints, joint_q, rates = flipped.constraints, np.array([np.zeros(3), np.full(3, 0.3)]), np.ones((2, 3))
    found = constraints.close(joint_q)
    assert found.status_names == ["open"] * 2
    assert (found.constraint_error >= 1.5).all()
    assert constraints.partition(found.joint_q).rank.max() <= 3
    assert np.isfinite(constraints.velocity(joint_q, rates).joint_qd).all()
    assert np.isfinite(constraints.acceleration(joint_q, rates, rates).joint_qdd).all()
    assert np.isfinite(constraints.error_gradient(joint_q)).all()
    assert np.isfinite(constraints.error_acceleration(joint_q, rates, rates)).all()


def test_disabled_constraints_are_reported_and_not_closed():
    robot = load_robot("stewart")
    rng = np.random.default_rng(6)
    joint_q = np.repeat(STEWART.configurations(1, rng), 3, axis=0)
    joint_q[:, columns(robot, *STEWART.drives)] -= 0.05
    on = np.ones((3, 6), dtype=bool)
    on[1, 2] = False
    found = robot.constraints.close(joint_q, enabled=on, frozen=["platform_joint"])
    apart = found.constraint_error > CLOSED
    assert found.closed.all()
    alone = robot.constraints.close(joint_q[:1], enabled=on[1], frozen=["platform_joint"])
    np.testing.assert_allclose(alone.joint_q[0], found.joint_q[1], atol=1e-12)
    assert not apart[[0, 2]].any()
    assert apart[1].tolist() == [False, False, True, False, False, False]


def test_locked_and_coupled_joints_are_respected():
    robot = four_bar().lock({"drive": 0.4})
    joint_q = robot.random_joint_q(np.random.default_rng(1), 20)
    found = robot.constraints.close(joint_q)
    assert found.closed.all()
    assert (found.joint_q[:, 0] == 0.4).all()
    gripper = load_robot("panda_gripper")
    follower = gripper.dof_names[int(gripper.follower_dofs[0])]
    finger = gripper.link_names[int(np.argmax(gripper.link_body == gripper.joint_names.index(follower)))]
    place = gripper.forward_kinematics(gripper.mid_joint_q, [finger]).positions[0, 0]
    held = gripper.with_loops([LoopConstraint("touch", "spherical", finger, None, at(), at(*place))])
    found = held.constraints.close(held.random_joint_q(np.random.default_rng(2), 20))
    assert found.closed.all()
    np.testing.assert_array_equal(found.joint_q, held.complete_joint_q(found.joint_q))


@pytest.mark.evidence
def test_a_crank_is_swept_through_a_turn():
    robot = four_bar()
    start = robot.constraints.close(np.zeros(3), frozen=["drive"]).joint_q
    path = robot.constraints.sweep("drive", (0.0, 2.0 * np.pi), 0.05, joint_q=start)
    assert (path.status == 0).all()
    np.testing.assert_allclose(path.values[[0, -1]], [0.0, 2.0 * np.pi])
    np.testing.assert_array_equal(path.joint_q[0, :, 0], path.values)
    modes = np.stack([mechanisms.four_bar(path.values, side)[0] for side in (1.0, -1.0)], axis=1)
    swing = np.angle(np.exp(1j * (path.joint_q[0, :, [2]].T - modes)))
    assert np.abs(swing).min(axis=1).max() <= CLOSED_FORM
    assert len(set(np.abs(swing).argmin(axis=1))) == 1  # one mode all the way
    still = robot.constraints.sweep("drive", (1.0, 0.0), 0.25, joint_q=start, close=False)
    np.testing.assert_array_equal(still.values, [1.0, 0.75, 0.5, 0.25, 0.0])
    np.testing.assert_array_equal(still.joint_q[0, :, 1:], np.tile(start[0, 1:], (5, 1)))
    assert (still.constraint_error[0, 0] > 0.1).all()


@pytest.mark.evidence
@pytest.mark.parametrize("step", [0.7, 1.0, 3.0])
def test_long_steps_of_a_sweep_stay_in_its_mode(step):
    robot = load_robot("four_bar")
    start = robot.constraints.close(robot.mid_joint_q).joint_q[0]
    long, short = (robot.constraints.sweep("crank_joint", (0.0, 6.0), by, joint_q=start) for by in (step, step / 100))
    assert (long.status == 0).all()
    same = short.joint_q[0, ::100][: int(6.0 / step) + 1]
    np.testing.assert_allclose(long.joint_q[0, : len(same)], same, atol=1e-9)


def test_a_closing_joint_is_swept():
    robot = four_bar()
    start = robot.constraints.close(np.array([1.0, 0.0, 0.0])).joint_q
    pin = float(robot.constraints.with_closing_joints(start)[0, 3])
    path = robot.constraints.sweep("pin", (pin, pin + 0.3), 0.1, joint_q=start)
    assert (path.status == 0).all()
    np.testing.assert_allclose(path.closing_joint_q[0, :, 0], path.values, atol=CLOSED_FORM)
    measured = robot.constraints.with_closing_joints(path.joint_q[0])[:, 3]
    np.testing.assert_allclose(measured, path.values, atol=CLOSED_FORM)
    assert path.constraint_error.max() <= 10.0 * CLOSED


def test_a_sweep_passes_limits_and_says_so_and_no_follower_is_swept():
    leader = joint("x", "revolute", "base", "a", axis="0 0 1", limit=(-1, 1, 1))
    follower = joint("y", "revolute", "base", "b", axis="0 0 1", limit=(-1, 1, 1), mimic=("x", 0.5))
    constraints = load_urdf(urdf("r", "base", leader, follower)).constraints
    path = constraints.sweep("x", (0.0, 3.0), 1.0)
    np.testing.assert_allclose(path.joint_q[0, :, 0], path.values)
    assert path.status[0].tolist() == [0, 0, *[ClosureStatus.BLOCKED_BY_LIMITS] * 2]
    with pytest.raises(InputError, match="Joint 'y' follows 'x'"):
        constraints.sweep("y", (0.0, 0.4), 0.2)


def test_the_distance_of_configurations_is_that_of_their_coordinates():
    robot = load_robot("panda")
    first, second = robot.random_joint_q(np.random.default_rng(3), 2)
    apart = distance(robot, np.array([first, first]), np.array([first, second]))
    np.testing.assert_allclose(apart, [0.0, np.linalg.norm(first - second)], rtol=1e-12)
    assert apart[1] > 1.0

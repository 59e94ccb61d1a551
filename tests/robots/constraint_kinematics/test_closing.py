"""Closing loops from anywhere: all of them, with frozen joints to the bit, within limits, in every mode."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.robots import LoopConstraint
from ik_service.robots.transforms import quaternion_exp, quaternion_rotate
from objectives.errors import InputError
from tests.robots.constraint_kinematics.mechanisms import (
    LEG_ENDS,
    LEG_ROOTS,
    at,
    branches,
    delta,
    delta_platform,
    four_bar,
    rocker_angles,
    stewart,
)

COUNT = 1000
CLOSED = 1e-10
CLOSED_FORM = 1e-9
SHARE = 0.995


def columns(robot, *joints):
    """Coordinates of joints."""
    return [k for k, name in enumerate(robot.coordinate_names) if name.split("/")[0] in joints]


def four_bar_starts(rng):
    robot = four_bar()
    return robot, robot.random_joint_q(rng, COUNT), ["drive"]


def delta_starts(rng):
    robot = delta()
    joint_q = np.tile(robot.mid_joint_q, (COUNT, 1))
    drives = ["drive0", "drive1", "drive2"]
    joint_q[:, columns(robot, *drives)] = rng.uniform(-0.6, 1.4, (COUNT, 3))
    joint_q[:, columns(robot, "hang")[:3]] = rng.normal([0.0, 0.0, -0.6], 0.1, (COUNT, 3))
    return robot, joint_q, drives


def stewart_starts(rng):
    """Legs of random poses, and everything else perturbed."""
    robot = stewart()
    closed, _ = stewart_poses(rng, robot)
    joint_q = robot.integrate(closed, rng.normal(scale=0.1, size=(COUNT, robot.joint_dof_count)))
    legs = [f"leg{k}" for k in range(6)]
    joint_q[:, columns(robot, *legs)] = closed[:, columns(robot, *legs)]
    return robot, joint_q, legs


def stewart_poses(rng, robot):
    pose = np.column_stack(
        [
            rng.uniform(-0.1, 0.1, (COUNT, 2)),
            rng.uniform(0.6, 0.9, COUNT),
            quaternion_exp(rng.uniform(-0.3, 0.3, (COUNT, 3))),
        ]
    )
    joint_q = np.tile(robot.mid_joint_q, (COUNT, 1))
    joint_q[:, columns(robot, "top")] = pose
    found = robot.constraints.close(joint_q, frozen=["top"])
    assert found.closed.all()
    return found.joint_q, pose


@pytest.mark.parametrize("starts", [four_bar_starts, delta_starts, stewart_starts])
def test_perturbed_mechanisms_close_with_their_drives_frozen(starts):
    robot, joint_q, drives = starts(np.random.default_rng(11))
    found = robot.constraints.close(joint_q, frozen=drives)
    assert found.closed.mean() >= SHARE
    assert np.abs(robot.constraints.error(found.joint_q[found.closed])).max() <= 10.0 * CLOSED
    assert found.constraint_error[found.closed].max() <= CLOSED
    frozen = columns(robot, *drives)
    assert found.joint_q[:, frozen].tobytes() == joint_q[:, frozen].tobytes()
    free = robot.dof_coordinate[robot.active_dof] >= 0
    coordinate = robot.dof_coordinate[robot.active_dof][free]
    assert (found.joint_q[:, coordinate] >= robot.active_limit_lower[free]).all()
    assert (found.joint_q[:, coordinate] <= robot.active_limit_upper[free]).all()


def test_both_modes_of_a_four_bar_are_those_of_the_closed_form():
    robot, joint_q, _ = four_bar_starts(np.random.default_rng(12))
    joint_q = joint_q[:200]
    found = robot.constraints.close(joint_q, frozen=["drive"], solutions=4)
    assert (found.solution_count == 2).all()
    swing = robot.coordinate_names.index("swing")
    modes, expected = found.solutions[:, :2, swing], rocker_angles(joint_q[:, 0])
    apart = np.abs(np.angle(np.exp(1j * (modes[:, :, np.newaxis] - expected[:, np.newaxis]))))
    assert apart.min(axis=2).max() <= CLOSED_FORM
    assert (np.sort(apart.argmin(axis=2), axis=1) == [0, 1]).all()
    assert np.isnan(found.solutions[:, 2:]).all()
    np.testing.assert_array_equal(found.solutions[:, 0], found.joint_q)
    way = np.linalg.norm(found.solutions[:, :2] - joint_q[:, np.newaxis], axis=2)
    assert (way[:, 0] <= way[:, 1]).mean() > 0.6  # the first one is found from the start, and is mostly the nearest


def test_a_mode_is_looked_for_with_what_drives_the_mechanism_held():
    robot = four_bar()
    found = robot.constraints.close(robot.random_joint_q(np.random.default_rng(2), 20), solutions=2)
    assert (found.solution_count == 2).all()
    held = np.ptp(found.solutions, axis=1) < 1e-12
    assert (held.sum(axis=1) == 1).all()


def test_the_platform_of_a_delta_is_where_three_spheres_meet():
    robot, joint_q, drives = delta_starts(np.random.default_rng(13))
    found = robot.constraints.close(joint_q, frozen=drives)
    hang = columns(robot, "hang")
    expected = delta_platform(joint_q[:, columns(robot, *drives)])
    np.testing.assert_allclose(found.joint_q[:, hang[:3]], expected, atol=CLOSED_FORM)
    np.testing.assert_allclose(np.abs(found.joint_q[:, hang[6]]), 1.0, atol=CLOSED_FORM)
    assert np.ptp(expected, axis=0).min() > 0.1


def test_the_legs_of_a_stewart_platform_are_as_long_as_its_pose_says():
    robot = stewart()
    joint_q, pose = stewart_poses(np.random.default_rng(14), robot)
    ends = np.broadcast_to(LEG_ENDS, (COUNT, 6, 3))
    way = pose[:, np.newaxis, :3] + quaternion_rotate(pose[:, np.newaxis, 3:], ends) - LEG_ROOTS
    legs = columns(robot, *(f"leg{k}" for k in range(6)))
    np.testing.assert_allclose(joint_q[:, legs], np.linalg.norm(way, axis=2), atol=CLOSED_FORM)
    back = joint_q.copy()
    back[:, columns(robot, "top")[:3]] += np.random.default_rng(15).normal(scale=0.05, size=(COUNT, 3))
    found = robot.constraints.close(back, frozen=[f"leg{k}" for k in range(6)])
    same = np.abs(found.joint_q[:, columns(robot, "top")] - pose).max(axis=1) <= CLOSED_FORM
    assert same.mean() >= 0.99  # the others closed in another mode


@pytest.mark.parametrize("joint", ["weld", "helical", "universal", "distance"])
def test_a_frozen_quaternion_stays_to_the_bit(joint):
    robot = branches([joint], closed_at=branches().random_joint_q(np.random.default_rng(3), 1))
    joint_q = robot.random_joint_q(np.random.default_rng(4), 30)
    found = robot.constraints.close(joint_q, frozen=["shoulder"])
    assert found.closed.all()
    frozen = columns(robot, "shoulder")
    assert found.joint_q[:, frozen].tobytes() == joint_q[:, frozen].tobytes()
    assert np.abs(robot.constraints.error(found.joint_q)).max() <= 10.0 * CLOSED


def test_loops_that_cannot_close_say_why():
    open_bar = four_bar(rocker=1.5)
    found = open_bar.constraints.close(open_bar.random_joint_q(np.random.default_rng(0), 3))
    assert found.status_names == ["open"] * 3
    assert (found.constraint_error > 0.1).all()
    arms = load_robot("ur5e")
    far = arms.with_loops([LoopConstraint("far", "spherical", "tool0", None, at(), at(5.0))])
    assert far.constraints.close(far.mid_joint_q).status_names == ["open"]
    legs = stewart()
    high = legs.mid_joint_q.copy()
    high[2] = 3.0
    found = legs.constraints.close(high, frozen=["top"])
    assert found.status_names == ["blocked_by_limits"]
    assert (found.joint_q[0, columns(legs, "leg0")] == 1.5).all()


def test_disabled_constraints_are_reported_and_not_closed():
    robot = stewart()
    rng = np.random.default_rng(6)
    joint_q = np.repeat(robot.random_joint_q(rng, 1), 3, axis=0)
    on = np.ones((3, 6), dtype=bool)
    on[1, 2] = False
    found = robot.constraints.close(joint_q, enabled=on, frozen=["top"])
    apart = found.constraint_error > CLOSED
    assert found.closed.all()
    alone = robot.constraints.close(joint_q[:1], enabled=on[1], frozen=["top"])
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


def test_the_same_seed_gives_the_same_bytes():
    robot, joint_q, drives = four_bar_starts(np.random.default_rng(21))
    one, two = (robot.constraints.close(joint_q[:30], drives, solutions=3, seed=7) for _ in range(2))
    assert one.solutions.tobytes() == two.solutions.tobytes()


def test_a_crank_is_swept_through_a_turn():
    robot = four_bar()
    start = robot.constraints.close(np.zeros(3), frozen=["drive"]).joint_q
    path = robot.constraints.sweep("drive", (0.0, 2.0 * np.pi), 0.05, joint_q=start)
    assert (path.status == 0).all()
    np.testing.assert_allclose(path.values[[0, -1]], [0.0, 2.0 * np.pi])
    np.testing.assert_array_equal(path.joint_q[0, :, 0], path.values)
    swing = np.angle(np.exp(1j * (path.joint_q[0, :, [2]].T - rocker_angles(path.values))))
    assert np.abs(swing).min(axis=1).max() <= CLOSED_FORM
    assert len(set(np.abs(swing).argmin(axis=1))) == 1  # one mode all the way
    still = robot.constraints.sweep("drive", (1.0, 0.0), 0.25, joint_q=start, close=False)
    np.testing.assert_array_equal(still.values, [1.0, 0.75, 0.5, 0.25, 0.0])
    np.testing.assert_array_equal(still.joint_q[0, :, 1:], np.tile(start[0, 1:], (5, 1)))
    assert (still.constraint_error[0, 0] > 0.1).all()


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


def test_a_quaternion_is_not_swept():
    robot = branches(["weld"])
    with pytest.raises(InputError, match="its coordinates are a quaternion"):
        robot.constraints.sweep("shoulder", (0.0, 1.0), 0.1)

"""The compiled check of any configurations, against the check on the host."""

import re

import numpy as np
import pytest

from ik_service import CollisionChecker, load_robot
from ik_service.robots import AttachedObject, Box, DistanceGrid, World
from objectives import InputError, UnknownNameError

ROUNDING = 1e-12  # [m] both sides compute in float64
BALL = DistanceGrid.sampled(
    lambda points: np.linalg.norm(points, axis=-1) - 0.1, (-0.2, -0.2, -0.2), (0.2, 0.2, 0.2), spacing=0.05
)
WORLD = World(
    {"table": Box((2.0, 2.0, 0.1), (0, 0, -0.1, 0, 0, 0, 1)), "ball": BALL.placed((0.4, 0.2, 0.5, 0, 0, 0, 1))}
)
CARRIED = {"rod": AttachedObject("panda_hand", [[0, 0, 0.15, 0.02], [0, 0, 0.2, 0.02]])}
CASES = {
    "alone": ("panda", None, {}),
    "in a world": ("panda", WORLD, {}),
    "carrying": ("panda_gripper", WORLD, CARRIED),
    "floating": ("humanoid", WORLD, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_clearances_and_closest_pairs_are_those_of_the_host(case):
    name, world, attached = CASES[case]
    robot = load_robot(name)
    joint_q = 2.0 * robot.random_joint_q(np.random.default_rng(0), 300)  # beyond limits; quaternions not unit
    checker, expected = CollisionChecker(robot, world, attached), robot.collision(joint_q, world, attached=attached)
    assert expected.is_free.any()
    assert not expected.is_free.all()
    for rows in (slice(0, 1), slice(None), slice(1, 4)):  # room grows, and is kept
        found = checker.check(joint_q[rows])
        np.testing.assert_allclose(found.clearance, expected.clearance[rows], atol=ROUNDING)
        np.testing.assert_array_equal(found.closest, expected.closest[rows])
        assert found.closest_pairs == expected.closest_pairs[rows]
    assert checker.check(joint_q[0]).clearance.shape == (1,)
    assert checker.check(joint_q[:0]).clearance.shape == (0,)


def test_answers_of_a_checker_are_not_overwritten_by_the_next():
    robot = load_robot("panda")
    checker, joint_q = CollisionChecker(robot), robot.random_joint_q(np.random.default_rng(1), 2)
    first = checker.check(joint_q[0])
    kept = first.clearance.copy()
    assert checker.check(joint_q[1]).clearance != kept
    np.testing.assert_array_equal(first.clearance, kept)


def test_what_cannot_be_checked_is_refused():
    robot = load_robot("panda")
    with pytest.raises(InputError, match="'panda' has no collision model"):
        CollisionChecker(robot.with_collision_model(None))
    with pytest.raises(UnknownNameError, match="wrist"):
        CollisionChecker(robot, attached={"rod": AttachedObject("wrist", [[0, 0, 0, 0.1]])})
    with pytest.raises(InputError, match=re.escape("joint_q has shape [6]")):
        CollisionChecker(robot).check(np.zeros(6))


def test_what_is_no_robot_no_world_or_too_large_is_refused():
    panda = load_robot("panda")
    for robot, world in (("panda", None), (panda, [WORLD]), (panda, "cell.json")):
        with pytest.raises(InputError, match="must be a RobotModel and one World or None, got"):
            CollisionChecker(robot, world)
    with pytest.raises(InputError, match="numbers above 1e"):
        CollisionChecker(panda).check(1e10 * np.ones(7))

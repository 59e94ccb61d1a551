"""Clearance of robots that are put beyond the limits of their joints."""

from itertools import pairwise

import numpy as np
import pytest

from ik_service.control import ControlLimits, IKController
from ik_service.robots import CollisionModel, Sphere, World, load_urdf
from tests.control.conftest import pose_of
from tests.robots.urdf_text import joint, urdf

MARGIN = 0.01
TURN = joint("turn", "revolute", "base", "mast", axis="0 0 1", limit=(-3, 3, 2))
BOOM = urdf("boom", "base", TURN, joint("slide", "prismatic", "mast", "tip", axis="1 0 0", limit=(0, 0.2, 0.01)))


@pytest.mark.parametrize("as_measured", [False, True], ids=["reset", "measured"])
def test_a_robot_that_is_put_beyond_its_limits_does_not_jump_through_an_obstacle(as_measured):
    """Its tip is further from the joint that turns it than limits let it be."""
    robot = load_urdf(BOOM).with_collision_model(CollisionModel({"tip": [[0, 0, 0, 0.03]]}, []))
    start = np.array([0.0, 5.0])
    world = World({"ball": Sphere(0.03, (5.0 * np.cos(0.7), 5.0 * np.sin(0.7), 0.0))})
    target = pose_of(robot, np.array([1.5, 5.0]), "tip")
    controller = IKController(robot, ["tip"], limits=ControlLimits(clearance=MARGIN), world=world)
    q = [start]
    if not as_measured:
        controller.reset(start)
    for _ in range(8):
        found = controller.step(target, dt=0.1, joint_q=q[-1] if as_measured else None)
        q.append(found.joint_q[0].copy())
    between = [a + s * (b - a) for a, b in pairwise(q) for s in np.linspace(0.0, 1.0, 200)]
    assert robot.collision(np.array(between), world).clearance.min() >= MARGIN
    assert q[-1][0] > 0.3  # it moves

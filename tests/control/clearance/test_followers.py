"""Clearance where joints slide, and where a joint follows another that a controller moves."""

import numpy as np
import pytest

from ik_service.control import ControlLimits, LimitKind
from ik_service.robots import CollisionModel, Cylinder, HalfSpace, World, load_urdf
from tests.control.clearance.test_clearance_limit import DT, MARGIN, ticks
from tests.control.conftest import begun, last_of
from tests.robots.urdf_text import joint, urdf

SLIDING = ["prismatic", "arm"]
OPEN = joint("open", *SLIDING, "left", "0.3 0.05 0", "", "0 1 0", (0, 0.1, 0.3))
FOLLOW = joint("follow", *SLIDING, "right", "0.3 -0.05 0", "", "0 -1 0", (0, 0.1, 0.3), ("open", 0.8))
DRIVE = joint("drive", "planar", "world", "base", axis="0 0 1") + joint(
    "turn", "continuous", "base", "arm", axis="0 0 1"
)
RING = [(0.8 * np.cos(angle), 0.8 * np.sin(angle)) for angle in np.linspace(0.3, 2.0 * np.pi + 0.3, 6, endpoint=False)]


def test_a_follower_that_comes_near_slows_its_leader():
    robot = load_urdf(urdf("hand", "arm", OPEN, FOLLOW))
    robot = robot.with_collision_model(CollisionModel({"right": [[0.0, 0.0, 0.0, 0.03]]}, []))
    world = World({"wall": HalfSpace((0.0, 1.0, 0.0), -0.15)})
    controller = begun(robot, ["left"], np.zeros(2), limits=ControlLimits(clearance=MARGIN), world=world)
    result = last_of(controller, 300, [0.3, 0.15, 0.0, 0.0, 0.0, 0.0, 1.0], dt=DT)
    assert MARGIN <= robot.collision(result.joint_q, world).clearance[0] < MARGIN + 0.01
    assert 0.001 < result.joint_qd[0, 0] < 0.1  # the wall is near the follower alone
    assert result.blocking() == {"open": LimitKind.CLEARANCE}


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 5.0])
def test_planar_sliding_and_following_joints_keep_clear(acceleration):
    spheres = {"base": [[0.0, 0.0, 0.0, 0.1]], "arm": [[0.2, 0.0, 0.0, 0.04]]}
    spheres |= {side: [[0.0, 0.0, 0.0, 0.03]] for side in ("left", "right")}
    model = CollisionModel(spheres, [("left", "right"), ("base", "left"), ("base", "right")])
    robot = load_urdf(urdf("slides", "world", DRIVE, OPEN, FOLLOW)).with_collision_model(model)
    rng = np.random.default_rng(0)
    posts = {f"post_{k}": Cylinder(0.05, 1.0, (*at, 0.0, 0.0, 0.0, 0.0, 1.0)) for k, at in enumerate(RING)}
    world, limits = World(posts), ControlLimits(clearance=MARGIN, acceleration=acceleration, velocity=1.0)
    controller = begun(robot, ["left"], robot.mid_joint_q, limits=limits, world=world)
    assert robot.collision(robot.mid_joint_q, world).clearance[0] > MARGIN
    targets = []
    for _ in range(10):
        angle = rng.uniform(-np.pi, np.pi)
        targets.append([*rng.uniform(-1.2, 1.2, 2), 0.0, 0.0, 0.0, np.sin(0.5 * angle), np.cos(0.5 * angle)])
    found = ticks(controller, np.array(targets)[:, None], 800)
    judged = robot.collision(found["joint_q"], world).clearance
    assert judged.min() >= MARGIN
    assert (judged < MARGIN + 0.005).sum() > 50
    assert np.ptp(found["joint_q"], axis=0).min() > 0.02  # every joint has moved

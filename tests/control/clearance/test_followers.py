"""Clearance where joints slide or follow others that a controller moves, and where they are beyond their limits."""

from itertools import pairwise

import numpy as np
import pytest

from ik_service.control import ControlLimits, IKController, LimitKind
from ik_service.robots import CollisionModel, Cylinder, HalfSpace, Sphere, World, load_urdf
from tests.control.clearance.test_clearance_limit import DT, MARGIN, ticks
from tests.control.conftest import begun, last_of, pose_of
from tests.robots.urdf_text import joint, urdf

SLIDING = ["prismatic", "arm"]
OPEN = joint("open", *SLIDING, "left", "0.3 0.05 0", "", "0 1 0", (0, 0.1, 0.3))
FOLLOW = joint("follow", *SLIDING, "right", "0.3 -0.05 0", "", "0 -1 0", (0, 0.1, 0.3), ("open", 0.8))
DRIVE = joint("drive", "planar", "world", "base", axis="0 0 1") + joint(
    "turn", "continuous", "base", "arm", axis="0 0 1"
)
TURN = joint("turn", "revolute", "base", "mast", axis="0 0 1", limit=(-3, 3, 2))
BOOM = urdf("boom", "base", TURN, joint("slide", "prismatic", "mast", "tip", axis="1 0 0", limit=(0, 0.2, 0.01)))
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

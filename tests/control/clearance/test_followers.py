"""Clearance where joints slide, and where a joint follows another that a controller moves."""

import numpy as np
import pytest

from ik_service.control import ControlLimits, IKController, LimitKind
from ik_service.robots import CollisionModel, Cylinder, HalfSpace, World, load_urdf
from tests.control.clearance.test_clearance_limit import DT, MARGIN, ticks

SLIDES = """<robot name="slides"><link name="world"/><link name="base"/><link name="arm"/><link name="left"/>
<link name="right"/>
<joint name="drive" type="planar"><parent link="world"/><child link="base"/><axis xyz="0 0 1"/></joint>
<joint name="turn" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
<joint name="open" type="prismatic"><parent link="arm"/><child link="left"/><origin xyz="0.3 0.05 0"/>
<axis xyz="0 1 0"/><limit lower="0" upper="0.1" velocity="0.3"/></joint>
<joint name="follow" type="prismatic"><parent link="arm"/><child link="right"/><origin xyz="0.3 -0.05 0"/>
<axis xyz="0 -1 0"/><limit lower="0" upper="0.1" velocity="0.3"/><mimic joint="open" multiplier="0.8"/></joint>
</robot>"""
RING = [(0.8 * np.cos(angle), 0.8 * np.sin(angle)) for angle in np.linspace(0.3, 2.0 * np.pi + 0.3, 6, endpoint=False)]


def test_a_follower_that_comes_near_slows_its_leader():
    text = '<robot name="hand"><link name="arm"/><link name="left"/><link name="right"/>'
    robot = load_urdf(text + SLIDES[SLIDES.index('<joint name="open"') :])
    robot = robot.with_collision_model(CollisionModel({"right": [[0.0, 0.0, 0.0, 0.03]]}, []))
    world = World({"wall": HalfSpace((0.0, 1.0, 0.0), -0.15)})
    controller = IKController(robot, ["left"], limits=ControlLimits(clearance=MARGIN), world=world)
    controller.reset(np.zeros(2))
    for _ in range(300):
        result = controller.step([0.3, 0.15, 0.0, 0.0, 0.0, 0.0, 1.0], dt=DT)
    assert MARGIN <= robot.collision(result.joint_q, world).clearance[0] < MARGIN + 0.01
    assert 0.001 < result.joint_qd[0, 0] < 0.1  # the wall is near the follower alone
    assert result.blocking() == {"open": LimitKind.CLEARANCE}


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 5.0])
def test_planar_sliding_and_following_joints_keep_clear(acceleration):
    spheres = {
        "base": [[0.0, 0.0, 0.0, 0.1]],
        "arm": [[0.2, 0.0, 0.0, 0.04]],
        "left": [[0.0, 0.0, 0.0, 0.03]],
        "right": [[0.0, 0.0, 0.0, 0.03]],
    }
    model = CollisionModel(spheres, [("left", "right"), ("base", "left"), ("base", "right")])
    robot = load_urdf(SLIDES).with_collision_model(model)
    rng = np.random.default_rng(0)
    posts = {f"post_{k}": Cylinder(0.05, 1.0, (*at, 0.0, 0.0, 0.0, 0.0, 1.0)) for k, at in enumerate(RING)}
    world, limits = World(posts), ControlLimits(clearance=MARGIN, acceleration=acceleration, velocity=1.0)
    controller = IKController(robot, ["left"], limits=limits, world=world)
    start = robot.mid_joint_q.copy()
    assert robot.collision(start, world).clearance[0] > MARGIN
    controller.reset(start)
    targets = []
    for _ in range(10):
        angle = rng.uniform(-np.pi, np.pi)
        targets.append([*rng.uniform(-1.2, 1.2, 2), 0.0, 0.0, 0.0, np.sin(0.5 * angle), np.cos(0.5 * angle)])
    found = ticks(controller, np.array(targets)[:, None], 800)
    judged = robot.collision(found["joint_q"], world).clearance
    assert judged.min() >= MARGIN
    assert (judged < MARGIN + 0.005).sum() > 50
    assert np.ptp(found["joint_q"], axis=0).min() > 0.02  # every joint has moved

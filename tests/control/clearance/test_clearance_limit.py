"""Clearance as a limit of a controller: judged in every tick by spheres on the host, in float64."""

from itertools import pairwise

import numpy as np
import pytest
from warp._src import context

from ik_service import Target, load_robot
from ik_service.control import ControlLimits, IKController, LimitKind
from ik_service.robots import AttachedObject, Box, CollisionModel, Cylinder, HalfSpace, Sphere, World, load_urdf
from ik_service.solver.lm.status import IKStatus
from objectives import InputError
from tests.control.conftest import ARMS, HOME, LINK, assert_within_limits, begun, last_of, pose_of
from tests.robots.urdf_text import joint, urdf

MARGIN, DT, ROUNDING = 0.01, 1e-3, 1e-9
SIDE = (-0.15, -0.05, 0.05, 0.15)
PLATE = AttachedObject(LINK, [[x, y, 0.16, 0.04] for x in SIDE for y in SIDE])


def cell(count=20, seed=3):
    """Boxes, balls and cylinders around a robot's base."""
    rng, objects = np.random.default_rng(seed), {}
    while len(objects) < count:
        at = rng.uniform([-0.8, -0.8, 0.0], [0.8, 0.8, 1.1])
        if np.hypot(*at[:2]) < 0.3:
            continue
        pose, name = (*at, 0.0, 0.0, 0.0, 1.0), f"object_{len(objects)}"
        shapes = (Box((0.1, 0.1, 0.15), pose), Sphere(0.06, tuple(at)), Cylinder(0.05, 0.2, pose))
        objects[name] = shapes[len(objects) % 3]
    return World(objects)


def ticks(controller, targets, each):
    """Results of a controller that is sent to targets one after the other."""
    found = [controller.step(target, dt=DT).copy() for target in targets for _ in range(each)]
    stacked = {name: np.array([getattr(one, name)[0] for one in found]) for name in ("joint_q", "clearance", "success")}
    return stacked | {"status": np.array([one.status[0] for one in found]), "results": found}


def random_targets(robot, links, count, seed):
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(seed), count), links)
    return np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)


def free_start(robot, world, seed=0):
    drawn = robot.random_free_joint_q(np.random.default_rng(seed), 50, world)
    return drawn[np.argmax(robot.collision(drawn, world).clearance)]


CASES = {
    "panda": ("panda", [LINK], {}, True, MARGIN),
    "panda, accelerations": ("panda", [LINK], {"acceleration": 10.0}, True, MARGIN),
    "panda, steps": ("panda", [LINK], {"joint_step": 0.05}, True, MARGIN),
    "panda, by itself": ("panda", [LINK], {"acceleration": 20.0}, False, 0.02),
    "two arms": ("dual_panda", [*ARMS], {"acceleration": 10.0}, False, MARGIN),
}


@pytest.mark.evidence_cases("panda, accelerations", "panda, steps", "two arms")
@pytest.mark.parametrize("case", CASES)
def test_no_tick_is_nearer_than_the_clearance(case):
    name, links, more, in_cell, margin = CASES[case]
    robot, world = load_robot(name), cell() if in_cell else None
    limits = ControlLimits(clearance=margin, **more)
    start = free_start(robot, world)
    controller = begun(robot, links, start, limits=limits, world=world)
    found = ticks(controller, random_targets(robot, links, 8, seed=4), 800)
    judged = robot.collision(found["joint_q"], world).clearance
    assert judged.min() >= margin
    assert (judged < margin + 0.005).sum() > 50  # it was near often enough to be tried
    seen = found["clearance"] < margin + 0.1
    np.testing.assert_allclose(found["clearance"][seen], judged[seen], atol=1e-5)
    assert (judged[~seen] > margin + 0.099).all()
    assert_within_limits(robot, found["joint_q"], start, DT, more.get("acceleration"))
    steps = np.diff(found["joint_q"], axis=0, prepend=start[None])
    assert np.abs(steps).max() <= more.get("joint_step", np.inf) + ROUNDING
    assert IKStatus.BLOCKED_BY_COLLISION in found["status"]
    assert not found["success"][judged < margin].any()


@pytest.mark.evidence
def test_long_ticks_do_not_jump_through_an_obstacle(panda):
    """A ball between here and there, and ticks in which a hand moves further than the ball is wide."""
    target = pose_of(panda, [1.5, *HOME[1:]], LINK)
    world = World({"ball": Sphere(0.03, tuple(pose_of(panda, [0.75, *HOME[1:]], LINK)[:3]))})

    def least(**options):
        controller = begun(panda, [LINK], HOME, **options)
        q = [HOME, *(controller.step(target, dt=0.4).joint_q[0].copy() for _ in range(20))]
        ways = [a + s * (b - a) for a, b in pairwise(q) for s in np.linspace(0, 1, 200)]
        return panda.collision(np.array(ways), world).clearance.min()

    assert least(limits=ControlLimits(clearance=MARGIN), world=world) >= MARGIN
    assert least() < 0.0  # the ball is in the way


@pytest.mark.evidence
def test_a_hand_slides_along_a_wall_to_the_nearest_place(panda):
    """The target is behind a wall; sideways it is met, and the wall is kept off."""
    target = pose_of(panda, HOME, LINK, [0.4, 0.25, -0.1])
    world = World({"wall": HalfSpace((-1.0, 0.0, 0.0), -(target[0] - 0.4 + 0.12))})
    place = Target(LINK, row_weights=[1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    controller = begun(panda, [place], HOME, limits=ControlLimits(clearance=MARGIN), world=world)
    result = last_of(controller, 4000, target)
    reached = pose_of(panda, result.joint_q[0], LINK)
    assert MARGIN <= panda.collision(result.joint_q, world).clearance[0] < MARGIN + 0.002
    np.testing.assert_allclose(reached[1:3], target[1:3], atol=2e-3)
    assert result.status[0] == IKStatus.BLOCKED_BY_COLLISION
    assert not result.success[0]
    assert LimitKind.CLEARANCE in result.blocking().values()


@pytest.mark.evidence
def test_a_redundant_arm_gives_way_and_still_meets_its_target(panda):
    """A ball comes to the elbow while the hand is to stay where it is."""
    target, nearest = pose_of(panda, HOME, LINK), np.inf
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(clearance=MARGIN))
    for k in range(1500):
        place = pose_of(panda, HOME, "panda_link4", [0.0, 0.3 - 0.0002 * min(k, 1000), 0.0])[:3]
        world = World({"ball": Sphere(0.05, tuple(place))})
        controller.set_world(world)
        result = controller.step(target)
        nearest = min(nearest, panda.collision(result.joint_q, world).clearance[0])
    assert nearest > 0.8 * MARGIN  # the ball moves, which no limit promises anything about
    assert panda.collision(HOME, world).clearance[0] < MARGIN
    assert result.success[0]
    assert result.position_error[0, 0] < 1e-3


def test_robots_that_are_too_near_come_apart_and_tell_so(panda):
    margin, center = 0.02, pose_of(panda, HOME, LINK, [0.0, 0.0, -0.3])[:3]
    worlds = [World({"ball": Sphere(radius, tuple(center))}) for radius in np.linspace(0.01, 0.3, 200)]
    clearances = np.array([panda.collision(HOME, world).clearance[0] for world in worlds])
    nearest = np.flatnonzero(clearances > 0.008)[-1]
    world, before = worlds[nearest], clearances[nearest]
    assert before < 0.5 * margin
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(clearance=margin, acceleration=10.0), world=world)
    found = ticks(controller, [pose_of(panda, HOME, LINK)], 800)
    judged = panda.collision(found["joint_q"], world).clearance
    assert judged.min() > before - 5e-4
    assert judged[-1] >= margin
    assert not found["success"][judged < margin].any()
    assert (found["status"][judged < margin] == IKStatus.BLOCKED_BY_COLLISION).all()


@pytest.mark.evidence
def test_links_that_nothing_parts_hold_nothing_back():
    """Spheres of two links of a UR5e are 0.6 mm apart whatever the joints do."""
    robot = load_robot("ur5e")
    start, goal = (robot.random_free_joint_q(np.random.default_rng(seed), 1)[0] for seed in (0, 3))
    controller = begun(robot, ["tool0"], start, limits=ControlLimits(clearance=MARGIN, acceleration=20.0))
    result = last_of(controller, 4000, pose_of(robot, goal, "tool0"))
    assert result.success[0]
    assert result.clearance[0] > MARGIN
    assert robot.collision(result.joint_q).clearance[0] < 0.001


@pytest.mark.parametrize("limits", [{}, {"acceleration": 10.0}], ids=["speeds", "accelerations"])
def test_targets_without_numbers_leave_a_robot_where_it_is(panda, limits):
    world, behind = World({"wall": HalfSpace((-1.0, 0.0, 0.0), -0.6)}), pose_of(panda, HOME, LINK, [0.4, 0.1, 0.0])
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(clearance=MARGIN, **limits), world=world)
    before = last_of(controller, 1001, behind).copy()
    assert before.clearance[0] < MARGIN + 0.005
    for _ in range(300):
        result = controller.step(np.full(7, np.nan))
        assert result.status[0] in (IKStatus.INVALID, IKStatus.BLOCKED_BY_COLLISION)
        assert np.isfinite(result.joint_q).all()
    assert np.abs(result.joint_q - before.joint_q).max() < 0.05
    assert not result.joint_qd.any()
    result = last_of(controller, 200, behind)
    assert result.status[0] == IKStatus.BLOCKED_BY_COLLISION
    options = {"limits": ControlLimits(clearance=MARGIN, **limits), "world": World({})}
    fresh = begun(panda, [LINK], result.joint_q[0], **options)  # no target was ever given to it
    assert np.isfinite(fresh.step().joint_q).all()


@pytest.mark.evidence
def test_a_target_without_numbers_leaves_the_other_arm_alone(dual):
    start, targets = free_start(dual, None), random_targets(dual, ARMS, 1, seed=2)[0]
    targets[0] = np.nan
    found = ticks(begun(dual, ARMS, start, limits=ControlLimits(clearance=MARGIN)), [targets], 600)
    assert np.isfinite(found["joint_q"]).all()
    assert (found["joint_q"][-1, :7] == start[:7]).all()
    assert np.abs(found["joint_q"][-1, 7:] - start[7:]).max() > 0.1
    assert dual.collision(found["joint_q"]).clearance.min() >= MARGIN


@pytest.mark.evidence
@pytest.mark.parametrize("links", [ARMS[1:], ARMS])
def test_a_robot_of_which_a_joint_is_not_known_brakes(dual, links):
    """Of the left arm nobody knows where it is: the right one, which could run into it, stops."""
    limits, targets = ControlLimits(clearance=MARGIN, acceleration=10.0), random_targets(dual, links, 1, seed=2)[0]
    controller = begun(dual, links, free_start(dual, None), limits=limits)
    result = last_of(controller, 200, targets)
    assert np.abs(result.joint_qd[0, 7:]).max() > 0.1
    for _ in range(400):
        unknown = result.joint_q[0].copy()
        unknown[3] = np.nan
        result = controller.step(targets, unknown)
        assert not result.success[0]
        assert np.isnan(result.clearance[0])
    assert not result.joint_qd[0, 7:].any()
    assert np.isfinite(result.joint_q).all()


def test_a_deadline_keeps_clearance_too(panda):
    world, found = cell(), []
    controller = begun(panda, [LINK], free_start(panda, world), limits=ControlLimits(clearance=MARGIN), world=world)
    for target in random_targets(panda, [LINK], 4, seed=9):
        found += [controller.step(target, deadline_ns=0).joint_q[0].copy() for _ in range(800)]
    judged = panda.collision(np.array(found), world).clearance
    assert judged.min() >= MARGIN
    assert (judged < MARGIN + 0.005).sum() > 50


def test_other_obstacles_compile_nothing(panda, monkeypatch):
    controller, far = begun(panda, [LINK], HOME, limits=ControlLimits(clearance=MARGIN)), pose_of(panda, HOME, LINK)
    controller.warmup()
    monkeypatch.setattr(context.Module, "_compile", lambda *_, **__: pytest.fail("compiled"))
    far[2] -= 0.4
    for count in (0, 1, 40):
        objects = {f"ball_{k}": Sphere(0.02, (0.7, 0.1 * k, 1.5)) for k in range(count)}
        objects |= {"floor": HalfSpace((0.0, 0.0, 1.0), far[2] + 0.2)} if count else {}
        controller.set_world(World(objects) if count else None)
        controller.reset(HOME)
        result = last_of(controller, 1500, far)
        assert (result.clearance[0] < MARGIN + 0.002) == (count > 0)
        assert result.success[0] == (count == 0)


# Its face is 0.7 m away; float32 would have it 3 mm off.
FAR_FACE = World({"wall": Box((4e5, 4e5, 4e5), (0.7 + 2e5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))})


@pytest.mark.parametrize(
    ("robot", "link", "options", "match"),
    [
        ("panda", LINK, {"limits": ControlLimits(clearance=-0.1)}, "clearance is -0.1"),
        ("panda", LINK, {"limits": ControlLimits(clearance=np.nan)}, "clearance is nan"),
        ("panda", LINK, {"limits": ControlLimits(clearance=True)}, "clearance is True"),
        ("panda", LINK, {"limits": ControlLimits(clearance="x")}, "clearance is 'x'"),
        ("panda", LINK, {"limits": ControlLimits(clearance=0.0), "world": []}, "world must be a World"),
        ("panda", LINK, {"world": World({})}, "needs ControlLimits.clearance"),
        ("panda", LINK, {"limits": ControlLimits(clearance=0.0), "world": FAR_FACE}, "'wall' has a size or a place of"),
        ("bare", LINK, {"limits": ControlLimits(clearance=0.0)}, "no collision model"),
        ("ball", "tip", {"limits": ControlLimits(clearance=0.0)}, "ball and floating"),
        ("loops", "coupler", {"limits": ControlLimits(clearance=0.0)}, "close loops"),
    ],
)
def test_what_it_does_not_take_is_refused(robot, link, options, match):
    made = {
        "panda": lambda: load_robot("panda"),
        "bare": lambda: load_robot("panda", collision="ignore"),
        "ball": lambda: load_urdf(urdf("ball", "base", joint("hip", "spherical", "base", "tip"))),
        "loops": lambda: load_robot("four_bar"),
    }[robot]()
    if robot in ("ball", "loops"):
        made = made.with_collision_model(CollisionModel({made.link_names[-1]: [[0.0, 0.0, 0.0, 0.01]]}, []))
    with pytest.raises(InputError, match=match):
        IKController(made, [link if link in made.link_names else made.link_names[-1]], **options)
    for attached in ({}, {"plate": PLATE}):
        with pytest.raises(InputError, match="checks no clearance"):
            IKController(load_robot("panda"), [LINK]).set_world(None, attached)


@pytest.mark.evidence_cases("speeds")
@pytest.mark.parametrize("more", [{}, {"acceleration": 10.0}], ids=["speeds", "accelerations"])
def test_what_a_hand_carries_is_no_nearer_than_the_clearance(panda, more):
    world, held = cell(), {"plate": PLATE}
    controller = IKController(panda, [LINK], limits=ControlLimits(clearance=MARGIN, **more), world=world)
    drawn = panda.random_joint_q(np.random.default_rng(0), 500)
    start = drawn[np.argmax(panda.collision(drawn, world, attached=held).clearance)]
    targets = random_targets(panda, [LINK], 6, seed=4)
    controller.reset(start)
    empty = panda.collision(ticks(controller, targets, 600)["joint_q"], world, attached=held).clearance
    assert empty.min() < 0.0  # nothing is attached yet
    controller.set_world(world, held)
    controller.reset(start)
    found = ticks(controller, targets, 600)
    check = panda.collision(found["joint_q"], world, attached=held)
    assert check.clearance.min() >= MARGIN
    near = check.clearance < MARGIN + 0.005
    assert any("plate" in pair for pair, is_near in zip(check.closest_pairs, near, strict=True) if is_near)
    seen = found["clearance"] < MARGIN + 0.1
    np.testing.assert_allclose(found["clearance"][seen], check.clearance[seen], atol=1e-5)
    controller.set_world(world)
    controller.reset(start)
    again = panda.collision(ticks(controller, targets, 600)["joint_q"], world, attached=held).clearance
    np.testing.assert_array_equal(again, empty)


@pytest.mark.evidence
def test_what_cannot_be_kept_off_what_is_carried_is_named(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(clearance=MARGIN))
    before = controller.step(pose_of(panda, HOME, LINK)).copy()
    ball, others = [[0.0, 0.0, 0.0, 0.5]], {*panda.link_names} - {"panda_link4"}
    with pytest.raises(InputError, match=r"'panda_link4' and 'ball' are at most .* AttachedObject\(touches"):
        controller.set_world(None, {"ball": AttachedObject(LINK, ball, others)})
    controller.set_world(None, {"ball": AttachedObject(LINK, ball, panda.link_names)})
    controller.set_world(None)
    controller.reset(HOME)
    after = controller.step(pose_of(panda, HOME, LINK))
    np.testing.assert_array_equal(after.joint_q, before.joint_q)

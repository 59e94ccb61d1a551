"""Clearance as a limit of a controller: judged in every tick by spheres on the host, in float64."""

from itertools import pairwise

import numpy as np
import pytest
from warp._src import context

from ik_service import Target, load_robot
from ik_service.control import ControlLimits, IKController, LimitKind
from ik_service.robots import Box, CollisionModel, Cylinder, HalfSpace, Sphere, World, load_urdf
from ik_service.solver.lm.status import IKStatus
from objectives import InputError
from tests.control.conftest import pose_of

MARGIN, DT, LINK, ROUNDING = 0.01, 1e-3, "panda_hand", 1e-9
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])


def home(robot):
    return np.concatenate([HOME, robot.mid_joint_q[len(HOME) :]])


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
    "two arms": ("dual_panda", ["left_panda_hand", "right_panda_hand"], {"acceleration": 10.0}, False, MARGIN),
}


@pytest.mark.evidence_cases("panda, accelerations", "panda, steps", "two arms")
@pytest.mark.parametrize("case", CASES)
def test_no_tick_is_nearer_than_the_clearance(case):
    name, links, more, in_cell, margin = CASES[case]
    robot, world = load_robot(name), cell() if in_cell else None
    limits = ControlLimits(clearance=margin, **more)
    controller = IKController(robot, links, limits=limits, world=world)
    start = free_start(robot, world)
    controller.reset(start)
    found = ticks(controller, random_targets(robot, links, 8, seed=4), 800)
    judged = robot.collision(found["joint_q"], world).clearance
    assert judged.min() >= margin
    assert (judged < margin + 0.005).sum() > 50  # it was near often enough to be tried
    seen = found["clearance"] < margin + 0.1
    np.testing.assert_allclose(found["clearance"][seen], judged[seen], atol=1e-5)
    assert (judged[~seen] > margin + 0.099).all()
    assert (found["joint_q"] >= robot.joint_limit_lower - ROUNDING).all()
    assert (found["joint_q"] <= robot.joint_limit_upper + ROUNDING).all()
    speeds = np.diff(found["joint_q"], axis=0, prepend=start[None]) / DT
    assert (np.abs(speeds) <= robot.joint_velocity_limit * (1.0 + 1e-9)).all()
    if "acceleration" in more:
        changes = np.diff(speeds, axis=0, prepend=np.zeros((1, speeds.shape[1]))) / DT
        assert np.abs(changes).max() <= more["acceleration"] * (1.0 + 1e-6)
    if "joint_step" in more:
        assert np.abs(speeds).max() * DT <= more["joint_step"] + ROUNDING
    assert IKStatus.BLOCKED_BY_COLLISION in found["status"]
    assert not found["success"][judged < margin].any()


@pytest.mark.evidence
def test_long_ticks_do_not_jump_through_an_obstacle(panda):
    """A ball between here and there, and ticks in which a hand moves further than the ball is wide."""
    robot, start = panda, home(panda)
    target = pose_of(robot, np.concatenate([[1.5], start[1:]]), LINK)
    middle = pose_of(robot, np.concatenate([[0.75], start[1:]]), LINK)[:3]
    world = World({"ball": Sphere(0.03, tuple(middle))})
    controller = IKController(robot, [LINK], limits=ControlLimits(clearance=MARGIN), world=world)
    controller.reset(start)
    q = [start, *(controller.step(target, dt=0.4).joint_q[0].copy() for _ in range(20))]
    for before, after in pairwise(q):
        between = before + np.linspace(0.0, 1.0, 200)[:, None] * (after - before)
        assert robot.collision(between, world).clearance.min() >= MARGIN
    free = IKController(robot, [LINK])
    free.reset(start)
    by_itself = [start, *(free.step(target, dt=0.4).joint_q[0].copy() for _ in range(20))]
    ways = [a + s * (b - a) for a, b in pairwise(by_itself) for s in np.linspace(0, 1, 200)]
    assert robot.collision(np.array(ways), world).clearance.min() < 0.0  # the ball is in the way


@pytest.mark.evidence
def test_a_hand_slides_along_a_wall_to_the_nearest_place(panda):
    """The target is behind a wall; sideways it is met, and the wall is kept off."""
    robot, start = panda, home(panda)
    first = pose_of(robot, start, LINK)
    world = World({"wall": HalfSpace((-1.0, 0.0, 0.0), -(first[0] + 0.12))})
    controller = IKController(
        robot,
        [Target(LINK, row_weights=[1.0, 1.0, 1.0, 0.0, 0.0, 0.0])],
        limits=ControlLimits(clearance=MARGIN),
        world=world,
    )
    controller.reset(start)
    target = first.copy()
    target[:3] += [0.4, 0.25, -0.1]
    for _ in range(4000):
        result = controller.step(target)
    reached = pose_of(robot, result.joint_q[0], LINK)
    assert MARGIN <= robot.collision(result.joint_q, world).clearance[0] < MARGIN + 0.002
    np.testing.assert_allclose(reached[1:3], target[1:3], atol=2e-3)
    assert result.status[0] == IKStatus.BLOCKED_BY_COLLISION
    assert not result.success[0]
    assert LimitKind.CLEARANCE in result.blocking().values()


@pytest.mark.evidence
def test_a_redundant_arm_gives_way_and_still_meets_its_target(panda):
    """A ball comes to the elbow while the hand is to stay where it is."""
    robot, start = panda, home(panda)
    target = pose_of(robot, start, LINK)
    elbow = pose_of(robot, start, "panda_link4")[:3]
    controller = IKController(robot, [LINK], limits=ControlLimits(clearance=MARGIN))
    controller.reset(start)
    nearest = np.inf
    for k in range(1500):
        ball = Sphere(0.05, tuple(elbow + np.array([0.0, 0.3 - 0.0002 * min(k, 1000), 0.0])))
        world = World({"ball": ball})
        controller.set_world(world)
        result = controller.step(target)
        nearest = min(nearest, robot.collision(result.joint_q, world).clearance[0])
    assert nearest > 0.8 * MARGIN  # the ball moves, which no limit promises anything about
    assert robot.collision(start, world).clearance[0] < MARGIN
    assert result.success[0]
    assert result.position_error[0, 0] < 1e-3


def test_robots_that_are_too_near_come_apart_and_tell_so(panda):
    robot, start = panda, home(panda)
    margin, center = 0.02, pose_of(robot, start, LINK)[:3] - [0.0, 0.0, 0.3]
    radii = np.linspace(0.01, 0.3, 200)
    worlds = [World({"ball": Sphere(radius, tuple(center))}) for radius in radii]
    clearances = np.array([robot.collision(start, world).clearance[0] for world in worlds])
    nearest = np.flatnonzero(clearances > 0.008)[-1]
    world, before = worlds[nearest], clearances[nearest]
    assert before < 0.5 * margin
    controller = IKController(robot, [LINK], limits=ControlLimits(clearance=margin, acceleration=10.0), world=world)
    controller.reset(start)
    found = ticks(controller, [pose_of(robot, start, LINK)], 800)
    judged = robot.collision(found["joint_q"], world).clearance
    assert judged.min() > before - 5e-4
    assert judged[-1] >= margin
    assert not found["success"][judged < margin].any()
    assert (found["status"][judged < margin] == IKStatus.BLOCKED_BY_COLLISION).all()


@pytest.mark.evidence
def test_robots_do_what_each_does_alone(panda):
    robot, world = panda, cell()
    targets = random_targets(robot, [LINK], 5, seed=7)
    starts = robot.random_free_joint_q(np.random.default_rng(1), 5, world)
    limits = ControlLimits(clearance=0.0, acceleration=10.0)
    together = IKController(robot, [LINK], robots=5, limits=limits, world=world)
    together.reset(starts)
    every = [together.step(targets[:, None, 0]).copy() for _ in range(120)]
    for k in range(5):
        alone = IKController(robot, [LINK], limits=limits, world=world)
        alone.reset(starts[k])
        for result in every:
            own = alone.step(targets[k])
            assert own.joint_q.tobytes() == result.joint_q[k].tobytes()
            assert own.status[0] == result.status[k]
            assert own.clearance[0] == result.clearance[k]


@pytest.mark.evidence
def test_links_that_nothing_parts_hold_nothing_back():
    """Spheres of two links of a UR5e are 0.6 mm apart whatever the joints do."""
    robot = load_robot("ur5e")
    start = robot.random_free_joint_q(np.random.default_rng(0), 1)[0]
    goal = robot.random_free_joint_q(np.random.default_rng(3), 1)[0]
    controller = IKController(robot, ["tool0"], limits=ControlLimits(clearance=MARGIN, acceleration=20.0))
    controller.reset(start)
    target = pose_of(robot, goal, "tool0")
    for _ in range(4000):
        result = controller.step(target)
    assert result.success[0]
    assert result.clearance[0] > MARGIN
    assert robot.collision(result.joint_q).clearance[0] < 0.001


def near_a_wall(robot, **limits):
    """A controller whose robot has come to a wall, and the pose behind it."""
    world = World({"wall": HalfSpace((-1.0, 0.0, 0.0), -0.6)})
    controller = IKController(robot, [LINK], limits=ControlLimits(clearance=MARGIN, **limits), world=world)
    controller.reset(home(robot))
    behind = pose_of(robot, home(robot), LINK) + np.array([0.4, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    for _ in range(1000):
        result = controller.step(behind)
    assert result.clearance[0] < MARGIN + 0.005
    return controller, behind


@pytest.mark.parametrize("limits", [{}, {"acceleration": 10.0}], ids=["speeds", "accelerations"])
def test_targets_without_numbers_leave_a_robot_where_it_is(panda, limits):
    controller, behind = near_a_wall(panda, **limits)
    before = controller.step(behind).copy()
    for _ in range(300):
        result = controller.step(np.full(7, np.nan))
        assert result.status[0] in (IKStatus.INVALID, IKStatus.BLOCKED_BY_COLLISION)
        assert np.isfinite(result.joint_q).all()
    assert np.abs(result.joint_q - before.joint_q).max() < 0.05
    assert not result.joint_qd.any()
    for _ in range(200):
        result = controller.step(behind)
    assert result.status[0] == IKStatus.BLOCKED_BY_COLLISION
    fresh = IKController(panda, [LINK], limits=ControlLimits(clearance=MARGIN, **limits), world=World({}))
    fresh.reset(result.joint_q[0])  # no target was ever given to it
    assert np.isfinite(fresh.step().joint_q).all()


@pytest.mark.evidence
def test_a_target_without_numbers_leaves_the_other_arm_alone():
    robot = load_robot("dual_panda")
    controller = IKController(robot, ["left_panda_hand", "right_panda_hand"], limits=ControlLimits(clearance=MARGIN))
    start = free_start(robot, None)
    controller.reset(start)
    targets = random_targets(robot, ["left_panda_hand", "right_panda_hand"], 1, seed=2)[0]
    targets[0] = np.nan
    found = ticks(controller, [targets], 600)
    assert np.isfinite(found["joint_q"]).all()
    assert (found["joint_q"][-1, :7] == start[:7]).all()
    assert np.abs(found["joint_q"][-1, 7:] - start[7:]).max() > 0.1
    assert robot.collision(found["joint_q"]).clearance.min() >= MARGIN


@pytest.mark.evidence
@pytest.mark.parametrize("links", [["right_panda_hand"], ["left_panda_hand", "right_panda_hand"]])
def test_a_robot_of_which_a_joint_is_not_known_brakes(links):
    """Of the left arm nobody knows where it is: the right one, which could run into it, stops."""
    robot = load_robot("dual_panda")
    controller = IKController(robot, links, limits=ControlLimits(clearance=MARGIN, acceleration=10.0))
    controller.reset(free_start(robot, None))
    targets = random_targets(robot, links, 1, seed=2)[0]
    for _ in range(200):
        result = controller.step(targets)
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
    robot, world = panda, cell()
    controller = IKController(robot, [LINK], limits=ControlLimits(clearance=MARGIN), world=world)
    controller.reset(free_start(robot, world))
    found = []
    for target in random_targets(robot, [LINK], 4, seed=9):
        found += [controller.step(target, deadline_ns=0).joint_q[0].copy() for _ in range(800)]
    judged = robot.collision(np.array(found), world).clearance
    assert judged.min() >= MARGIN
    assert (judged < MARGIN + 0.005).sum() > 50


def test_other_obstacles_compile_nothing(panda, monkeypatch):
    robot = panda
    controller = IKController(robot, [LINK], limits=ControlLimits(clearance=MARGIN))
    controller.reset(home(robot))
    controller.warmup()
    monkeypatch.setattr(context.Module, "_compile", lambda *_, **__: pytest.fail("compiled"))
    far = pose_of(robot, home(robot), LINK) + np.array([0.0, 0.0, -0.4, 0.0, 0.0, 0.0, 0.0])
    low = far[2] + 0.2
    for count in (0, 1, 40):
        objects = {f"ball_{k}": Sphere(0.02, (0.7, 0.1 * k, 1.5)) for k in range(count)}
        if count:
            objects["floor"] = HalfSpace((0.0, 0.0, 1.0), low)
        controller.set_world(World(objects) if count else None)
        controller.reset(home(robot))
        for _ in range(1500):
            result = controller.step(far)
        assert (result.clearance[0] < MARGIN + 0.002) == (count > 0)
        assert result.success[0] == (count == 0)


@pytest.mark.evidence
def test_without_the_limit_a_tick_tells_no_clearance(panda):
    controller = IKController(panda, [LINK])
    controller.reset(home(panda))
    assert np.isinf(controller.step(pose_of(panda, home(panda), LINK)).clearance).all()


BALL = (
    '<robot name="ball"><link name="base"/><link name="tip"/><joint name="hip" type="spherical">'
    '<parent link="base"/><child link="tip"/></joint></robot>'
)


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
        "ball": lambda: load_urdf(BALL),
        "loops": lambda: load_robot("four_bar"),
    }[robot]()
    if robot in ("ball", "loops"):
        made = made.with_collision_model(CollisionModel({made.link_names[-1]: [[0.0, 0.0, 0.0, 0.01]]}, []))
    with pytest.raises(InputError, match=match):
        IKController(made, [link if link in made.link_names else made.link_names[-1]], **options)


def test_a_world_needs_the_limit(panda):
    with pytest.raises(InputError, match="checks no clearance"):
        IKController(panda, [LINK]).set_world(None)

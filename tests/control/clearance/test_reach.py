"""How far joints move spheres, and for how long links stay clear of each other and of objects."""

import numpy as np
import pytest
import warp as wp

from ik_service import load_robot
from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.body_spheres import farthest_slides, levers
from ik_service.collision.check import pair_distance, sphere_centers
from ik_service.collision.clearance import time_to_contact_function
from ik_service.collision.collision_data import CollisionData
from ik_service.compiler import Lanes
from ik_service.control.clearance.limit import pairs_to_keep
from ik_service.robots import Box, CollisionModel, Sphere, World, load_urdf
from objectives import InputError
from tests.collision.test_clearance import MIXED, WORLD, pair_distances, with_spheres
from tests.robots.urdf_text import joint, urdf

FEW = World({"ball": Sphere(0.1, (0.6, 0.3, 0.4)), "box": Box((0.2, 0.2, 0.2), (-0.5, 0.2, 0.5, 0.0, 0.0, 0.0, 1.0))})


def without_turns(urdf):
    """The robot without its ball and floating joints, which levers do not count."""
    return urdf.replace('type="floating"', 'type="revolute"').replace('type="spherical"', 'type="continuous"')


ROBOTS = {
    "panda": lambda: load_robot("panda"),
    "mixed": lambda: load_urdf(without_turns(MIXED).replace('type="planar"', 'type="prismatic"')),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_no_sphere_moves_further_than_its_lever(name):
    robot = with_spheres(ROBOTS[name]())
    spheres, of_links = robot.body_spheres, levers(robot, robot.body_spheres)
    start = robot.random_joint_q(np.random.default_rng(0), 500)
    link = np.repeat(np.arange(len(spheres.links)), np.diff(spheres.link_start))
    before = sphere_centers(robot, spheres, start)
    for c in range(robot.joint_coord_count):
        by = np.zeros(robot.joint_coord_count)
        by[c] = 1e-4
        moved = np.linalg.norm(sphere_centers(robot, spheres, start + by) - before, axis=-1).max(axis=1) / 1e-4
        stays = of_links[link, c] == 0.0
        assert (moved <= of_links[link, c] * (1.0 + 1e-6)).all()
        assert (moved[stays] < 1e-9).all()
        assert stays.all() or moved.max() > 0.2 * of_links[:, c].max()
    model = CollisionModel({"panda_link2": [[0.0, 0.0, 0.0, 0.05]]}, [])
    few = load_robot("panda").with_collision_model(model)
    assert levers(few, few.body_spheres).shape == (1, 7)
    assert (levers(few, few.body_spheres)[0, 2:] == 0.0).all()  # no sphere is beyond those joints


def test_a_joint_that_turns_what_slides_without_a_limit_is_named():
    robot = with_spheres(load_urdf(MIXED.replace('type="floating"', 'type="revolute"')))
    with pytest.raises(InputError, match="turns a joint that slides"):
        levers(robot, robot.body_spheres)


@pytest.mark.parametrize("lanes", [Lanes.on_cpu(), Lanes(1)], ids=["packets", "one by one"])
@pytest.mark.parametrize("name", ROBOTS)
def test_nothing_comes_nearer_before_the_time(name, lanes):
    robot, world = (load_robot("panda"), FEW) if name == "panda" else (with_spheres(ROBOTS[name]()), WORLD)
    count, kept, longest = 300, 0.005, 5.0
    model = robot.on_device("cpu")
    data = CollisionData(model, lanes)
    data.use((world,), np.zeros(1, np.int32), None, {}, 0.0)
    time_to_contact, width = time_to_contact_function(data.size), data.size.coordinates
    configuration = wp.types.vector(width, wp.float32)

    @wp.kernel(module="unique", enable_backward=False)
    def measure(
        joint_q: wp.array2d[float],
        joint_qd: wp.array2d[float],
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        levers: wp.array2d[float],
        farthest: wp.array[float],
        time_out: wp.array[float],
    ):
        p = wp.tid()
        q = configuration()
        speeds = configuration()
        for k in range(width):
            q[k] = joint_q[p, k]
            speeds[k] = wp.abs(joint_qd[p, k])
        time_out[p] = time_to_contact(p, q, spheres, worlds, levers, farthest, speeds, kept, longest)

    rng = np.random.default_rng(2)
    start = robot.random_joint_q(rng, count).astype(np.float32)
    slides = np.isfinite(farthest_slides(robot))
    start[count // 2 :, slides] *= 4.0  # beyond limits
    speeds = rng.uniform(-0.2, 0.2, start.shape).astype(np.float32)
    speeds[: count // 3, : width // 2] = 0.0
    speeds[0] = 0.0
    times = wp.zeros(count, dtype=float, device="cpu")
    given = [wp.array(values, dtype=float, device="cpu") for values in (start, speeds)]
    of_links = wp.array(levers(robot, robot.body_spheres).astype(np.float32), dtype=float, device="cpu")
    farthest = wp.array(farthest_slides(robot).astype(np.float32), dtype=float, device="cpu")
    inputs = [*given, data.spheres(range(robot.trees.ntree)), data.worlds, of_links, farthest]
    wp.launch(measure, count, inputs, [times], device="cpu")
    found = times.numpy()
    assert found[0] == longest
    before = pair_distances(robot, start.astype(float), world)
    assert (found <= longest).all()
    assert (found > 0.01).mean() > 0.2
    moved = np.abs(pair_distances(robot, start + 1e-3 * speeds.astype(float), world) - before) > 1e-9
    for share in rng.uniform(0.0, 1.0, (20, 1)):
        after = pair_distances(robot, start + share * found[:, None] * speeds.astype(float), world)
        assert (after >= np.minimum(kept, before) - 1e-5)[moved & (found[:, None] > 0.0)].all()


def test_links_that_nothing_parts_are_left_out():
    """Spheres of two neighbours of a UR5e stay 0.6 mm apart; all other pairs can be further apart than a centimetre."""
    robot = load_robot("ur5e")
    spheres = robot.body_spheres
    (left_out,) = np.flatnonzero(~pairs_to_keep(robot, spheres, 0.01))
    drawn = robot.random_joint_q(np.random.default_rng(5), 300)
    distances = pair_distance(spheres, sphere_centers(robot, spheres, drawn), *spheres.pairs[left_out])
    assert distances.max() < 0.001
    assert pairs_to_keep(robot, spheres, 0.0).all()


def test_a_clearance_that_two_links_never_have_is_refused_with_their_names():
    """Fingers that are 4 cm apart where they are open."""
    ends = (("left", "0 0.03 0", "0 -1 0"), ("right", "0 -0.03 0", "0 1 0"))
    fingers = [joint(f"slide_{a}", "prismatic", "palm", a, xyz, axis=axis, limit=(0, 0.03)) for a, xyz, axis in ends]
    model = CollisionModel({side: [[0.0, 0.0, 0.0, 0.01]] for side in ("left", "right")}, [("left", "right")])
    hand = load_urdf(urdf("hand", "palm", *fingers)).with_collision_model(model)
    assert pairs_to_keep(hand, hand.body_spheres, 0.03).all()
    with pytest.raises(InputError, match=r"'left' and 'right' are at most 0.0[34].* m apart"):
        pairs_to_keep(hand, hand.body_spheres, 0.05)

"""Clearance and near pairs of one configuration in a kernel, against the host's float64 check, for all joint types."""

import numpy as np
import pytest
import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.check import sphere_centers
from ik_service.collision.clearance import ClearanceSize, approaches_function, clearance_function
from ik_service.collision.collision_data import CollisionData
from ik_service.compiler import Lanes
from ik_service.mechanism.joint_type import JointType
from ik_service.robots import Box, Capsule, CollisionModel, Cylinder, DistanceGrid, HalfSpace, Sphere, World
from ik_service.robots.readers.catalog import load_robot, load_urdf
from tests.robots.urdf_text import joint, urdf

JOINTS = ("revolute", "prismatic", "planar", "floating", "spherical", "continuous")
PARTS = [
    joint(f"j{k}", kind, f"l{k}", f"l{k + 1}", "0.1 0.05 0.2", f"0.3 -0.2 0.{k}", f"0.6 -0.{k} 0.8", (-1, 1))
    for k, kind in enumerate(JOINTS)
]
MIXED = urdf("mixed", "l0", *PARTS)
OF_PAIR = 4  # spheres of two links, or of a link and an object, that count
TURNED = (0.3, 0.1, 0.4, 0.0, 0.6, 0.0, 0.8)
ROUGH = DistanceGrid(np.random.default_rng(4).normal(0.1, 0.08, (4, 3, 5)), 0.15, (-0.4, 0.2, 0.0, 0.0, 0.6, 0.0, 0.8))
WORLD = World(
    {
        "box": Box((0.4, 0.3, 0.2), TURNED),
        "ball": Sphere(0.2, (-0.3, 0.4, 0.6)),
        "post": Capsule(0.05, 0.5, TURNED),
        "can": Cylinder(0.2, 0.4, (-0.5, -0.3, 0.2, 0.6, 0.0, 0.0, 0.8)),
        "floor": HalfSpace((0.0, 0.6, 0.8), -0.3),
        "rock": ROUGH,
        "egg": DistanceGrid.sampled(Sphere(0.15).signed_distance, [-0.2] * 3, [0.2] * 3, 0.05).placed(TURNED),
    }
)


def with_spheres(robot):
    rng, links, spheres = np.random.default_rng(0), robot.link_names, {}
    for link, n in zip(links, rng.integers(1, 12, len(links)), strict=True):
        spheres[link] = np.column_stack([rng.normal(0.0, 0.04, (n, 3)), rng.uniform(0.01, 0.03, n)])
    return robot.with_collision_model(CollisionModel(spheres, [(a, b) for a in links for b in links if a < b][::3]))


@pytest.mark.evidence_cases("panda-packets")
@pytest.mark.parametrize("lanes", [Lanes.on_cpu(), Lanes(1)], ids=["packets", "one by one"])
@pytest.mark.parametrize("make", [lambda: load_robot("panda"), lambda: load_urdf(MIXED)], ids=["panda", "mixed"])
def test_clearance_is_that_of_the_host(make, lanes):
    robot = with_spheres(make())
    model = robot.on_device("cpu")
    data = CollisionData(model, lanes)
    enabled = np.random.default_rng(1).random((400, len(WORLD.objects))) < 0.5
    data.use((WORLD,), np.zeros(1, np.int32), enabled, {}, 0.0)
    assert isinstance(data.size, ClearanceSize)
    clearance, count = clearance_function(data.size), data.size.coordinates
    configuration = wp.types.vector(count, wp.float32)

    @wp.kernel(module="unique", enable_backward=False)
    def check(
        joint_q: wp.array2d[float],
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        least: float,
        clearance_out: wp.array[float],
    ):
        p = wp.tid()
        q = configuration()
        for k in range(count):
            q[k] = joint_q[p, k]
        clearance_out[p] = clearance(p, q, spheres, worlds, least)

    joint_q = robot.random_joint_q(np.random.default_rng(2), 400).astype(np.float32)
    found = wp.zeros(400, dtype=float, device="cpu")
    spheres = data.spheres(range(robot.trees.ntree))
    given = wp.array(joint_q, dtype=float, device="cpu")
    expected = robot.collision(joint_q.astype(float), WORLD, enabled).clearance
    for least in (10.0, float(np.median(expected))):
        wp.launch(check, 400, [given, spheres, data.worlds, least], [found], device="cpu")
        np.testing.assert_allclose(found.numpy(), np.minimum(expected, least), atol=3e-6)


def sphere_distances(robot, joint_q, world=WORLD):
    """Distances of each sphere of links from another link that is checked, or from an object: lists of two, [n, own].

    Of a pair of links it is the link with fewer spheres whose spheres count.
    """
    spheres = robot.body_spheres
    centers, found = sphere_centers(robot, spheres, joint_q), []
    counts = np.diff(spheres.link_start)
    for pair in spheres.pairs:
        a, b = pair[::-1] if counts[pair[0]] > counts[pair[1]] else pair
        one, other = spheres.of_link(a), spheres.of_link(b)
        gaps = np.linalg.norm(centers[one, None] - centers[None, other], axis=-1)
        reach = spheres.radii[one, None] + spheres.radii[None, other]
        found.append((gaps - reach[..., None]).min(axis=1).T)
    for shape in world.objects.values():
        own = shape.signed_distance(centers) - spheres.radii[:, None]
        found += [own[spheres.of_link(k)].T for k, body in enumerate(spheres.link_body) if body >= 0]
    return found


def pair_distances(robot, joint_q, world=WORLD):
    """Distances of all pairs that are checked, of links and of links and objects, [n, pairs]."""
    return np.stack([own.min(axis=1) for own in sphere_distances(robot, joint_q, world)], axis=-1)


@pytest.mark.evidence_cases("mixed-packets", "panda-one by one")
@pytest.mark.parametrize("lanes", [Lanes.on_cpu(), Lanes(1)], ids=["packets", "one by one"])
@pytest.mark.parametrize("make", [lambda: load_robot("panda"), lambda: load_urdf(MIXED)], ids=["panda", "mixed"])
def test_what_is_near_has_the_distances_and_slopes_of_the_host(make, lanes):
    robot, count, most, least = with_spheres(make()), 60, 12, 0.4
    data = CollisionData(robot.on_device("cpu"), lanes)
    data.use((WORLD,), np.zeros(1, np.int32), None, {}, 0.0)
    approaches, width = approaches_function(data.size), data.size.coordinates
    configuration = wp.types.vector(width, wp.float32)

    @wp.kernel(module="unique", enable_backward=False)
    def look(
        joint_q: wp.array2d[float],
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        least: float,
        gaps: wp.array2d[float],
        slopes: wp.array3d[float],
        count_out: wp.array[int],
    ):
        p = wp.tid()
        q = configuration()
        for k in range(width):
            q[k] = joint_q[p, k]
        count_out[p] = approaches(p, q, spheres, worlds, least, gaps, slopes)

    joint_q = robot.random_joint_q(np.random.default_rng(2), count).astype(np.float32)
    gaps = wp.zeros((count, most), dtype=float, device="cpu")
    slopes, found = wp.zeros((count, most, width), dtype=float, device="cpu"), wp.zeros(count, dtype=int, device="cpu")
    spheres = data.spheres(range(robot.trees.ntree))
    given = wp.array(joint_q, dtype=float, device="cpu")
    wp.launch(look, count, [given, spheres, data.worlds, least], [gaps, slopes, found], device="cpu")
    start = joint_q.astype(float)

    def distances(joint_q):
        return np.concatenate(sphere_distances(robot, joint_q), axis=1)

    places = [np.argsort(np.argsort(own, axis=1), axis=1) for own in sphere_distances(robot, start)]
    listed = np.where(np.concatenate(places, axis=1) < OF_PAIR, distances(start), np.inf)
    order = np.argsort(listed, axis=1)[:, :most]
    expected = np.take_along_axis(listed, order, axis=1)
    np.testing.assert_array_equal(found.numpy(), (expected < least).sum(axis=1))
    compared = 0
    kinds = np.repeat(robot.joint_type, np.diff(robot.joint_q_start))
    for c in range(width):
        step = np.zeros(width)
        step[c] = 1e-4
        if kinds[c] in (JointType.FLOATING, JointType.BALL):
            assert not slopes.numpy()[:, :, c].any()
            continue
        ahead, behind = (np.take_along_axis(distances(start + by), order, axis=1) for by in (step, -step))
        forward, backward = (ahead - expected) / 1e-4, (expected - behind) / 1e-4
        for p in range(count):
            known = np.arange(most) < found.numpy()[p]
            gap = np.abs(np.subtract.outer(expected[p], expected[p])) + np.eye(most)
            smooth = known & (np.abs(forward[p] - backward[p]) < 2e-3) & (gap.min(axis=1) > 1e-4)
            np.testing.assert_allclose(gaps.numpy()[p, known], expected[p, known], atol=3e-6)
            np.testing.assert_allclose(slopes.numpy()[p, smooth, c], (forward + backward)[p, smooth] / 2, atol=3e-3)
            compared += int(smooth.sum())
    assert compared > 5 * count
